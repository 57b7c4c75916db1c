"""Rewrites of loop kernels that several passes use."""
