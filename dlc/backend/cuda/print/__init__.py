"""Kernel IR as CUDA C."""
