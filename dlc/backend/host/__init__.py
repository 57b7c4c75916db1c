"""Runs printed kernels on the CPU: the text itself, compiled against ``dlc_host.h``."""
