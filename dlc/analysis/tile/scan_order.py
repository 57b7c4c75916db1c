"""The axes that a scan or a sort goes along, slowest first, by what holds their points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from xdsl.ir import Block, BlockArgument, SSAValue

from dlc.diagnostics import fail
from dlc.dialects.axes import REGISTER, SERIAL, AxesOp
from dlc.dialects.scan_ops import AlongOpBase
from dlc.ir.bounds import most


@dataclass(frozen=True)
class ScanOrder:
    """It goes through loops, in an iteration through threads, and each one's registers."""

    serial: tuple[BlockArgument, ...]
    threads: tuple[SSAValue, ...]
    registers: tuple[BlockArgument, ...]


def scan_order(op: AlongOpBase) -> ScanOrder:
    """
    The order in which the points of axes are taken, threads being bound to their numbers.
    OpError unless its place numbers them so that all points of what is faster come between two of
    what is slower.
    """
    terms = sorted(op.place.terms, key=lambda term: -term[1])
    axes: list[SSAValue] = []
    beyond = 0
    for atom, step in reversed(terms):
        if not isinstance(atom, SSAValue) or step <= beyond:
            _refuse(op, "that numbers points in the order of its axes")
        axes.insert(0, atom)
        beyond += step * int(most(atom))
    kinds = [_kind(op, axis) for axis in axes]
    if None in kinds or kinds != sorted(kinds, key=_KINDS.index):
        _refuse(op, "along serial axes, then threads of a block, then register axes")
    serial, registers = (
        tuple(a for a in axes if isinstance(a, BlockArgument) and _kind(op, a) == kind)
        for kind in (SERIAL, REGISTER)
    )
    threads = tuple(a for a in axes if _kind(op, a) == _THREADS)
    return ScanOrder(serial, threads, registers)


_THREADS = "threads"
_KINDS = (SERIAL, _THREADS, REGISTER)


def _kind(op: AlongOpBase, axis: SSAValue) -> str | None:
    if axis in op.threads:
        return _THREADS
    loop = axis.owner.parent_op() if isinstance(axis.owner, Block) else None
    kind = loop.kind(axis) if isinstance(loop, AxesOp) and loop.kinds is not None else None
    return kind if kind in (SERIAL, REGISTER) else None


def _refuse(op: AlongOpBase, what: str) -> NoReturn:
    name = op.name.partition(".")[2]
    fail(op, f"expected a {name} {what}, found {op.place}", "name its axes as they were dealt")
