"""What `lower-stages` and `materialize-tiles` consist of: how tiles become Kernel IR."""
