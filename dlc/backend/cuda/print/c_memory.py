"""The operations of a kernel that allocate, read and write memory, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dlc.analysis.kernel.expression_parts import is_declaration, is_guarded, users_of
from dlc.analysis.kernel.layout import place_of
from dlc.analysis.kernel.shared_memory import alignment_in, shared_slots
from dlc.backend.cuda.print.c_index import MOST_INT, IndexText
from dlc.backend.cuda.print.c_scalar import value_type
from dlc.backend.cuda.print.c_text import (
    HEADERS,
    Level,
    Text,
    binary,
    call,
    cast,
    integer,
    ternary,
)
from dlc.backend.cuda.print.c_values import Values
from dlc.backend.cuda.print.interface import c_element, dynamic_shared_bytes
from dlc.backend.cuda.print.prelude_mma import rows_name
from dlc.backend.cuda.print.prelude_wgmma import wgmma_name
from dlc.dialects import kernel
from dlc.dialects.access import element_type
from dlc.dialects.kernel_memory import element_bytes, is_local, memref_of
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.layouts import shape_of, span, static_shape, strides_of
from dlc.dialects.size_index import elements_spanned, size_bounds, size_expr
from dlc.dialects.sized_types import SizedStridesAttr
from dlc.ir.expr import Atom, Expr
from dlc.ir.sizes import Size
from dlc.target import MBARRIER_BYTES, WIDEST_ACCESS


def _is_written_out(atom: Atom) -> bool:
    """True if it is a number where it is printed: of loops that are written out."""
    values = (atom,) if isinstance(atom, SSAValue) else atom.base.values()
    loops = (v.owner.parent_op() if isinstance(v.owner, Block) else None for v in values)
    return all(op is not None and "unroll" in op.attributes for op in loops)


class Accesses(Values):
    """The lines written so far, with the memory that they name and the prelude that they need."""

    def __init__(self, taken: Iterable[str], func: kernel.FuncOp) -> None:
        super().__init__(taken)
        self.helpers: set[str] = set()
        """The names of the prelude functions, and of the headers, that the lines use."""
        self.index = IndexText(self.text.__getitem__, self.helpers)
        self._slots, self._shared_bytes = shared_slots(func)
        self._is_static = dynamic_shared_bytes(func) == 0
        self._smem = ""

    def share(self) -> None:
        """Declares the shared memory of a block if it is more than static declarations may be."""
        if not self._is_static:
            self._smem = self.names.new("smem")
            self.helpers.add("dynamic_shared")
            self.line(f"char* {self._smem} = dynamic_shared();  // {self._shared_bytes} bytes")

    def _element_text(self, ref: SSAValue, subscripts: Sequence[Expr]) -> Text:
        """`x[row * 2048 + k]`"""
        if isinstance(ref.owner, kernel.MapClusterOp):
            return self._of_cluster(ref.owner.source, *subscripts)
        name = self.text[ref].text
        if is_local(ref):
            return Text(name + "".join(f"[{self.index.expr(s)}]" for s in subscripts))
        if any(isinstance(stride, Size) for stride in strides_of(memref_of(ref))):
            return Text(f"{name}[{self._sized_offset(ref, subscripts)}]")
        place = place_of(memref_of(ref), subscripts)
        offset = self.index.expr(place.base + place.unit)
        if place.exchange != Expr():
            offset = self.index.expr(place.exchange)
            if place.unit != Expr():
                offset = binary(self.index.expr(place.unit), "^", offset)
            if place.base != Expr():
                offset = binary(self.index.expr(place.base), "+", offset)
        return Text(f"{name}[{offset}]")

    def _of_cluster(self, own: SSAValue, block: Expr, *subscripts: Expr) -> Text:
        """`cluster_shared(parts, block)[t * 4 + r]`"""
        self.helpers.add("cluster_shared")
        buffer = call("cluster_shared", self.text[own], self.index.expr(block))
        place = place_of(memref_of(own), subscripts)
        return Text(f"{buffer}[{self.index.expr(place.linear)}]")

    def _sized_offset(self, ref: SSAValue, subscripts: Sequence[Expr]) -> Text:
        """`(b * s + row) * 64 + k`: what an extent that is a size multiplies is computed first."""
        type, owner = memref_of(ref), ref.owner
        func = owner.parent_op() if isinstance(owner, Block) else owner
        assert func is not None
        sizes = [Size.of(extent) for extent in shape_of(type)]
        wide = size_bounds(elements_spanned(ref), func)[1] > MOST_INT
        if isinstance(type.layout, SizedStridesAttr):
            return self._strided_offset(type, subscripts, func, wide)
        before: Text | None = None
        times, rest = 1, Expr()
        for size, subscript in zip(sizes, subscripts, strict=True):
            if size.number is not None:
                times, rest = times * size.number, rest * size.number + subscript
                continue
            before = self._sum(before, times, rest)
            if before is not None:
                extent = self.index.expr(size_expr(size, func))
                before = binary(cast("long long", before) if wide else before, "*", extent)
            times, rest = 1, subscript
        return self._sum(before, times, rest) or integer(0)

    def _strided_offset(
        self, type: MemRefType, subscripts: Sequence[Expr], func: Operation, wide: bool
    ) -> Text:
        """`row * x_stride + k`: each subscript times its stride, those first that are sizes."""
        total: Text | None = None
        rest = Expr()
        for subscript, stride in zip(subscripts, strides_of(type), strict=True):
            if not isinstance(stride, Size):
                rest = rest + subscript * stride
            elif subscript != Expr():
                rest = rest + subscript * stride.constant
                for factors, times in stride.terms:
                    index = self.index.expr(subscript)
                    part = cast("long long", index) if wide else index
                    for factor in factors:
                        step = size_expr(Size((((factor,), 1),)), func)
                        part = binary(part, "*", self.index.expr(step))
                    part = part if times == 1 else binary(part, "*", integer(times))
                    total = part if total is None else binary(total, "+", part)
        return self._sum(total, 1, rest) or integer(0)

    def _sum(self, before: Text | None, times: int, rest: Expr) -> Text | None:
        """`before * times + rest`; None for 0."""
        if before is None:
            return None if rest == Expr() else self.index.expr(rest)
        product = before if times == 1 else binary(before, "*", integer(times))
        return product if rest == Expr() else binary(product, "+", self.index.expr(rest))

    def load(self, op: kernel.LoadOp) -> None:
        user = self.user_of(op)
        guarded = bool(op.where) and user is not None and is_guarded(op, user)
        where = None if guarded else self.index.conditions(op.where)
        vector = op.result.type if isinstance(op.result.type, VectorType) else None
        default = None if op.default is None else self.text[op.default]
        place = self._element_text(op.ref, op.subscripts)
        value = Text(place.text, depth=0 if is_local(op.ref) else 1)
        if vector is not None:
            value = self._vector_call("load", vector, op, Text(f"&{place}"))
        if where is not None:
            value = ternary(where, value, self._otherwise(op, default))
        self.define(op, value, inline=guarded)

    def _otherwise(self, op: kernel.LoadOp, default: Text | None) -> Text:
        """The value of a load where its conditions do not hold."""
        type = value_type(op.result, op)
        if not isinstance(op.result.type, VectorType):
            zeros = {"float": "0.0f", "double": "0.0", "bool": "false"}
            return default or Text(zeros.get(type, f"{type}()" if type in HEADERS else "0"))
        if default is None:
            return Text(f"{type}{{}}")
        width = prod(static_shape(op.result.type))
        if type.startswith("packed"):
            self.helpers.add("fill_packed")
            return call(f"fill_packed<{width}>", default)
        return call(f"make_{type}", *[default] * width)

    def _vector_call(
        self, kind: str, type: VectorType[Attribute], op: Operation, *arguments: Text
    ) -> Text:
        name = value_type(op.results[0] if op.results else op.operands[0], op)
        width = prod(static_shape(type))
        helper = f"{kind}_packed" if name.startswith("packed") else f"{kind}{width}"
        self.helpers.add(helper)
        return call(f"{helper}<{width}>" if helper == "load_packed" else helper, *arguments)

    def store(self, op: kernel.StoreOp) -> None:
        place = self._element_text(op.ref, op.subscripts)
        where = self.index.conditions(op.where)
        vector = op.value.type if isinstance(op.value.type, VectorType) else None
        folded = None if vector is not None else self.folded(op.value, place)
        if folded is not None:
            statement = folded
        elif vector is not None:
            value = self.text[op.value]
            statement = f"{self._vector_call('store', vector, op, Text(f'&{place}'), value)};"
        else:
            statement = f"{place} = {self.text[op.value]};"
        if is_declaration(op):
            statement = f"{c_element(op.ref, op)} {statement}"
        self._effect(where, statement)

    def _effect(self, where: Text | None, statement: str) -> None:
        self.line(statement if where is None else f"if ({where}) {statement}")

    def allocate_local(self, op: kernel.AllocLocalOp) -> None:
        shape = static_shape(op.result.type)
        name = self.name(op.result, "local")
        type = c_element(op.result, op)
        if is_declaration(op.next_op):
            return
        align = "alignas(16) " if self._has_vectors(op.result) else ""
        self.line(f"{align}{type} {name}{''.join(f'[{n}]' for n in shape)};")

    def _has_vectors(self, ref: SSAValue) -> bool:
        return any(
            isinstance(value.type, VectorType)
            for user in users_of(ref)
            for value in (*user.operands, *user.results)
        )

    def allocate_shared(self, op: kernel.AllocSharedOp) -> None:
        type, count = c_element(op.result, op), span(memref_of(op.result))
        name = self.name(op.result, "shared")
        shape = "".join(f"[{n}]" for n in static_shape(op.result.type))
        if self._is_static:
            note = f"  // {shape}" if shape.count("[") > 1 else ""
            align = f"alignas({alignment_in(op.result)})"
            self.line(f"__shared__ {align} {type} {name}[{max(count, 1)}];{note}")
            return
        offset = self._slots[op.result]
        address = f"{self._smem} + {offset}" if offset else self._smem
        self.line(f"{type}* {name} = reinterpret_cast<{type}*>({address});  // {shape}")

    def allocate_mbarriers(self, op: kernel.AllocMbarriersOp) -> None:
        name, type = self.name(op.result, "mbarriers"), "unsigned long long"
        if self._is_static:
            self.line(f"__shared__ alignas({MBARRIER_BYTES}) {type} {name}[{op.count.value.data}];")
            return
        address = f"{self._smem} + {self._slots[op.result]}"
        self.line(f"{type}* {name} = reinterpret_cast<{type}*>({address});")

    def barrier(self, barriers: SSAValue, number: Expr) -> Text:
        name = self.text[barriers].text
        return Text(f"&{name}[{self.index.expr(number)}]")

    def tma_load(self, op: TmaLoadOpBase) -> None:
        dims = op.map_op.dims
        name = helper = f"{op.name.removeprefix('kernel.')}_{len(dims)}d"
        self.helpers.add(helper)
        target = self._element_text(op.target, op.target_subscripts)
        arguments = [Text(f"&{target}"), Text(f"&{self.text[op.tensor_map]}")]
        arguments.append(self.barrier(op.barriers, op.barrier))
        if isinstance(op, kernel.TmaMulticastOp):
            name = f"{helper}<{sum(1 << block for block in op.offsets)}>"
            arguments.append(self.index.expr(op.first))
        coordinates = [self.index.expr(op.coordinates[d]) for d in reversed(dims)]
        text = call(name, *arguments, *coordinates)
        self._effect(None, f"{text};")

    def tma_store(self, op: kernel.TmaStoreOp) -> None:
        dims = op.map_op.dims
        helper = f"tma_store_{len(dims)}d"
        self.helpers.add(helper)
        source = self._element_text(op.source, op.source_subscripts)
        coordinates = [self.index.expr(op.coordinates[d]) for d in reversed(dims)]
        text = call(helper, Text(f"&{self.text[op.tensor_map]}"), Text(f"&{source}"), *coordinates)
        self._effect(None, f"{text};")

    def cp_async(self, op: kernel.CpAsyncOp) -> None:
        size = op.elements.value.data * element_bytes(element_type(op.source.type))
        helper = f"cp_async_{size}"
        self.helpers.add(helper)
        target = self._element_text(op.target, op.target_subscripts)
        source = self._address_text(op.source, op.subscripts)
        where = self.index.conditions(op.where) or Text("true")
        self._effect(None, f"{call(helper, Text(f'&{target}'), source, where)};")

    def _address_text(self, ref: SSAValue, subscripts: Sequence[Expr]) -> Text:
        """
        `&x[row * 2048 + k] + round * 8192`: loops that are written out go on from one address, as
        an instruction has room for such a number; nvcc keeps an index in a register for each else.
        """
        if not any(isinstance(stride, Size) for stride in strides_of(memref_of(ref))):
            place = place_of(memref_of(ref), subscripts).linear
            numbers = Expr(tuple(t for t in place.terms if _is_written_out(t[0])))
            if numbers != Expr() and numbers != place:
                start = Text(f"&{self.text[ref]}[{self.index.expr(place - numbers)}]", Level.UNARY)
                return binary(start, "+", self.index.expr(numbers))
        return Text(f"&{self._element_text(ref, subscripts)}")

    def matrix_rows(self, op: kernel.LdmatrixOp | kernel.StmatrixOp) -> None:
        kind = op.name.removeprefix("kernel.")
        helper = rows_name(kind, op.matrices, transposed=op.transposed is not None)
        self.helpers.add(helper)
        row = Text(f"&{self._element_text(op.ref, op.subscripts)}")
        if isinstance(op, kernel.LdmatrixOp):
            type = value_type(op.result, op)
            if type.startswith("packed"):
                self.helpers.add("packed")
            self.define(op, call(f"{helper}<{type}>", row))
        else:
            self._effect(None, f"{call(helper, row, self.text[op.value])};")

    def matrix_descriptor(self, op: kernel.MatrixDescriptorOp) -> None:
        self.helpers.add("matrix_descriptor")
        fields = ", ".join(map(str, op.fields))
        place = place_of(memref_of(op.ref), op.subscripts)
        flat = place.base + place.unit
        run = WIDEST_ACCESS // element_bytes(element_type(op.ref.type))
        numbers = tuple(t for t in flat.terms if _is_written_out(t[0]) and t[1] % run == 0)
        if numbers and place.exchange == Expr():
            start = f"{self.text[op.ref]}[{self.index.expr(flat - Expr(numbers))}]"
            beyond = [self.index.expr(Expr(numbers))]
        else:
            start, beyond = str(self._element_text(op.ref, op.subscripts)), []
        self.define(op, call(f"matrix_descriptor<{fields}>", Text(f"&{start}"), *beyond))

    def wgmma(self, op: kernel.WgmmaOp | kernel.WgmmaHeldOp) -> None:
        helper = wgmma_name(op.shape, held=op.held is not None)
        self.helpers.add(helper)
        turned = ", ".join("true" if major else "false" for major in op.majors)
        sums = Text(f"&{self._element_text(op.ref, op.sums_at)}")
        if isinstance(op, kernel.WgmmaOp):
            a = self.text[op.a]
        else:
            a = Text(f"&{self._element_text(op.a, op.held_at)}")
        text = call(f"{helper}<{turned}>", sums, a, self.text[op.b])
        self._effect(None, f"{text};")

    def order_products(
        self, op: kernel.WgmmaFenceOp | kernel.WgmmaCommitOp | kernel.WgmmaWaitOp
    ) -> None:
        helper, argument = op.name.removeprefix("kernel."), ""
        if isinstance(op, kernel.WgmmaWaitOp) and op.finishes:
            helper = "wgmma_finish"
        elif isinstance(op, kernel.WgmmaWaitOp):
            argument = f"<{op.pending.value.data}>"
        self.helpers.add(helper)
        lines = [f"{helper}{argument}();"]
        for ref in () if isinstance(op, kernel.WgmmaCommitOp) else op.sums:
            hold = "hold" if element_bytes(memref_of(ref).element_type) == 4 else "hold_factor"
            self.helpers.add(hold)
            shape = static_shape(ref.type)
            first = f"&{self.text[ref]}{'[0]' * len(shape)}"
            lines.append(f"{hold}<{prod(shape)}>({first});")
        for line in lines if isinstance(op, kernel.WgmmaWaitOp) else reversed(lines):
            self._effect(None, line)

    def atomic_add(self, op: kernel.AtomicAddOp) -> None:
        self.helpers.add("atomic_add")
        place = self._element_text(op.ref, op.subscripts)
        where = self.index.conditions(op.where)
        value = self.text[op.value]
        self._effect(where, f"{call('atomic_add', Text(f'&{place}'), value)};")

    def last_block(self, op: kernel.LastBlockOp) -> None:
        helper = "last_block" if op.named_threads is None else "last_block_among"
        self.helpers.add(helper)
        threads = "" if op.named_threads is None else f"<{op.named_threads}>"
        place = Text(f"&{self._element_text(op.ref, op.subscripts)}")
        last = call(f"{helper}{threads}", place, Text(str(op.blocks)))
        self._effect(None, f"if (!{last}) return;")
