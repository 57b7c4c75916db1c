"""Measuring: contenders, checked and then timed side by side, and what can be told of kernels."""
