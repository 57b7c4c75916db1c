"""The blocks that share a sum add what they hold to the output, in the order they come by."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.rewriter import Rewriter

from dlc.dialects import tile
from dlc.dialects.access import ATOMIC, has_atomic_add
from dlc.dialects.kernel_op import positions
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.registry import OptionError
from dlc.transforms.tile.splitting.reduce_split import Split


def split_atomically(kernel: tile.KernelOp, split: Split) -> None:
    """Splits a sum among blocks that add their parts to its output, which is zeroed before."""
    store = _sole_store(kernel, split.reduce)
    block = split.deal(kernel.launch)
    add = tile.AtomicAddOp(store.value, store.ref, store.subscripts, [Expr.of(block)])
    add.location = store.location
    Rewriter.replace_op(store, add)
    kernel.zeroed = positions([n for n, ref in enumerate(kernel.output_refs) if ref is add.ref])


def _sole_store(kernel: tile.KernelOp, reduce: tile.ReduceOp) -> tile.StoreOp:
    """The store of a reduce's result that atomic adds of its parts can take the place of."""
    launch = kernel.launch
    if reduce.monoid_name.data != "add":
        raise _refusal(f"its monoid is {reduce.monoid_name.data}, and atomic operations only add")
    if len(reduce.results) > 1:
        raise _refusal(f"it has {len(reduce.results)} sums, and atomic adds are of one")
    (sum,) = reduce.results
    if not has_atomic_add(sum.type):
        raise _refusal(f"its sum is of type {sum.type}, and atomic adds are of {ATOMIC}")
    stores = [op for op in launch.walk() if isinstance(op, tile.StoreOp)]
    if len(stores) != 1 or stores[0].value is not sum:
        raise _refusal(
            "it stores more than its sum, or not the sum itself, for which the parts have to be "
            "added up before"
        )
    (store,) = stores
    assert isinstance(store.ref.type, MemRefType)
    points, elements = prod(map(launch.extent, launch.axes)), prod(shape_of(store.ref))
    if store.where or store.parent_op() is not launch or points != elements:
        raise _refusal(
            "atomic adds need each element to be stored at one point, unconditionally, and a store "
            f"at {points} points is to {elements} elements"
        )
    return store


def _refusal(message: str) -> OptionError:
    return OptionError("combine", message, "combine=workspace takes any reduce")
