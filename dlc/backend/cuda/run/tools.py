"""Finds the programs of the CUDA toolkit."""

import os
import shutil
from pathlib import Path

TOOLKIT = "/usr/local/cuda"


def find_tool(name: str) -> Path | None:
    """From PATH, else from $CUDA_HOME or $CUDA_PATH, else from where toolkits are installed."""
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), TOOLKIT)
    for place in (None, *(str(Path(home) / "bin") for home in homes if home)):
        if found := shutil.which(name, path=place):
            return Path(found)
    return None
