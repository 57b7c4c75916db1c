"""Kernels that store what they compute for another, as others read it, too; see `storing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i64
from xdsl.ir import SSAValue

from dlc.dialects.axes import AxesOp, loops_around
from dlc.dialects.kernel_op import NEW
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, StoreOp, scans_in
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size, several
from dlc.transforms.loop.fusion.nesting import rebuild


def storing(kernel: KernelOp, tensor: SSAValue) -> KernelOp | None:
    """
    A copy of a kernel, not inserted anywhere, whose last result is a copy of a tensor that it
    reads; None if it loads each element not once, at axes of the loops around. One that is read
    along further axes, as the mean of a row is, is loaded in a loop of its own around these.

    ```
    loop.for %i, %j in 8, 16 { %a = loop.load %x[%i] … }
    ```
    becomes
    ```
    loop.for %i in 8 {
      %a = loop.load %x[%i]
      loop.store %a, %copy[%i]
      loop.for %j in 16 { … }
    }
    ```
    """
    place = _place(kernel, tensor)
    if place is None:
        return None
    region, position = kernel.body.clone(), list(kernel.walk()).index(place) - 1
    load = list(region.walk())[position]
    assert isinstance(load, LoadOp)
    assert isinstance(load.ref.type, MemRefType)
    block = region.block
    _load_once(load)
    output = block.insert_arg(load.ref.type, len(block.args))
    output.name_hint = load.ref.name_hint
    store = StoreOp(load.result, output, load.subscripts)
    store.location = load.location
    assert load.parent is not None
    load.parent.insert_op_after(store, load)
    properties = dict(kernel.properties)
    if kernel.updates is not None:
        numbers = [*map(int, kernel.updates.get_values()), NEW]
        properties["updates"] = DenseArrayBase.from_list(i64, numbers)
    return KernelOp.create(
        operands=kernel.operands,
        result_types=[*kernel.result_types, tensor.type],
        properties=properties,
        attributes=dict(kernel.attributes),
        regions=[region],
        location=kernel.location,
    )


def _place(kernel: KernelOp, tensor: SSAValue) -> LoadOp | None:
    """A load that runs once for each element of a tensor, or could."""
    refs = [ref for ref, v in zip(kernel.input_refs, kernel.inputs, strict=True) if v is tensor]
    for op in kernel.walk():
        if not isinstance(op, LoadOp) or op.ref not in refs or op.where:
            continue
        around = loops_around(op)
        points = {Expr.of(a): loop.extent(a) for loop in around for a in loop.axes}
        found = {s: n for s, n in zip(op.subscripts, shape_of(tensor), strict=True) if several(n)}
        whole = found == points and all(isinstance(loop, ForOp) for loop in around)
        if whole or _parts(around, found):
            return op
    return None


def _parts(around: Sequence[AxesOp], found: Mapping[Expr, Size | int]) -> bool:
    """True if a loop can be taken apart into one over some of its axes and one over the others."""
    if len(around) != 1 or not found:
        return False
    (loop,) = around
    if not isinstance(loop, ForOp) or scans_in(loop):
        return False
    return found.items() < {Expr.of(axis): loop.extent(axis) for axis in loop.axes}.items()


def _load_once(load: LoadOp) -> None:
    """Puts the axes along which an element is loaded again into a loop of their own, if any."""
    for loop in loops_around(load):
        assert isinstance(loop, ForOp)
        own = [axis for axis in loop.axes if axis in load.indices]
        if rest := [axis for axis in loop.axes if axis not in own]:
            rebuild([loop], [own, rest])
