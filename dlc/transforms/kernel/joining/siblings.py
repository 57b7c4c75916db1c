"""Launches that read the same, or what one launch gives, and do not need each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.kernel.roles import registers_set
from dlc.dialects import kernel
from dlc.dialects.kernel_grids import waits_for_grids
from dlc.dialects.size import in_memory, in_memory_of
from dlc.dialects.size_index import SizeIndexOp
from dlc.target import WARP


class Siblings:
    """The launches of a block by what they read, and where its operations stand."""

    def __init__(self, block: Block, once: Collection[Operation]) -> None:
        """`once` are the launches whose results are kept for all calls, alone or one of such."""
        self._block = block
        self._once = once
        self._places: dict[Operation, int] = {op: n for n, op in enumerate(block.ops)}

    def groups(self) -> Iterator[list[kernel.LaunchOp]]:
        """Groups of launches that may be one, each launch in one of them at most."""
        taken: set[Operation] = set()
        for op in self._places:
            if isinstance(op, kernel.LaunchOp) and op not in taken and obstacle(op) is None:
                group = [op]
                for other in self._readers(op):
                    if other not in taken and self._may_join(group, other):
                        group.append(other)
                if len(group) > 1:
                    taken.update(group)
                    yield group

    def _readers(self, first: kernel.LaunchOp) -> list[kernel.LaunchOp]:
        """The launches after one that read what it reads or what is given with it, in order."""
        place = self._places[first]
        users = {use.operation for value in _beside(first.inputs) for use in value.uses}
        later = (op for op in users if self._places.get(op, place) > place)
        found = [op for op in later if isinstance(op, kernel.LaunchOp)]
        return sorted(found, key=self._places.__getitem__)

    def _may_join(self, group: Sequence[kernel.LaunchOp], other: kernel.LaunchOp) -> bool:
        """True if a launch may run where the first of a group does, beside all of them."""
        first = self._places[group[0]]
        if (other in self._once) != (group[0] in self._once):
            return False
        if obstacle(other) is not None or not all(self._is_there(v, first) for v in other.inputs):
            return False
        if not _fit([op.callee for op in (*group, other) if op.callee is not None]):
            return False
        last = self._places[other]
        return not any(
            first <= self._place(use.operation) < last
            for value in other.inputs
            if other.changes(value)
            for same in in_memory_of(in_memory(value))
            for use in same.uses
        )

    def _is_there(self, value: SSAValue, place: int) -> bool:
        """True for what is computed before a place of the block."""
        return (
            self._places.get(value.owner, -1) < place
            if isinstance(value.owner, Operation)
            else True
        )

    def _place(self, op: Operation) -> int:
        """The place of what holds an operation; that of the block's end for others."""
        around = self._block.find_ancestor_op_in_block(op)
        return len(self._places) if around is None else self._places[around]


def _beside(values: Iterable[SSAValue]) -> Iterator[SSAValue]:
    """Values, and what the launches give beside them that give them."""
    for value in values:
        given = value.owner.results if isinstance(value.owner, kernel.LaunchOp) else (value,)
        yield from given


def obstacle(launch: kernel.LaunchOp) -> str | None:
    """Why a launch is not joined with others, if it is not."""
    callee = launch.callee
    if callee is None or callee.grid_size == 0:
        return "no block of it runs"
    if any(isinstance(op, SizeIndexOp) for op in callee.body.block.ops):
        return "it is for several sizes"
    if any(isinstance(op, kernel.BlockIdOp) and op.part is not None for op in callee.walk()):
        return "it is several kernels in one"
    if waits_for_grids(callee):
        return "it waits for the launches before it, which a part of a kernel cannot"
    if registers_set(callee):
        return "its warpgroups divide the registers of a block among them"
    if any(isinstance(op, kernel.TmaMulticastOp) for op in callee.walk()):
        return "its blocks request for each other what they read"
    return None


def _fit(funcs: Sequence[kernel.FuncOp]) -> bool:
    """
    True if the threads of some blocks are whole warps where they are fewer than others', and all
    that run in clusters are whole ones of the largest size, as which several smaller ones run.
    """
    cluster = max(func.cluster_size for func in funcs)
    clusters = [func for func in funcs if func.cluster_size > 1]
    if any(cluster % func.cluster_size or func.grid_size % cluster for func in clusters):
        return False
    most = max(func.block_size for func in funcs)
    return all(func.block_size % WARP == 0 or func.block_size == most for func in funcs)
