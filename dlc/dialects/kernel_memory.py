"""The memory of a kernel: address spaces and what lies in them."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IntegerType,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.sized_types import sized_memref
from dlc.ir.sizes import NeedsNumber, Size


@irdl_attr_definition
class SharedAttr(ParametrizedAttribute):
    """`#kernel.shared`: memory shared by the threads of a block."""

    name = "kernel.shared"


@irdl_attr_definition
class LocalAttr(ParametrizedAttribute):
    """`#kernel.local`: memory of one thread."""

    name = "kernel.local"


@irdl_attr_definition
class ClusterAttr(ParametrizedAttribute):
    """`#kernel.cluster`: the shared memory of each block of a cluster."""

    name = "kernel.cluster"


@lru_cache(maxsize=4096)
def memref_type(
    element: Attribute,
    shape: tuple[int, ...],
    layout: MemRefLayoutAttr | NoneAttr = NoneAttr(),
    space: Attribute = NoneAttr(),
) -> MemRefType[Attribute]:
    """
    The type of a memref, made once: `MemRefType` takes long to check what it is given. Sizes may be
    extents of what lies row by row in global memory: NeedsNumber elsewhere.
    """
    sizes = [extent for extent in shape if isinstance(extent, Size)]
    if sizes:
        if (layout, space) != (NoneAttr(), NoneAttr()):
            raise NeedsNumber(sizes[-1])
        return sized_memref(element, shape)
    return MemRefType(element, shape, layout, space)


def verify_space(type: Attribute, space: Attribute) -> None:
    """Raises `VerifyException` unless `type` is a memref in `space`."""
    if not isinstance(type, MemRefType) or type.memory_space != space:
        raise VerifyException(f"expected a memref in {space}, found {type}")


def memref_of(ref: SSAValue) -> MemRefType[Attribute]:
    """The type of a buffer."""
    assert isinstance(ref.type, MemRefType)
    return ref.type


def is_shared(ref: SSAValue) -> bool:
    """True if a memref lives in shared memory."""
    return isinstance(ref.type, MemRefType) and isinstance(ref.type.memory_space, SharedAttr)


def is_of_cluster(ref: SSAValue) -> bool:
    """True if a memref is in the shared memory of each block of a cluster."""
    return isinstance(ref.type, MemRefType) and isinstance(ref.type.memory_space, ClusterAttr)


def is_local(ref: SSAValue) -> bool:
    """True if a memref lives in a thread's own memory."""
    return isinstance(ref.type, MemRefType) and isinstance(ref.type.memory_space, LocalAttr)


def register_words(type: Attribute) -> int:
    """The registers, of four bytes each, that hold an element."""
    return -(-element_bytes(type) // 4)


def element_bytes(type: Attribute) -> int:
    """The size of an element in memory; a boolean takes one byte."""
    if isinstance(type, ComplexType):
        return 2 * element_bytes(type.element_type)
    if isinstance(type, AnyFloat | IntegerType):
        return max(1, type.bitwidth // 8)
    raise ValueError(f"elements of type {type} have no size in memory")
