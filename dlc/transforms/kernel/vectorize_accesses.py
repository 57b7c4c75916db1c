"""Runs of elements are loaded and stored at once."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    MemRefType,
    ModuleOp,
    UnitAttr,
    VectorType,
    f32,
)
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.layout import holds_alike, offset_divisor
from dlc.dialects import kernel
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.layouts import strides_of
from dlc.ir.attributes import INDEX, index_attr
from dlc.ir.expr import Expr, constant_of
from dlc.remarks import remark
from dlc.target import WIDEST_ACCESS

_BYTES = (WIDEST_ACCESS, 8, 4)
"""The sizes of one access in bytes, best first."""
PAIR = 2
"""Elements that one instruction rounds to halves."""


class Decline(Exception):
    """The reason why a loop stays as it is."""


@dataclass(frozen=True)
class VectorizeAccessesPass(ModulePass):
    """
    An unrolled loop that copies consecutive elements becomes accesses of 16, 8 or 4 bytes.

    *Legal when* the loop does nothing but one load and one store of the loaded value; both step by
    one element along the last dimension; the strips are aligned, by the memref's alignment and by
    every term of the linear offset; and each condition holds for a whole strip or for none of it.
    *Faster because* there is one instruction and one transaction per lane instead of four.

    ```
    scf.for %v = %c0 to %c4 step %c1 {
      %e = kernel.load %x[%t * 4 + %v] : memref<1024xf32>
      kernel.store %e, %a[%v] : memref<4xf32, #kernel.local>
    } {unroll}
    ```
    becomes
    ```
    %e = kernel.load %x[%t * 4] : memref<1024xf32> -> vector<4xf32>
    kernel.store %e, %a[0] : memref<4xf32, #kernel.local>, vector<4xf32>
    ```
    Elements of f32 that are rounded to halves on the way are so two at a time: one instruction has
    both, and they are in one register.
    ```
    %p = arith.truncf %e : vector<2xf32> to vector<2xbf16>
    ```
    """

    name = "vectorize-accesses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in kernels_in(op, kernel.FuncOp):
            copies = [c for loop in func.walk() if (c := _Copy.of(loop, func)) is not None]
            for copy in copies:
                try:
                    width = copy.vectorize()
                except Decline as reason:
                    remark(self.name, func.name_, f"{copy} stays scalar: {reason}")
                else:
                    remark(self.name, func.name_, f"{copy}: vectors of {width}")


@dataclass(frozen=True)
class _Copy:
    """A loop that loads an element and stores it elsewhere, as it is or rounded to a half."""

    func: kernel.FuncOp
    loop: scf.ForOp
    load: kernel.LoadOp
    store: kernel.StoreOp
    trips: int
    rounded: bool = False

    @staticmethod
    def of(loop: Operation, func: kernel.FuncOp) -> _Copy | None:
        """The copy that an unrolled loop from 0 up by 1 is, or None."""
        if not isinstance(loop, scf.ForOp) or "unroll" not in loop.attributes or loop.iter_args:
            return None
        trips = constant_of(loop.ub)
        if constant_of(loop.lb) != 0 or constant_of(loop.step) != 1 or trips is None:
            return None
        match list(loop.body.block.ops):
            case [kernel.LoadOp() as load, kernel.StoreOp() as store, scf.YieldOp()]:
                value, rounded = load.result, False
            case [
                kernel.LoadOp() as load,
                arith.TruncFOp() as half,
                kernel.StoreOp() as store,
                scf.YieldOp(),
            ] if _rounds(load, half):
                value, rounded = half.result, True
            case _:
                return None
        if store.value is not value or not load.result.has_one_use():
            return None
        return _Copy(func, loop, load, store, trips, rounded)

    def __str__(self) -> str:
        names = [ref.name_hint or "a buffer" for ref in (self.load.ref, self.store.ref)]
        return f"the copy of {names[0]} to {names[1]}"

    def vectorize(self) -> int:
        """Rewrites the loop with the widest vectors that are legal; `Decline` if there are none."""
        size = element_bytes(self.load.result.type)
        if self.load.ref is self.store.ref:
            raise Decline("it copies within one buffer")
        reasons: list[Decline] = []
        for width in [PAIR] if self.rounded else [n // size for n in _BYTES if n >= 2 * size]:
            try:
                self._vectorize_by(width)
            except Decline as reason:
                reasons.append(reason)
            else:
                return width
        raise reasons[0]

    def _vectorize_by(self, width: int) -> None:
        if self.trips == 0 or self.trips % width:
            raise Decline(f"{self.trips} elements are not a multiple of {width}")
        zero, one = _constant(0), _constant(1)
        lane = _loop(zero, _constant(width), one, self.loop).body.block.args[0]
        index, strips = Expr.of(lane), None
        if self.trips > width:
            strips = _loop(zero, _constant(self.trips // width), one, self.loop)
            index = Expr.of(strips.body.block.args[0]) * width + index
        source, loaded_where = self._strip(self.load, index, lane, width)
        target, stored_where = self._strip(self.store, index, lane, width)
        default = self.load.default if loaded_where else None
        vector = VectorType(self.load.result.type, [width])
        load = kernel.LoadOp(self.load.ref, source, loaded_where, default, vector)
        load.location = self.load.location
        load.result.name_hint = self.load.result.name_hint
        ops, value = [load], load.result
        if self.rounded:
            half = arith.TruncFOp(value, VectorType(self.store.value.type, [width]))
            half.result.name_hint, half.location = self.store.value.name_hint, self.store.location
            ops, value = [load, half], half.result
        store = kernel.StoreOp(value, self.store.ref, target, stored_where)
        store.location = self.store.location
        if strips is None:
            Rewriter.insert_op((*ops, store), InsertPoint.before(self.loop))
        else:
            strips.body.block.add_ops((*ops, store, scf.YieldOp()))
            bounds = dict.fromkeys(v.owner for v in (strips.lb, strips.ub, strips.step))
            constants = [op for op in bounds if isinstance(op, Operation)]
            Rewriter.insert_op((*constants, strips), InsertPoint.before(self.loop))
        Rewriter.erase_op(self.loop)

    def _strip(
        self, op: kernel.LoadOp | kernel.StoreOp, index: Expr, lane: BlockArgument, width: int
    ) -> tuple[list[Expr], list[Expr]]:
        """The subscripts of a strip's first element and its conditions, if the strip is legal."""
        type = op.ref.type
        assert isinstance(type, MemRefType)
        name = op.ref.name_hint or "the buffer"

        def at_lane(value: SSAValue) -> Expr | None:
            return index if value is self.loop.body.block.args[0] else None

        subscripts = [s.substitute(at_lane) for s in op.subscripts]
        steps = [s.coefficient(lane) for s in subscripts]
        if not steps or strides_of(type)[-1] != 1 or steps != [0] * (len(steps) - 1) + [1]:
            raise Decline(f"its elements are not next to each other in {name}")
        first = [_at_first(s, lane) for s in subscripts]
        size = width * element_bytes(type.element_type)
        if self._alignment(op.ref) % size:
            raise Decline(f"{name} is aligned to {self._alignment(op.ref)} bytes, not {size}")
        if offset_divisor(type, first) % width:
            raise Decline(f"its strips in {name} do not all begin at a multiple of {width}")
        where = [c.substitute(at_lane) for c in op.where]
        if not all(holds_alike(c, lane, width) for c in where):
            raise Decline(f"a condition can change within a strip of {width} in {name}")
        return first, simplify_where([_at_first(c, lane) for c in where])

    def _alignment(self, ref: SSAValue) -> int:
        if isinstance(ref, BlockArgument):
            return self.func.alignment(ref)
        return WIDEST_ACCESS  # shared and local arrays are printed so


def _rounds(load: kernel.LoadOp, half: arith.TruncFOp) -> bool:
    """True if an element of f32 is rounded to a half."""
    halves = isinstance(half.result.type, Float16Type | BFloat16Type)
    return half.input is load.result and load.result.type == f32 and halves


def _at_first(expr: Expr, lane: BlockArgument) -> Expr:
    return expr.substitute(lambda value: 0 if value is lane else None)


def _constant(value: int) -> SSAValue:
    return arith.ConstantOp(index_attr(value)).result


def _loop(first: SSAValue, end: SSAValue, step: SSAValue, like: scf.ForOp) -> scf.ForOp:
    """An empty unrolled loop with the name and place of another."""
    body = Block(arg_types=[INDEX])
    body.args[0].name_hint = like.body.block.args[0].name_hint
    loop = scf.ForOp(first, end, step, [], Region(body))
    loop.attributes["unroll"] = UnitAttr()
    loop.location = like.location
    return loop
