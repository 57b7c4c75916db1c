"""Backends run printed kernels: ``cuda`` compiles them with nvcc, ``host`` with a C++ compiler."""

from collections.abc import Mapping

from dlc import plugins
from dlc.diagnostics import did_you_mean
from dlc.plugins import DLC

BACKENDS: Mapping[str, object] = plugins.BACKENDS
"""By name, functions of `sync`; those of plug-ins included."""
DLC.backend("host", "dlc.backend.executor:host_backend")
DLC.backend("cuda", "dlc.backend.executor:cuda_backend")


def backend_hint(name: str) -> str:
    """What to write for an unknown backend."""
    meant = {"gpu": "cuda", "cpu": "host"}.get(name.partition(":")[0], name)
    return did_you_mean(meant, BACKENDS) or f"the backends are {' and '.join(BACKENDS)}"


class BackendError(Exception):
    """A compiler is missing or refuses a kernel; the message is a sentence for the user."""


class LaunchError(BackendError):
    """A kernel failed while it ran on the host; the message names block and threads."""
