"""Writes an exported program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from xdsl.dialects.builtin import ModuleOp

from dlc.backend import BackendError
from dlc.backend.cuda.print.line_directives import PlaceOf
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.export.check_directory import MANIFEST, check_directory
from dlc.backend.export.manifest import manifest
from dlc.backend.export.plan import ExportPlan, KernelFacts
from dlc.backend.export.run_cpp import host_entry, main_text, makefile
from dlc.target import target_of

_HERE = Path(__file__).parent
_HOST = _HERE.parent / "host"
WEIGHTS = "weights.safetensors"


def export_program(
    module: ModuleOp,
    directory: Path,
    weights: Mapping[str, torch.Tensor] | None = None,
    *,
    place_of: PlaceOf | None = None,
    more: Mapping[str, str] | None = None,
) -> list[Path]:
    """
    Writes a module of Kernel IR, planned, to a directory that runs without dlc, and returns the
    files: `manifest.json` (see `manifest.py`), `kernels/*.cu`, `run.cpp` with what it includes, a
    `Makefile`, and `weights.safetensors` if weights are given, by their names in the program.
    With `place_of` kernels say by `#line` directives where their lines come from: from one of the
    files in `more`, texts by their names, which are written, too.
    OpError for a module that cannot be exported, BackendError where safetensors is missing, and
    what `check_directory` raises.
    """
    check_directory(directory)
    plan = ExportPlan.of(module, target_of(module).name)
    facts = [KernelFacts.of(func) for func in plan.funcs]
    sources = [print_kernel(func, place_of) for func in plan.funcs]
    texts = {
        **(more or {}),
        MANIFEST: json.dumps(manifest(plan), indent=1) + "\n",
        "run.cpp": main_text(plan),
        **{file.name: file.read_text() for file in sorted(_HERE.glob("dlc_*.h"))},
        "Makefile": makefile(plan, sources, debugged=place_of is not None),
    }
    for kernel, source in zip(facts, sources, strict=True):
        texts[f"kernels/{kernel.name}.cu"] = source
        texts[f"host/{kernel.name}.cpp"] = host_entry(kernel)
    for file in sorted(_HOST.iterdir()):
        if file.suffix in (".h", ".cpp"):
            texts[f"host/{file.name}"] = file.read_text()
    written: list[Path] = []
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    if weights is not None:
        written.append(_save(weights, directory / WEIGHTS))
    return written


def _save(weights: Mapping[str, torch.Tensor], path: Path) -> Path:
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise BackendError(
            "weights are exported with safetensors, which is not installed: pip install safetensors"
        ) from error
    save_file({name: _as_pairs(w).clone().contiguous() for name, w in weights.items()}, path)
    return path


def _as_pairs(weight: torch.Tensor) -> torch.Tensor:
    """Complex elements as the program takes them: a last dimension of two."""
    weight = weight.detach()
    return torch.view_as_real(weight.resolve_conj()) if weight.is_complex() else weight
