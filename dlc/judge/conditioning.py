"""
Judges results of programs that enlarge rounding errors, by how far disturbed programs move.

The program is computed in fp64, and some times more with every number disturbed wherever it is
used. How far the results move says how well they can be known; what moves between integers, or
between finite and not, cannot be known at all; nor can the sign of a zero that is computed, by
sums in one order or another. There are two kinds of disturbance:

- *fine*: by up to one ulp of what is calculated in, fp32 or fp64. Each operation's own error is so
  large, but for sums, which round more often: hence a generous factor.
- *coarse*, where the program has floats of 16 or 8 bits: besides, what an operation gives in one of
  these, and what attention multiplies by its values, by up to four ulp of it. dlc rounds it where
  it reaches memory or tensor cores, eager PyTorch always, so its error is within half an ulp, and
  0 in some uses: an eighth of the disturbance at most. A value off by five standard deviations of
  these errors, taken as independent, is within the largest of 24 samples but for one chance in
  10^10; a comparison that half an ulp decides is decided otherwise in one of them but for one in
  10^5.

Where products of f32 may be computed in tf32, which any of f32 may turn out to be, every number in
f32 is disturbed coarsely, as if it had been rounded to tf32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import ceil

import torch
from xdsl.dialects.builtin import Float32Type, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from dlc.backend.dtypes import torch_dtype
from dlc.ir.elements import NARROW
from dlc.judge.accuracy import TF32_EPS
from dlc.judge.aten_calls import epsilon_of
from dlc.judge.reference import evaluate
from dlc.target import precision_of

SAMPLES, COARSE_SAMPLES = 4, 24
FURTHER_SAMPLES = 60
"""For what is not known at all: of two values that are as likely, all of few samples find one."""
SLACK = 64.0
"""How many times as far as finely disturbed results a right one may be."""
COARSE = 4.0
"""Ulp of a half."""


class Expected:
    """
    The results of a program in Torch IR, and how exactly they are known; errors as raised. So many
    terms may be added one after the other, each with a rounding of the sum so far.
    """

    def __init__(self, module: ModuleOp, arguments: Sequence[torch.Tensor], terms: int = 1) -> None:
        self.terms = terms
        tf32 = precision_of(module) == "tf32"
        self._program, self._noise = (module, arguments), _Noise(tf32)
        noise = self._noise
        self.exact = evaluate(module, arguments, double=True)
        self.eager = evaluate(module, arguments)
        self.moved = [
            evaluate(module, arguments, double=True, disturb=noise.fine)
            for _ in noise.turns(SAMPLES)
        ]
        values = (value for op in module.walk() for value in (*op.results, *op.operands))
        rounded = any(map(noise.is_rounded, values))
        self.moved_far = [
            evaluate(module, arguments, double=True, disturb=noise.coarse, within=noise.coarse)
            for _ in noise.turns(COARSE_SAMPLES if rounded else 0)
        ]

    @cached_property
    def further(self) -> list[list[torch.Tensor]]:
        """Results of more finely disturbed programs."""
        return [
            evaluate(*self._program, double=True, disturb=self._noise.fine)
            for _ in self._noise.turns(FURTHER_SAMPLES)
        ]

    def complaint(
        self, results: Sequence[torch.Tensor], backend: str = "host", *, terms: int | None = None
    ) -> str | None:
        """An error in some results, from whatever backend; None if they are right."""
        terms = self.terms if terms is None else terms
        if len(results) != len(self.exact):
            return f"expected {len(self.exact)} results, found {len(results)}"
        for number, result in enumerate(results):
            moved, far = ([s[number] for s in some] for some in (self.moved, self.moved_far))
            exact, eager = self.exact[number], self.eager[number]
            typed = _typed(result, eager.dtype)
            if _complaint(typed, exact, eager, moved, far, terms, [*moved, *far]) is None:
                continue
            all_of_them = [*moved, *far, *(s[number] for s in self.further)]
            if said := _complaint(typed, exact, eager, moved, far, terms, all_of_them):
                return f"result {number} {said}"
        return None


class _Noise:
    """Disturbs numbers, differently each time."""

    def __init__(self, tf32: bool) -> None:
        self._generator = torch.Generator().manual_seed(0)
        self._sign = 1.0
        self._tf32 = tf32

    def turns(self, count: int) -> Iterator[int]:
        """
        Numbers of samples. Every other one is disturbed the opposite way to the one before, as a
        root or a clamp may show only one of the two; zeros that are computed are negative in it.
        """
        state = self._generator.get_state()
        for turn in range(count):
            if turn % 2:
                self._generator.set_state(state)
            else:
                state = self._generator.get_state()
            self._sign = -1.0 if turn % 2 else 1.0
            yield turn

    def fine(self, tensor: torch.Tensor, value: SSAValue) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        if isinstance(value.owner, Operation):
            tensor = torch.where(tensor == 0, 0.0 * self._sign, tensor)
        return tensor * (1 + epsilon_of(_dtype(value)) * self._uniform(tensor))

    def coarse(self, tensor: torch.Tensor, value: SSAValue) -> torch.Tensor:
        if not self.is_rounded(value):
            return self.fine(tensor, value)
        kind = torch.finfo(_dtype(value))
        eps = TF32_EPS if kind.bits == 32 else kind.eps
        ulp = (eps * tensor.abs()).clamp(min=kind.tiny * eps)  # of subnormals, too
        return torch.where(tensor == 0, tensor, tensor + COARSE * ulp * self._uniform(tensor))

    def is_rounded(self, value: SSAValue) -> bool:
        """
        True if a value is the result of an operation in a type narrower than f32, or any in f32
        that may be multiplied in tf32.
        """
        element = value.type.element_type if isinstance(value.type, TensorType) else None
        if isinstance(element, Float32Type):
            return self._tf32
        return isinstance(value.owner, Operation) and element in {row.type for row in NARROW}

    def _uniform(self, like: torch.Tensor) -> torch.Tensor:
        """Numbers between -1 and 1."""
        numbers = torch.rand(like.shape, generator=self._generator, dtype=torch.float64)
        return self._sign * (2 * numbers - 1)


def _dtype(value: SSAValue) -> torch.dtype:
    assert isinstance(value.type, TensorType)
    return torch_dtype(value.type.element_type)


def _typed(result: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The interpreter holds what NumPy lacks in f32, and has no unsigned bytes."""
    if dtype.is_floating_point and result.dtype == torch.float32:
        return result.to(dtype)
    return result.view(dtype)


def _complaint(
    result: torch.Tensor,
    exact: torch.Tensor,
    eager: torch.Tensor,
    moved: list[torch.Tensor],
    far: list[torch.Tensor],
    terms: int,
    deciding: list[torch.Tensor],
) -> str | None:
    """`deciding` are the samples that say what is not known at all."""
    if result.shape != exact.shape:
        return f"has shape {list(result.shape)}, not {list(exact.shape)}"
    if not result.is_floating_point():
        known = torch.stack([m == exact for m in deciding]).all(0)
        return _first(known & (result != eager) & (result != exact.to(result.dtype)), result, exact)
    unknown = torch.stack([_kind(m) != _kind(exact) for m in deciding]).any(0)
    ulp, denormal = epsilon_of(result.dtype), torch.finfo(result.dtype).tiny
    rounded = exact.to(result.dtype).double()
    result, eager = result.double(), eager.double()
    wrong_kind = (_kind(result) != _kind(rounded)) & (_kind(result) != _kind(eager)) & ~unknown
    if said := _first(wrong_kind, result, exact):
        return said
    both = result.isfinite() & exact.isfinite() & ~unknown & (result != eager)
    distance = _farthest(moved, exact, both)
    scale = exact.abs().where(both, 0).max() if exact.numel() else torch.tensor(0.0)
    ordinary = _most(distance[both])
    allowed = SLACK * torch.maximum(distance, ordinary) + (16 + terms / 2) * ulp * scale + denormal
    if far:
        allowed += _farthest(far, exact, both)
    return _first(both & ((result - exact).abs() > allowed), result, exact)


def _farthest(moved: list[torch.Tensor], exact: torch.Tensor, both: torch.Tensor) -> torch.Tensor:
    return torch.stack([(m - exact).abs() for m in moved]).amax(0).where(both, 0)


def _most(distances: torch.Tensor) -> torch.Tensor:
    """The distance that nine of ten do not exceed."""
    count = distances.numel()
    return distances.kthvalue(ceil(0.9 * count)).values if count else torch.tensor(0.0)


def _kind(tensor: torch.Tensor) -> torch.Tensor:
    """0 for finite numbers, 1 for NaN, 2 and 3 for infinities."""
    return tensor.isnan() * 1 + tensor.isposinf() * 2 + tensor.isneginf() * 3


def _first(wrong: torch.Tensor, result: torch.Tensor, exact: torch.Tensor) -> str | None:
    if not wrong.any():
        return None
    place = tuple(int(i) for i in wrong.nonzero()[0])
    return (
        f"is wrong at {int(wrong.sum())} of {wrong.numel()} places, at {list(place)} first: "
        f"{result[place].item():.9g} instead of {exact[place].item():.9g}"
    )
