"""Why operations that have no decomposition are refused."""

from __future__ import annotations

import re

from dlc.transforms.tensor.decompositions.creation import RANDOM

UNKNOWN = "nobody has written it yet"
_REASONS = {
    "|".join(sorted(RANDOM)): "it draws random numbers; draw them outside and pass "
    "them as an argument",
    r"\w+_backward": "derivatives are not compiled",
    r"_fft_\w+": "complex numbers are not compiled",
    r"nonzero|_local_scalar_dense|sym_\w+": "the shape or the number depends on data",
    r"empty_strided|sym_storage_offset": "it depends on how a tensor lies in memory",
    r"\w+\.\w*out": "it writes to its argument; torch.export makes it functional",
}
"""By patterns of names, with or without their overloads."""


def reason_against(name: str) -> str:
    """Why dlc has no decomposition of an operation such as `nonzero.default`."""
    for pattern, reason in _REASONS.items():
        if re.fullmatch(pattern, name) or re.fullmatch(pattern, name.partition(".")[0]):
            return reason
    return UNKNOWN
