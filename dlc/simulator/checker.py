"""The simulator as a checker: what is wrong with each kernel of a module, or why nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute, Block, SSAValue

from dlc.analysis.kernel.slots import trip_count
from dlc.dialects import host, kernel
from dlc.dialects.layouts import shape_of
from dlc.simulator.hazards import Hazard
from dlc.simulator.last_blocks import SharingBlocks
from dlc.simulator.run import Options, run_kernel
from dlc.simulator.scalars import dtype_of

Array: TypeAlias = NDArray[Any]
Progress: TypeAlias = Callable[[kernel.FuncOp, float], None]
"""Told of a kernel that is being checked, and of the share that is done."""
MOST_OPERATIONS = 800_000_000
"""About as many are executed of a kernel by its threads; fewer blocks are run of one with more."""
FEWEST_BLOCKS = 4
_MAX_INTEGER = 8


@dataclass
class Verdict:
    """The result of checking a kernel: hazards, or why it was not checked, or else it is clean."""

    func: kernel.FuncOp
    hazards: list[Hazard] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """The reasons why the kernel was not checked."""
    notes: list[str] = field(default_factory=list)
    """Parts of the check that were left out."""

    @property
    def answer(self) -> str:
        """`hazard`, `not checked` or `clean`."""
        if self.hazards:
            return "hazard"
        return "not checked" if self.unknown else "clean"

    def __repr__(self) -> str:
        found = self.hazards or self.unknown
        reasons = f": {'; '.join(map(str, found))}" if found else ""
        return f"<{self.func.name_} is {self.answer}{reasons}>"


def check_module(
    module: ModuleOp,
    inputs: Sequence[Array] | None = None,
    *,
    blocks: int | None = None,
    seed: int = 0,
    progress: Progress = lambda kernel_func, share: None,
) -> Iterator[Verdict]:
    """
    A verdict for each kernel that `@main` launches, in order, and for those that nothing launches;
    for a further launch of a kernel only if it gets integers that are known, which may be indices.
    Without `inputs` of `@main`, and where what a kernel reads was not computed, they are random.
    So many `blocks` are run of each kernel, or else as many as `MOST_OPERATIONS` allows.
    """
    checker = _Checker(blocks, np.random.default_rng(seed), progress)
    launched: set[kernel.FuncOp] = set()
    for main in module.ops:
        if not isinstance(main, func.FuncOp) or main.sym_name.data != "main":
            continue
        values: dict[SSAValue, Array] = {}
        if inputs is not None:
            values.update(zip(main.body.block.args, inputs, strict=True))
        for op in main.walk():
            # A buffer holds what was computed last into it: its verifier has checked that.
            if not isinstance(op, kernel.LaunchOp | host.LaunchOp):
                continue
            callee, given = op.callee, [values.get(v) for v in op.inputs]
            integers = [a for a in given if a is not None and np.issubdtype(a.dtype, np.integer)]
            if callee is None or (callee in launched and not integers):
                continue
            launched.add(callee)
            verdict, outputs = checker.check(callee, given)
            values.update(zip(op.outputs, outputs, strict=False))
            yield verdict
    for op in module.walk():
        if isinstance(op, kernel.FuncOp) and op not in launched:
            yield checker.check(op, [None] * len(op.input_refs))[0]


@dataclass(frozen=True)
class _Checker:
    blocks: int | None
    rng: np.random.Generator
    progress: Progress

    def check(
        self, kernel_func: kernel.FuncOp, given: Sequence[Array | None]
    ) -> tuple[Verdict, list[Array]]:
        """The verdict, and the outputs, of which there are none after what ends a kernel."""
        verdict, grid = Verdict(kernel_func), kernel_func.grid_size
        blocks = spread_blocks(grid, self.blocks or affordable_blocks(kernel_func))
        if blocks is not None:
            blocks = SharingBlocks(kernel_func).whole(blocks)
            shown = ", ".join(map(str, blocks[:8])) + (", …" if len(blocks) > 8 else "")
            verdict.notes.append(
                f"checked {len(blocks)} of {grid} blocks: {shown}; races with the others, and "
                "whether all elements are written, are not checked"
            )
        options = Options(blocks, verdict.hazards, progress=partial(self.progress, kernel_func))
        outputs: list[Array] = []
        try:
            outputs = run_kernel(kernel_func, self._inputs(kernel_func, given), options)
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
        extents = [n for ref in refs for n in shape_of(ref.type) if n > 0]
        high = min([_MAX_INTEGER, *extents])
        return [
            self._random(ref.type, kernel_func, high) if array is None else array
            for ref, array in zip(refs, given, strict=True)
        ]

    def _random(self, type: Attribute, kernel_func: kernel.FuncOp, high: int) -> Array:
        """Normal numbers; integers that can serve as indices."""
        assert isinstance(type, MemRefType)
        dtype, shape = dtype_of(type.element_type, kernel_func), shape_of(type)
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(dtype)
        if np.issubdtype(dtype, np.integer):
            return self.rng.integers(0, high, shape).astype(dtype)
        return self.rng.standard_normal(shape).astype(dtype)


def affordable_blocks(func: kernel.FuncOp) -> int:
    """The number of blocks of a kernel that `MOST_OPERATIONS` allows."""
    of_a_block = operations(func.body.block) * func.block_size
    return max(FEWEST_BLOCKS, MOST_OPERATIONS // max(of_a_block, 1))


def operations(block: Block) -> int:
    """
    The most operations that a thread executes; a loop whose bounds are unknown is counted as one
    iteration.
    """
    count = 0
    for op in block.ops:
        inner = sum(operations(region.block) for region in op.regions if region.blocks)
        turns = trip_count(op) if isinstance(op, scf.ForOp) else 1
        count += 1 + (1 if turns is None else turns) * inner
    return count


def spread_blocks(grid: int, count: int) -> list[int] | None:
    """So many blocks of a grid, ends included; None for all."""
    if count >= grid:
        return None
    ends = {0, 1, grid - 2, grid - 1} if count >= FEWEST_BLOCKS else {0, grid - 1}
    between = max(count - len(ends), 0)
    inner = {2 + n * (grid - 4) // max(between, 1) for n in range(between)}
    return sorted(n for n in (ends | inner) if 0 <= n < grid)[: max(count, 1)]
