"""
What xDSL's classes are asked millions of times in a compilation, answered with less work.

Each function here gives what the method of xDSL 0.74 gives that it takes the place of, and does
what that does in the same order; `install` puts them there, once for a process. xDSL is pinned
(`pyproject.toml`); `test/python/test_quick_xdsl.py` compares each with xDSL's own.

What operations are made of is `dlc.ir.quick_operations`, copies of them are `dlc.ir.quick_clones`,
texts are `dlc.ir.quick_parsing`.

*Faster because* a question whether a value is of a class goes no detour by classes that are
registered as subclasses, which no class of an IR is; values and operations are hashed by Python
itself; named operands are looked up in the tuple that an operation has, not in a view of it made
for the purpose; where segments begin is found out once; the operations of a block are given by a
generator, and a walk is one for each region; only an operation with regions is asked whether it
holds the block that it is put into; what a name keeps of a text, the hash of a map or a type, and
the types of the options of a pass are found out once.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, get_type_hints

from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.ir import Attribute, Block, Data, Operation, ParametrizedAttribute, Region, SSAValue, Use
from xdsl.ir.affine import AffineMap
from xdsl.ir.core import BlockOps, IRWithName, SSAValues, _IRNode
from xdsl.irdl import IRDLOperation
from xdsl.irdl.operations import (
    BaseAccessor,
    BaseAttrAccessor,
    BeforeVariadicSingleAccessor,
    IRDLOption,
    OptionalAttrAccessor,
    SingleAttrAccessor,
    VariadicAttrAccessor,
    VarIRConstruct,
)
from xdsl.utils import arg_spec

from dlc.ir import quick_clones, quick_operations, quick_parsing

REPLACED: dict[tuple[type, str], Any] = {}
"""xDSL's own members, by class and name."""
_KINDS = (Data, ParametrizedAttribute)
_new = object.__new__
_tuple_item = tuple.__getitem__
_OPERAND, _RESULT, _REGION = (
    VarIRConstruct.OPERAND,
    VarIRConstruct.RESULT,
    VarIRConstruct.REGION,
)


class _Plain(ABCMeta):
    """The metaclass of classes of which nothing is a virtual subclass."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def install() -> None:
    """Puts the functions below in the place of xDSL's. Does nothing the second time."""
    if isinstance(Operation, _Plain):
        return
    for root in (_IRNode, SSAValue, Attribute, IRDLOption):
        for kind in _subclasses(root):
            if type(kind) is ABCMeta:
                kind.__class__ = _Plain
    for kind in (_IRNode, IRDLOperation, SSAValue, Use):
        _put(kind, __hash__=object.__hash__, __eq__=object.__eq__)
    _put(Operation, walk=walk, result_types=property(_result_types))
    _put(Block, walk=_walk_block, _attach_op=_attach, ops=property(_ops_of))
    _put(BlockOps, __iter__=_ops)
    _put(Region, walk=_walk_region)
    _put(SSAValues, __getitem__=_item)
    _put(Attribute, __post_init__=_check)
    _put(DenseArrayBase, get_values=_values)
    _put(BeforeVariadicSingleAccessor, __get__=_first)
    _put(BaseAccessor, __get__=_named)
    _put(SingleAttrAccessor, __get__=_one_of_segments)
    _put(VariadicAttrAccessor, __get__=_segment)
    _put(OptionalAttrAccessor, __get__=_at_most_one_of_segments)
    _put(IRWithName, name_hint=property(_name_hint, _set_name_hint))
    for kind in (AffineMap, MemRefType):
        _put(kind, __hash__=_hash)
    arg_spec.get_type_hints = cache(get_type_hints)  # pyright: ignore[reportPrivateImportUsage]
    quick_operations.install(_put)
    quick_clones.install(_put)
    quick_parsing.install(_put)


def _put(kind: type, **members: object) -> None:
    for name, member in members.items():
        REPLACED[kind, name] = getattr(kind, name)
        setattr(kind, name, member)


def _subclasses(root: type) -> Iterator[type]:
    yield root
    for kind in root.__subclasses__():
        yield from _subclasses(kind)


def walk(
    op: Operation, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """
    `Operation.walk`: what stands next in a block is read before an operation is given, and its
    regions after, as it may be erased or edited meanwhile.
    """
    if not region_first:
        yield op
    for region in reversed(op.regions) if reverse else op.regions:
        yield from _walk_region(region, reverse=reverse, region_first=region_first)
    if region_first:
        yield op


def _walk_region(
    region: Region, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """`Region.walk`."""
    if reverse or region_first:
        for block in reversed(region.blocks) if reverse else region.blocks:
            yield from _walk_block(block, reverse=reverse, region_first=region_first)
        return
    block = region._first_block
    while block is not None:
        after = block._next_block
        following = block._first_op
        while (op := following) is not None:
            following = op._next_op
            yield op
            for inner in op.regions:
                yield from _walk_region(inner)
        block = after


def _walk_block(
    block: Block, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """`Block.walk`."""
    for op in reversed(block.ops) if reverse else block.ops:
        yield from walk(op, reverse=reverse, region_first=region_first)


def _ops_of(block: Block) -> BlockOps:
    """The getter of `Block.ops`."""
    view = _new(BlockOps)
    view.block = block
    return view


def _ops(ops: BlockOps) -> Iterator[Operation]:
    """`BlockOps.__iter__`."""
    return _from(ops.block._first_op)


def _from(following: Operation | None) -> Iterator[Operation]:
    """An operation and what follows it in its block, each read before the one ahead is given."""
    while (op := following) is not None:
        following = op._next_op
        yield op


def _attach(block: Block, operation: Operation) -> None:
    """`Block._attach_op`: a block stands in no operation that has no regions."""
    if operation.parent is not None or operation.regions:
        REPLACED[Block, "_attach_op"](block, operation)
    else:
        operation.parent = block


def _result_types(op: Operation) -> tuple[Attribute, ...]:
    """`Operation.result_types`."""
    return tuple([result._type for result in op.results])


def _item(values: SSAValues, index: int | slice) -> SSAValue | SSAValues:
    """`SSAValues.__getitem__`."""
    found: Any = _tuple_item(values, index)
    return SSAValues(found) if type(index) is slice else found


def _check(attribute: Attribute) -> None:
    """`Attribute.__post_init__`."""
    attribute._verify()
    if not isinstance(attribute, _KINDS):
        raise TypeError("Attributes should only be Data or ParametrizedAttribute")


def _values(array: DenseArrayBase) -> tuple[int, ...] | tuple[float, ...]:
    """`DenseArrayBase.get_values`, kept with the array, which never changes."""
    kept = vars(array)
    if (values := kept.get("kept_values")) is None:
        values = kept["kept_values"] = array.elt_type.unpack(array.data.data, len(array))
    return values


def _parts(op: Operation, construct: VarIRConstruct) -> Sequence[Any]:
    """What an operation has of a kind: what `get_op_constructs` gives a view of."""
    if construct is _OPERAND:
        return op._operands
    if construct is _RESULT:
        return op.results
    return op.regions if construct is _REGION else op.successors


def _named(accessor: BaseAccessor, op: Operation, kind: type | None = None) -> Any:
    """`BaseAccessor.__get__`."""
    return accessor.index(_parts(op, accessor.construct))


def _first(accessor: BaseAccessor, op: Operation, kind: type | None = None) -> Any:
    """`BaseAccessor.__get__` of what is before all of which there may be several."""
    construct = accessor.construct
    if construct is _OPERAND:
        return _tuple_item(op._operands, accessor.idx)
    if construct is _RESULT:
        return _tuple_item(op.results, accessor.idx)
    return _parts(op, construct)[accessor.idx]


def _ends(accessor: BaseAttrAccessor, op: Operation) -> tuple[int, ...]:
    """Where each segment of an operation begins, and the last ends, kept with their sizes."""
    option = accessor.option
    sizes: Any = (op.properties if option.as_property else op.attributes)[option.attribute_name]
    kept = vars(sizes)
    if (ends := kept.get("kept_ends")) is None:
        ends = kept["kept_ends"] = tuple(accumulate(sizes.get_values(), initial=0))
    return ends


def _one_of_segments(accessor: BaseAttrAccessor, op: Operation, kind: type | None = None) -> Any:
    """`BaseAttrAccessor.__get__` of what there is one of."""
    return _parts(op, accessor.construct)[_ends(accessor, op)[accessor.idx]]


def _segment(accessor: BaseAttrAccessor, op: Operation, kind: type | None = None) -> Any:
    """`BaseAttrAccessor.__get__` of what there may be several of."""
    ends, number = _ends(accessor, op), accessor.idx
    return _parts(op, accessor.construct)[ends[number] : ends[number + 1]]


def _at_most_one_of_segments(
    accessor: BaseAttrAccessor, op: Operation, kind: type | None = None
) -> Any:
    """`BaseAttrAccessor.__get__` of what there may be none of."""
    ends, number = _ends(accessor, op), accessor.idx
    if ends[number] == ends[number + 1]:
        return None
    return _parts(op, accessor.construct)[ends[number]]


def _name_hint(value: IRWithName) -> str | None:
    """The getter of `IRWithName.name_hint`."""
    return value._name


def _set_name_hint(value: IRWithName, name: str | None) -> None:
    """The setter of `IRWithName.name_hint`."""
    if name in _names:
        value._name = _names[name]
    else:
        value._name = value.extract_valid_name(name)
        if len(_names) < MOST_NAMES:
            _names[name] = value._name


MOST_NAMES = 100_000
_names: dict[str | None, str | None] = {}
"""What names of values keep of texts."""


def _hash(of: AffineMap | MemRefType) -> int:
    """`AffineMap.__hash__` and `MemRefType.__hash__`, kept with what never changes."""
    kept = vars(of)
    if (known := kept.get("kept_hash")) is None:
        known = kept["kept_hash"] = REPLACED[type(of), "__hash__"](of)
    return known
