"""What `materialize-tiles` consists of: how axes, values and memory become Kernel IR."""
