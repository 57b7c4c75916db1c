"""Passes that make and merge Loop IR: the `l` steps of the pipeline."""
