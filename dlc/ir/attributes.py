"""
Attributes that many operations have, each made once: the second time nothing of it is verified, and
equal ones are one object, which is what the verifier of operations goes by (`declared_form`).
"""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    i64,
)

INDEX = IndexType()


@lru_cache(4096)
def index_attr(number: int) -> IntegerAttr[IndexType]:
    """The value of a constant of type index."""
    return IntegerAttr(number, INDEX)


@lru_cache(4096)
def i64_attr(number: int) -> IntegerAttr[I64]:
    """A number that an operation states."""
    return IntegerAttr(number, i64)


@lru_cache(4096)
def i64_array(numbers: tuple[int, ...]) -> DenseArrayBase[I64]:
    """Numbers that an operation states."""
    return DenseArrayBase.from_list(i64, numbers)


@lru_cache(4096)
def names_attr(names: tuple[str, ...]) -> ArrayAttr[StringAttr]:
    """Names that an operation states."""
    return ArrayAttr([StringAttr(name) for name in names])
