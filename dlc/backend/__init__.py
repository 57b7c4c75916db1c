"""Backends run printed kernels: ``cuda`` compiles them with nvcc, ``host`` with a C++ compiler."""


class BackendError(Exception):
    """A compiler is missing or refuses a kernel; the message is a sentence for the user."""


class LaunchError(BackendError):
    """A kernel failed while it ran on the host; the message names block and threads."""
