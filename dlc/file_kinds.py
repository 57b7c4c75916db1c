"""What to do with files that dlc does not read as programs, by the ends of their names."""

from __future__ import annotations

from pathlib import PurePath

_WEIGHTS = "it holds weights and no program: give a script that loads them, or a model's directory"
_CUDA = "CUDA C is not read back: edit the Kernel IR, which `dlc compile --ir kernel` prints"
_KINDS = {
    ".dlc": "dlc.load_program reads what save() wrote",
    ".cu": _CUDA,
    ".cuh": _CUDA,
    ".py": "a script is for `dlc compile` and `dlc run`, and a function for dlc.compile",
    ".pt2": "dlc.compile takes torch.export.load(file).module()",
    ".pt": _WEIGHTS,
    ".pth": _WEIGHTS,
    ".bin": _WEIGHTS,
    ".safetensors": _WEIGHTS,
    ".onnx": "dlc compiles PyTorch programs: give the one that it was exported from",
    ".ipynb": "give the program as a .py file; in the notebook itself, call dlc.compile",
}


def hint_for(file: str) -> str | None:
    """What to do with a file of such a name; None if dlc knows none such."""
    return _KINDS.get(PurePath(file).suffix.lower())
