"""What products of f32 may be computed in: in f32, or on tensor cores (`docs/tensor-cores.md`)."""

from __future__ import annotations

from typing import Literal, get_args

Precision = Literal["f32", "3xtf32", "tf32"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def get_precision(name: str) -> Precision:
    """The precision of a name; ValueError if there is none such."""
    for precision in PRECISIONS:
        if precision == name:
            return precision
    from dlc.diagnostics import did_you_mean, with_hint  # with xDSL

    error = ValueError(f"unknown precision '{name}'")
    close = did_you_mean(str(name), PRECISIONS)
    raise with_hint(error, close or f"there are {', '.join(PRECISIONS)}")


def default_precision() -> Precision:
    """
    What PyTorch computes products of f32 in on a GPU: `tf32` where
    `torch.set_float32_matmul_precision` has been told `high` or `medium`, or
    `torch.backends.cuda.matmul` to allow tf32; else `f32`.
    """
    import torch

    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "f32"
