"""Which dlc this is."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from functools import cache

from dlc import plugins

VERSION = "0.1.0"


def source_key() -> str:
    """
    Differs after any change of dlc's own files or of plug-ins, for other plug-ins, and for another
    release of xDSL.
    """
    own, others = _own_key(), plugins.key()
    return hashlib.sha256(f"{own} {others}".encode()).hexdigest() if others else own


@cache
def _own_key() -> str:
    root = os.path.dirname(__file__)
    digest = hashlib.sha256(f"{VERSION} {importlib.metadata.version('xdsl')}".encode())
    found = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    for path in sorted(path for path in found if path.endswith(".py")):
        state = os.stat(path)
        place = path.removeprefix(root)
        digest.update(f"{place} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
