"""How each ATen operation is written in Tensor IR, by family; `DECOMPOSITIONS` has them all."""

from dlc.transforms.decompositions import (
    activations,
    attention,
    conditional,
    contraction,
    convolution,
    creation,
    division,
    indexing,
    logic,
    normalization,
    ordering,
    pointwise,
    pooling,
    reductions,
    scattering,
    shape,
)
from dlc.transforms.decompositions.lowering import DECOMPOSITIONS, Lowering, Refused

__all__ = [
    "DECOMPOSITIONS",
    "Lowering",
    "Refused",
    "activations",
    "attention",
    "conditional",
    "contraction",
    "convolution",
    "creation",
    "division",
    "indexing",
    "logic",
    "normalization",
    "ordering",
    "pointwise",
    "pooling",
    "reductions",
    "scattering",
    "shape",
]
