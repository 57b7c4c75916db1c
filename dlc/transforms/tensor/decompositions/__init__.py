"""ATen operations written in Tensor IR, by family; `DECOMPOSITIONS` has them all."""

from dlc.transforms.tensor.decompositions import (
    activations,
    attention,
    conditional,
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
    scans,
    scattering,
    shape,
)
from dlc.transforms.tensor.decompositions import products as contraction
from dlc.transforms.tensor.decompositions.builder import Refused
from dlc.transforms.tensor.decompositions.lowering import DECOMPOSITIONS, Lowering

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
    "scans",
    "scattering",
    "shape",
]
