"""
The operations of the program that an operation of a later IR comes from.

`decompose-torch` numbers the operations of the Torch IR from 0, in their order. From then on

```
{ops = ["3 add.Tensor", "4 relu.default"], values = ["4"]}
```

on a tensor operation, a kernel or a launch says that it does part or all of these two, and that
its result is what operation 4 gives: `4.1` is the second result of it, and `""` a result that no
operation of the program gives, such as the partial sums of a split reduce.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

OPS = "ops"
VALUES = "values"


def set_ops(op: Operation, ops: Iterable[str]) -> None:
    """Sets the program's operations that `op` comes from, each once, in the program's order."""
    found = sorted(set(ops), key=lambda text: int(text.partition(" ")[0]))
    if found:
        op.attributes[OPS] = ArrayAttr([StringAttr(text) for text in found])


def ops_of(*origins: Operation) -> list[str]:
    """The program's operations that all of these come from, such as `3 add.Tensor`."""
    return list(chain.from_iterable(_texts(op, OPS) for op in origins))


def numbered(number: int, result: int) -> str:
    """A result of the program's operation `number`."""
    return f"{number}.{result}" if result else str(number)


def set_value(value: SSAValue, text: str) -> None:
    """Says that a result of an operation is a value of the program, unless it is one already."""
    op = value.owner
    assert isinstance(op, Operation)
    texts = values_of(op, len(op.results))
    index = op.results.index(value)  # pyright: ignore[reportArgumentType]
    texts[index] = texts[index] or text
    set_values(op, texts)


def set_values(op: Operation, texts: Sequence[str]) -> None:
    """Says which value of the program each result of `op` is, `""` for none."""
    op.attributes.pop(VALUES, None)
    if any(texts):
        op.attributes[VALUES] = ArrayAttr([StringAttr(text) for text in texts])


def values_of(op: Operation, count: int) -> list[str]:
    """The values of the program that the `count` results of `op` are, `""` if none or unknown."""
    return (_texts(op, VALUES) + [""] * count)[:count]


def inherit(new: Operation, *origins: Operation) -> None:
    """`new` takes the place of the first origin, and does what the others do, too."""
    set_ops(new, ops_of(new, *origins))
    if VALUES in origins[0].attributes:
        new.attributes[VALUES] = origins[0].attributes[VALUES]


def _texts(op: Operation, name: str) -> list[str]:
    attribute = op.attributes.get(name)
    if not isinstance(attribute, ArrayAttr):
        return []
    return [item.data for item in attribute.data if isinstance(item, StringAttr)]
