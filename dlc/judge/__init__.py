"""Judges results: accuracy, references, and inputs to compare on."""
