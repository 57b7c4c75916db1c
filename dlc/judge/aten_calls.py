"""Calls of ATen overloads as the reference makes them, in the program's dtypes or in fp64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

VIEWS = ("view.default", "_unsafe_view.default")
STABLE = {"sort.default": "sort.stable", "argsort.default": "argsort.stable"}
"""Orders of which PyTorch leaves open where equal elements come to lie; dlc keeps theirs."""
ATTENTION = "scaled_dot_product_attention.default"


def call(
    overload: str,
    given: dict[str, Any],
    dtype: torch.dtype,
    double: bool,
    on_weights: Callable[[torch.Tensor], torch.Tensor] | None = None,
    source: torch.dtype | None = None,
) -> list[torch.Tensor]:
    """
    The results of an ATen overload that PyTorch has, the first of type `dtype` to the program, for
    arguments by name; dtypes are texts. `source` is the type of `self` to the program. `on_weights`
    makes the probabilities of attention what they are to be. Raises what PyTorch does.
    """
    if overload == "topk.default":
        return _first_of_order(**given)
    if overload in STABLE:
        overload, given = STABLE[overload], {**given, "stable": True}
    name, _, variant = overload.partition(".")
    function = getattr(getattr(torch.ops.aten, name), variant)
    if overload == "view.dtype":  # of the bits that the program has
        bits = given["self"].to(source).contiguous().view(dtype)
        return [widened(bits) if double else bits]
    if "dtype" in given:
        given["dtype"] = _dtype(given["dtype"], double)
    if isinstance(generator := given.get("generator"), torch.Tensor):
        from dlc.judge.drawn_numbers import drawn  # with the table of element types

        return [drawn(overload, given, dtype, double=double).to(generator.device)]
    if overload == "rms_norm.default" and given.get("eps") is None:
        given["eps"] = epsilon_of(dtype)
    if overload in VIEWS:
        # Torch IR says nothing of strides, so a tensor may lie as no view of that shape can.
        return [given["self"].reshape(given["size"])]
    if overload == "view_as_complex.default":
        given["self"] = given["self"].contiguous()
    if on_weights is not None and overload == ATTENTION:
        return [_attention(given, on_weights)]
    result = function(**given)
    outputs = list(result) if isinstance(result, list | tuple) else [result]
    outputs = [t.resolve_conj().resolve_neg() for t in outputs]
    return [widened(t) if double else t for t in outputs]


def _first_of_order(
    self: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[torch.Tensor]:
    """`topk`, of equal elements the first ones."""
    order = torch.sort(self, stable=True, dim=dim, descending=largest)
    return [t.narrow(dim, 0, k) if t.dim() else t for t in order]


def _attention(
    given: dict[str, Any], within: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Attention, with probabilities as `within` makes them."""
    _, weights = torch.ops.aten._scaled_dot_product_attention_math(**given)
    value: torch.Tensor = given["value"]
    if given.get("enable_gqa"):
        value = value.repeat_interleave(weights.shape[-3] // value.shape[-3], -3)
    return within(weights) @ value


def epsilon_of(dtype: torch.dtype) -> float:
    """
    The epsilon that None stands for in rms_norm: that of the type in which PyTorch calculates the
    program's, fp32 for narrower ones, even where the reference is calculated in fp64.
    """
    return torch.finfo(dtype if dtype.itemsize > 4 else torch.float32).eps


def _dtype(value: str | None, double: bool) -> torch.dtype | None:
    if value is None:
        return None
    dtype = getattr(torch, str(value))
    if double and dtype.is_complex:
        return torch.complex128
    return torch.float64 if double and dtype.is_floating_point else dtype


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """A floating-point tensor in fp64, a complex one in pairs of these, another one as it is."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


@contextmanager
def without_onednn() -> Iterator[None]:
    """Within it, a CPU gives what any other does at infinity: oneDNN's GELU of it may be NaN."""
    enabled = torch._C._get_mkldnn_enabled()  # `torch.backends` warns of Intel's GPUs
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)
