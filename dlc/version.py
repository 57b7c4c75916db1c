"""Which dlc this is."""

from __future__ import annotations

import hashlib
import os
from functools import cache

from dlc import plugins
from dlc.source_files import state_of

VERSION = "0.1.0"
_ROOT = os.path.dirname(__file__)
_IMPORTED = state_of(_ROOT)
"""Of the files that run: those of now may be others."""


def source_key() -> str:
    """
    Differs after any change of dlc's own files or of plug-ins, for other plug-ins, and for another
    release of xDSL. It is of the files as they were when they were imported.
    """
    own, others = _own_key(), plugins.key()
    return hashlib.sha256(f"{own} {others}".encode()).hexdigest() if others else own


def is_as_imported() -> bool:
    """
    True if what runs is what `source_key` is of: no file of dlc or of a plug-in has changed since,
    and nothing in their tables was written by a notebook or a script.
    """
    return plugins.are_in_files() and plugins.are_as_found() and state_of(_ROOT) == _IMPORTED


@cache
def _own_key() -> str:
    import importlib.metadata  # PyTorch does, too, later than the command line is read

    return hashlib.sha256(
        f"{VERSION} {importlib.metadata.version('xdsl')} {_IMPORTED}".encode()
    ).hexdigest()
