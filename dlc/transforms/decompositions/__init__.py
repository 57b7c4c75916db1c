"""How each ATen operation is written in Tensor IR, by family; `DECOMPOSITIONS` has them all."""

from dlc.transforms.decompositions import (
    attention,
    contraction,
    creation,
    indexing,
    normalization,
    pointwise,
    reductions,
    shape,
)
from dlc.transforms.decompositions.lowering import DECOMPOSITIONS, Lowering, Refused

__all__ = [
    "DECOMPOSITIONS",
    "Lowering",
    "Refused",
    "attention",
    "contraction",
    "creation",
    "indexing",
    "normalization",
    "pointwise",
    "reductions",
    "shape",
]
