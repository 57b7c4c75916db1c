"""
Inputs that show what is right by luck on ordinary numbers: other ones, large ones, tiny ones, ones
that are equal or zero, and NaN and infinities among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import torch

from dlc.ir.span import span

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
_LINE = 64
"""Bytes that divide the address of PyTorch's memory on the CPU."""


def unusual_inputs(
    arguments: Sequence[torch.Tensor], seed: int = 0, *, finite: Collection[int] = ()
) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """
    Names of kinds of numbers, each with tensors of them (on the CPU) of the shapes, strides and
    alignments of `arguments`; integers and booleans are those of `arguments`, as they may be
    indices. Those whose numbers are `finite` are never infinite. Empty where nothing is a
    floating-point number.
    """
    if not any(t.is_floating_point() and t.numel() for t in arguments):
        return
    for name, change in KINDS.items():
        generator = torch.Generator().manual_seed(seed)
        changes = [
            _only_nan if change is _not_finite and n in finite else change
            for n in range(len(arguments))
        ]
        pairs = zip(arguments, changes, strict=True)
        yield name, [_changed(t, own, generator) for t, own in pairs]


def _changed(tensor: torch.Tensor, change: Change, generator: torch.Generator) -> torch.Tensor:
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    size = span(tensor.shape, tensor.stride())
    places = torch.arange(size, device="cpu").as_strided(tensor.shape, tensor.stride()).unique()
    skip = tensor.data_ptr() % _LINE // tensor.itemsize
    memory = torch.zeros(skip + size, dtype=tensor.dtype, device="cpu")
    numbers = tensor.detach().as_strided((size,), (1,))[places]
    if tensor.itemsize == 1:  # of which PyTorch computes nothing
        numbers = numbers.to(torch.float16)
    memory[skip + places] = change(numbers, generator).to(tensor.dtype)
    return memory.as_strided(tensor.shape, tensor.stride(), skip)


def _permuted(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return numbers[torch.randperm(len(numbers), generator=generator, device="cpu")]


def _scaled(exponent: int) -> Change:
    """Multiplies by a power of two: in fp16, and what is narrower, by the fourth root of it."""

    def change(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return numbers * 2.0 ** (exponent / 4 if numbers.dtype == torch.float16 else exponent)

    return change


def _equal(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """-2, -1, -0, 0, 1 and 2."""
    return _permuted((1.5 * numbers).round().clamp(-2, 2), generator)


def _not_finite(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One of each, so that most results remain numbers."""
    numbers = _permuted(numbers, generator)
    for value in (torch.nan, torch.inf, -torch.inf):
        numbers[torch.randint(len(numbers), (), generator=generator, device="cpu")] = value
    return numbers


def _only_nan(numbers: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """As `_not_finite`, with a NaN in the place of each infinity."""
    numbers = _not_finite(numbers, generator)
    numbers[numbers.isinf()] = torch.nan
    return numbers


KINDS: dict[str, Change] = {
    "the same numbers elsewhere": _permuted,
    "large numbers": _scaled(20),  # whose cubes, in fp16 squares, are finite
    "tiny numbers": _scaled(-20),  # none is denormal, nor in fp32 a square
    "equal numbers and zeros": _equal,
    "a NaN and infinities": _not_finite,
}
