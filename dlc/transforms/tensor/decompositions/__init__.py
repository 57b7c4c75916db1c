"""ATen operations written in Tensor IR, by family; `DECOMPOSITIONS` has them all."""

from dlc.transforms.tensor.decompositions import (
    activations,
    attention,
    bessel,
    chebyshev,
    conditional,
    convolution,
    creation,
    division,
    error_functions,
    gamma,
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
    "bessel",
    "chebyshev",
    "conditional",
    "contraction",
    "convolution",
    "creation",
    "division",
    "error_functions",
    "gamma",
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
