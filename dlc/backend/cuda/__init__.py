"""Prints kernels as CUDA C and compiles them with nvcc."""
