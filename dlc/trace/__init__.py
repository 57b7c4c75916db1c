"""The trace of a program: its six IRs line by line, what each pass did, and what kernels cost."""
