"""Replacing, nesting and renaming axes, for all scheduling steps."""
