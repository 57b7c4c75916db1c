"""Staging: slabs of inputs, and what is computed of them, come into shared memory."""
