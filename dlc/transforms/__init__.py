"""One pass a file, named after it."""
