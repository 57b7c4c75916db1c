"""Exported programs: how tests build and run them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch


def build(directory: Path, scheduler: Path) -> None:
    shutil.copy(scheduler, directory / "host")
    made = subprocess.run(
        ["make", "-j2", "HOST=1", "-C", str(directory)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr


def run(directory: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    (directory / "out").mkdir(exist_ok=True)
    command = [directory / "run", directory, directory / "out", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """As the files have it: NumPy knows no bf16, whose bits are written."""
    tensor = tensor.detach()
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
