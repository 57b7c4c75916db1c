"""On what, with what and from which state of dlc something was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dlc import version
from dlc.backend.cache import content_key
from dlc_bench.device import Device

_PACKAGE = Path(version.__file__).parent
_QUERY = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem",
          "temperature.gpu", "power.draw")  # fmt: skip


def forbid_tf32() -> None:
    """Products of fp32 numbers are of fp32 numbers, in PyTorch and in what it calls."""
    settle_tf32(False)


def settle_tf32(allowed: bool) -> None:
    """Whether products of fp32 numbers may be of tf32, in PyTorch and in what it calls."""
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def tf32_allowed() -> bool:
    """What PyTorch says it does now."""
    return bool(torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)


def sources_key() -> str:
    """Differs whenever dlc does."""
    return content_key(*(path.read_text() for path in sorted(_PACKAGE.rglob("*.py"))))


def commit() -> str:
    """$DLC_COMMIT, or that of the checkout, with `-dirty` after it where files differ."""
    if given := os.environ.get("DLC_COMMIT"):
        return given
    command = ["git", "-C", str(_PACKAGE.parent), "describe", "--always", "--dirty", "--abbrev=40"]
    return _output(command) or "unknown"


def environment(device: Device) -> dict[str, Any]:
    """Everything that a figure depends on, as JSON takes it."""
    return {
        "device": device.name,
        "backend": device.backend,
        "driver": None,
        "clocks": {},
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cublas": _cublas_version() if device.backend == "cuda" else None,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "tf32": tf32_allowed(),
        "commit": commit(),
        "sources": sources_key(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "peak_flops": device.limits.flops,
        "peak_bandwidth": device.limits.bandwidth,
    } | (_gpu_state(device) if device.backend == "cuda" else {})


def _gpu_state(device: Device) -> dict[str, Any]:
    """Driver and clocks, asked of nvidia-smi; nothing is set."""
    index = str(device.torch.index or 0)
    said = _output(
        ["nvidia-smi", "-i", index, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader"]
    )
    values = dict(zip(_QUERY, (v.strip() for v in said.split(",")), strict=False)) if said else {}
    return {"driver": values.pop("driver_version", None), "clocks": values}


def _cublas_version() -> str | None:
    """Of the wheel that PyTorch loads it from; None where it comes from elsewhere."""
    for wheel in ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12"):
        try:
            return importlib.metadata.version(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _output(command: list[str]) -> str:
    """What a command prints; nothing where it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
