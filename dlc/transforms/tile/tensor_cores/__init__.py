"""What scheduling steps do for tensor cores."""
