"""Passes that make Kernel IR: the `k` steps of the pipeline."""
