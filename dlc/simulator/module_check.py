"""The interpreter as a checker: what is wrong with each kernel of a module, or why nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue

from dlc.analysis.kernel.banks import report
from dlc.dialects import host, kernel, tile
from dlc.simulator.bank_meter import Promises
from dlc.simulator.hazards import Hazard
from dlc.simulator.run import Options, run_kernel
from dlc.simulator.sampling import Work, chosen_blocks, spread_blocks
from dlc.simulator.scalars import dtype_of

Array: TypeAlias = NDArray[Any]
_MAX_INTEGER = 8


@dataclass
class Verdict:
    """What is known of a kernel: hazards, or a reason not to know, or else that it is clean."""

    func: kernel.FuncOp
    hazards: list[Hazard] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Why the kernel was not checked."""
    notes: list[str] = field(default_factory=list)
    """What was left out."""

    @property
    def answer(self) -> str:
        if self.hazards:
            return "hazard"
        return "not checked" if self.unknown else "clean"


@dataclass(frozen=True)
class Limits:
    """How much of a kernel is run."""

    seconds: float = 5.0
    """About as long a kernel may take; fewer blocks are run of one that would take longer."""
    blocks: int | None = None
    """So many blocks, whatever the time."""


PromisesOf: TypeAlias = Mapping[str, Promises]
"""By the name of the kernel."""
Ticker: TypeAlias = Callable[[kernel.FuncOp, int], Callable[[], None] | None]
"""Given a kernel and how many turns of loops it takes, what is called at each of them."""


def promises_of(module: ModuleOp) -> dict[str, Promises]:
    """What the bank model says of every Tile IR kernel of a module."""
    found: dict[str, Promises] = {}
    for op in module.walk():
        if isinstance(op, tile.KernelOp):
            ways: dict[tuple[str, bool, int], float] = {}
            for access in report(op):
                key = access.name, access.writes, access.width
                ways[key] = max(ways.get(key, 0.0), access.ways)
            found[op.name_] = ways
    return found


def check_module(
    module: ModuleOp,
    inputs: Sequence[Array] | None = None,
    *,
    promises: PromisesOf | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    ticker: Ticker | None = None,
) -> Iterator[Verdict]:
    """
    A verdict for each kernel that `@main` launches, in order, and for those that nothing launches;
    for a further launch of a kernel only if it gets integers that are known, which may be indices.
    Without `inputs` of `@main`, and where what a kernel reads was not computed, they are random.
    """
    checker = _Checker(promises, limits or Limits(), np.random.default_rng(seed), ticker)
    launched: set[kernel.FuncOp] = set()
    for main in module.ops:
        if not isinstance(main, func.FuncOp) or main.sym_name.data != "main":
            continue
        values: dict[SSAValue, Array] = {}
        if inputs is not None:
            values.update(zip(main.body.block.args, inputs, strict=True))
        for op in main.body.block.ops:
            # A buffer holds what was computed last into it: its verifier has checked that.
            if not isinstance(op, kernel.LaunchOp | host.LaunchOp):
                continue
            callee, given = op.callee, [values.get(v) for v in op.inputs]
            if callee is None or (callee in launched and not any(map(_are_integers, given))):
                continue
            launched.add(callee)
            verdict, outputs = checker.check(callee, given)
            values.update(zip(op.outputs, outputs, strict=False))
            yield verdict
    for op in module.walk():
        if isinstance(op, kernel.FuncOp) and op not in launched:
            yield checker.check(op, [None] * len(op.input_refs))[0]


def _are_integers(array: Array | None) -> bool:
    return array is not None and np.issubdtype(array.dtype, np.integer)


class _Checker:
    def __init__(
        self,
        promises: PromisesOf | None,
        limits: Limits,
        rng: np.random.Generator,
        ticker: Ticker | None,
    ) -> None:
        self.promises = promises
        self.limits = limits
        self.rng = rng
        self.ticker = ticker

    def check(
        self, kernel_func: kernel.FuncOp, given: Sequence[Array | None]
    ) -> tuple[Verdict, list[Array]]:
        """The verdict, and the outputs, of which there are none after what ends a kernel."""
        verdict, grid = Verdict(kernel_func), kernel_func.grid_size
        if self.limits.blocks is None:
            blocks = chosen_blocks(kernel_func, self.limits.seconds)
        else:
            blocks = spread_blocks(grid, self.limits.blocks)
        if blocks is not None:
            shown = ", ".join(map(str, blocks[:8])) + (", …" if len(blocks) > 8 else "")
            verdict.notes.append(
                f"checked {len(blocks)} of {grid} blocks: {shown}; races with the others, and "
                "whether all elements are written, are not checked"
            )
        promises = (self.promises or {}).get(kernel_func.name_, {})
        tick = self.ticker and self.ticker(kernel_func, Work.of(kernel_func).turns)
        conflicts: list[str] = []
        options = Options(blocks, verdict.hazards, promises, conflicts, tick)
        outputs: list[Array] = []
        try:
            arrays = self._inputs(kernel_func, given)
            outputs = run_kernel(kernel_func, arrays, options)
            verdict.notes += [f"bank conflicts that no model judges: {c}" for c in conflicts]
        except Hazard as hazard:
            if hazard.kind == "not checked":
                verdict.unknown.append(str(hazard).removeprefix("not checked: "))
            elif hazard not in verdict.hazards:
                verdict.hazards.append(hazard)
        except MemoryError:
            verdict.unknown.append("its arrays and what is noted of them do not fit in memory")
        return verdict, outputs

    def _inputs(self, kernel_func: kernel.FuncOp, given: Sequence[Array | None]) -> Sequence[Array]:
        refs = kernel_func.input_refs
        extents = [n for ref in refs for n in _shape(ref.type) if n > 0]
        high = min([_MAX_INTEGER, *extents])
        return [
            self._random(ref.type, kernel_func, high) if array is None else array
            for ref, array in zip(refs, given, strict=True)
        ]

    def _random(self, type: Attribute, kernel_func: kernel.FuncOp, high: int) -> Array:
        """Normal numbers; integers that can serve as indices."""
        assert isinstance(type, MemRefType | TensorType)
        dtype, shape = dtype_of(type.element_type, kernel_func), type.get_shape()
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(dtype)
        if np.issubdtype(dtype, np.integer):
            return self.rng.integers(0, high, shape).astype(dtype)
        return self.rng.standard_normal(shape).astype(dtype)


def _shape(type: Attribute) -> Sequence[int]:
    assert isinstance(type, MemRefType)
    return type.get_shape()
