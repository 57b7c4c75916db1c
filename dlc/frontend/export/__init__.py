"""Exported calls of PyTorch modules and functions as Torch IR: arguments, sizes, results."""
