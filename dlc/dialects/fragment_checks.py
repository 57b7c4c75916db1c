"""What a reduce that warps fold as products of matrices must be; see `tile.reduce`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import YieldOpBase
from dlc.dialects.axes import FRAGMENT, REGISTER, THREAD, AxesOp
from dlc.dialects.factor_types import Product
from dlc.dialects.holding import HoldOp
from dlc.dialects.mma_layouts import TF32, MmaAttr
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.bounds import most


def verify_fragments(
    reduce: ReduceOpBase, mma: MmaAttr | None, lanes: Sequence[SSAValue], *, split: bool
) -> None:
    """Checks a reduce by the product of matrices and the lanes that it names."""
    fragments = [reduce.extent(axis) for axis in reduce.axes_of(FRAGMENT)]
    if split and (mma is None or mma.factors.data != TF32):
        raise VerifyException(f"expected `by` a product of matrices of {TF32} for what is `split`")
    if mma is None:
        if fragments or lanes:
            raise VerifyException("expected `by` a product of matrices for a fragment axis")
        return
    depth = mma.sizes.k
    if fragments != [depth] or reduce.monoid_name.data != "add":
        raise VerifyException(
            f"expected a sum over one fragment axis of {depth} points for {mma}, found "
            f"{len(fragments)} of {', '.join(map(str, fragments))}"
        )
    ranges, quarters = [most(lane) + 1 for lane in lanes], [4] * mma.is_of_warpgroup
    if ranges != [*quarters, 8, 4, 2, 2]:
        warp = "the warp of a warpgroup (of 4), " if quarters else ""
        raise VerifyException(
            f"expected {warp}the group of a lane (of 8), its place there (of 4), the half of the "
            f"rows (of 2) and of a pair of columns (of 2), found {ranges}"
        )
    launch = _launch(reduce)
    if launch is not None:
        _verify_lanes(launch, lanes)
    last = reduce.body.block.last_op
    if isinstance(last, YieldOpBase):
        _verify_terms(last, lanes)


def _launch(op: Operation) -> AxesOp | None:
    """The launch around an operation, where its threads are axes still."""
    around = op.parent_op()
    while around is not None and not (isinstance(around, AxesOp) and THREAD in around.KINDS):
        around = around.parent_op()
    return around


def _verify_lanes(launch: AxesOp, lanes: Sequence[SSAValue]) -> None:
    """
    Checks that 32 neighbours are a warp, or 128 a warpgroup, and that a thread holds its 4 places
    in order.
    """
    for kind, named in ((THREAD, lanes[:-2]), (REGISTER, lanes[-2:])):
        if kind == REGISTER and _are_of_a_hold(named):
            continue
        if [*launch.axes_of(kind)[-len(named) :]] != [*named]:
            *others, last = (f"%{value.name_hint}" for value in named)
            names = f"{', '.join(others)} and {last}"
            found = ", ".join(f"%{axis.name_hint}" for axis in launch.axes_of(kind)) or "none"
            count = {2: "two", 3: "three"}[len(named)]
            raise VerifyException(
                f"expected {names} to be the last {count} {kind} axes of the launch, found {found}"
            )


def _are_of_a_hold(named: Sequence[SSAValue]) -> bool:
    """True for the half and the pair that an operation within the launch has of its own."""
    loops = [axis.owner.parent_op() for axis in named if isinstance(axis.owner, Block)]
    return len(loops) == 2 and loops[0] is loops[1] and isinstance(loops[0], HoldOp)


def _verify_terms(last: YieldOpBase, lanes: Sequence[SSAValue]) -> None:
    for value in last.values:
        if not isinstance(value.owner, Product):
            maker = value.owner.name if isinstance(value.owner, Operation) else "an argument"
            raise VerifyException(
                f"expected products, for warps to sum them by matrices, found '{maker}'"
            )
    mentioned = {value for condition in last.where for value in condition.values()}
    if varying := [lane for lane in lanes if lane in mentioned]:
        names = ", ".join(f"%{lane.name_hint}" for lane in varying)
        raise VerifyException(
            "expected conditions that hold for all rows and columns of a fragment or for none, "
            f"found one that varies along {names}"
        )
