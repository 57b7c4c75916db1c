"""ATen operations become the six operations of Tensor IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from dlc.diagnostics import OpError, with_hint
from dlc.dialects.layouts import shape_of
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.torch import AtenOp
from dlc.error_report import file_line_col
from dlc.ir.sizes import NeedsNumber
from dlc.transforms.tensor.decompositions import (
    COMPLEX,
    DECOMPOSITIONS,
    Lowering,
    PairLowering,
    Parts,
    Refused,
    is_complex,
)
from dlc.transforms.tensor.decompositions.refusals import UNKNOWN, reason_against
from dlc.transforms.tensor.decompositions.scalar import is_unsigned, storage_type


class UnsupportedOperations(OpError):
    """Operations of the program that have no decomposition: all of them, each with its place."""

    def __init__(self, found: Sequence[tuple[AtenOp, str]]) -> None:
        described = [_described(op, reason) for op, reason in found]
        count = "1 operation is" if len(found) == 1 else f"{len(found)} operations are"
        super().__init__(found[0][0], f"{count} not supported: {', '.join(described)}")
        self.found = tuple(found)


class SizeNeeded(OpError):
    """An operation of a program for all sizes that can be lowered for each of them alone."""

    def __init__(self, op: AtenOp, needs: NeedsNumber) -> None:
        super().__init__(op, f"aten.{op.overload.data} {needs}")
        with_hint(self, "give the size a number before: --sizes, or the pass specialize")


def _described(op: AtenOp, reason: str) -> str:
    """`aten.cumsum.default (script.py:3: nobody has written it yet)`."""
    place = file_line_col(op.location)
    where = [] if place is None else [f"{place.filename.data}:{place.line.data}"]
    return f"aten.{op.overload.data} ({': '.join([*where, reason])})"


@dataclass(frozen=True)
class DecomposeTorchPass(ModulePass):
    """
    Writes ATen operations with elementwise, reduce, scan, index_map, gather, constant and iota.

    *Legal always*: an operation that has no decomposition is an error that names its place, and so
    is one that needs the number that a size is.
    *Why*: what follows knows six operations, not the hundreds of ATen.

    ```
    %y = torch.aten "mm.default"(self = %a, mat2 = %b) : (tensor<4x8xf32>, tensor<8x5xf32>) -> …
    ```
    becomes
    ```
    %l = tensor_ir.index_map (d0, d1, d2) -> %a[d0, d2] : tensor<4x8xf32> -> tensor<4x5x8xf32>
    %r = tensor_ir.index_map (d0, d1, d2) -> %b[d2, d1] : tensor<8x5xf32> -> tensor<4x5x8xf32>
    %p = tensor_ir.elementwise (%a = %l, %b = %r) : … { %0 = arith.mulf %a, %b : f32 … }
    %y = tensor_ir.reduce add over [2] (%p) : tensor<4x5x8xf32> -> tensor<4x5xf32>
    ```

    f16 and bf16 are calculated in f32 and rounded where an ATen operation gives its result;
    unsigned bytes become `i8`, and the operations on them know the sign; what `@main` takes and
    returns of them carries `dlc.dtype = "u8"`. Complex tensors become two, of their real and
    imaginary parts. Each operation says what it comes from
    (`dlc/ir/provenance.py`).
    """

    name = "decompose-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        unsupported: list[tuple[AtenOp, str]] = []
        program = [inner for inner in op.walk() if isinstance(inner, AtenOp)]
        parts: Parts = {}
        for number, aten in enumerate(program):
            reason = decompose(aten, number, parts)
            if reason is not None:
                unsupported.append((aten, reason))
        if unsupported:
            hint = "write it with other functions of torch, or compute it outside of the program"
            raise with_hint(UnsupportedOperations(unsupported), hint)
        for value in reversed(parts):
            assert isinstance(value.owner, Operation)
            if all(not result.uses for result in value.owner.results) and value.owner.parent:
                value.owner.detach()
                value.owner.erase()
        make_signless(op)


def decompose(op: AtenOp, number: int, parts: Parts) -> str | None:
    """
    Replaces `op`, the program's operation `number`; gives None, or the reason why it cannot be.
    An operation with complex results stays, and `parts` has what they stand for.
    """
    if any(is_complex(value) for value in (*op.operands, *op.results)):
        return decompose_complex(op, number, parts)
    decomposition = DECOMPOSITIONS.get(op.overload.data)
    if decomposition is None:
        return reason_against(op.overload.data)
    lowering = Lowering(op, number)
    try:
        lowered = decomposition(lowering)
    except Refused as refused:
        return str(refused)
    except NeedsNumber as needs:
        raise SizeNeeded(op, needs) from None
    lowering.replace([lowered] if isinstance(lowered, SSAValue) else lowered)
    return None


def decompose_complex(op: AtenOp, number: int, parts: Parts) -> str | None:
    """The same for an operation on complex numbers; of what is refused, the first is told."""
    if any(is_complex(value) and value not in parts for value in op.operands):
        return None
    decomposition = COMPLEX.get(op.overload.data)
    if decomposition is None:
        reason = reason_against(op.overload.data)
        return "it is not compiled for complex numbers" if reason == UNKNOWN else reason
    lowering = PairLowering(op, number, parts)
    try:
        lowering.finish(decomposition(lowering))
    except Refused as refused:
        return str(refused)
    except NeedsNumber as needs:
        raise SizeNeeded(op, needs) from None
    return None


def make_signless(module: ModuleOp) -> None:
    """
    Gives `i8` elements to all tensors of unsigned bytes. Those that a function takes or returns
    carry `dlc.dtype = "u8"`.
    """
    for op in module.walk():
        for value in op.results:
            _make_value_signless(value)
        for region in op.regions:
            for block in region.blocks:
                for value in block.args:
                    _make_value_signless(value)
        if isinstance(op, func.FuncOp):
            old = op.function_type
            inputs, outputs = ([_signless(t) for t in types] for types in (old.inputs, old.outputs))
            if inputs != list(old.inputs):
                op.arg_attrs = _unsigned_marked(op.arg_attrs, old.inputs.data)
            if outputs != list(old.outputs):
                op.res_attrs = _unsigned_marked(op.res_attrs, old.outputs.data)
            op.function_type = FunctionType.from_lists(inputs, outputs)


def _unsigned_marked(
    attributes: ArrayAttr[DictionaryAttr] | None, types: Sequence[Attribute]
) -> ArrayAttr[DictionaryAttr]:
    given = [DictionaryAttr({})] * len(types) if attributes is None else attributes.data
    mark = {"dlc.dtype": StringAttr("u8")}
    return ArrayAttr(
        DictionaryAttr({**own.data, **mark}) if _signless(type) != type else own
        for own, type in zip(given, types, strict=True)
    )


def _make_value_signless(value: SSAValue) -> None:
    new = _signless(value.type)
    if new is not value.type:
        value._type = new  # pyright: ignore[reportPrivateUsage]


def _signless(type: Attribute) -> Attribute:
    if isinstance(type, TensorType) and is_unsigned(type.element_type):
        return sized_tensor(storage_type(type.element_type), shape_of(type))
    return type
