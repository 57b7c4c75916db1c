"""Compiled programs as files: IR, machine code and constants, which are loaded as they are."""
