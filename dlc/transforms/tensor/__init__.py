"""Passes that make and simplify Tensor IR: the `d` steps of the pipeline."""
