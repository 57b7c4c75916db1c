"""Kernels that are one but for where they store."""
