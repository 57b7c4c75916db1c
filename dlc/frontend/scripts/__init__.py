"""Texts and scripts: which of their statements are the program, and which run beside it."""
