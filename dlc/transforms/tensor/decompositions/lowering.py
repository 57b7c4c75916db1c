"""The builder and argument reader of decompositions of ATen operations, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import TypeAlias

from xdsl.ir import SSAValue

from dlc import plugins
from dlc.dialects.torch import Argument, AtenOp
from dlc.ir.sizes import Size
from dlc.plugins import DLC
from dlc.transforms.tensor.decompositions.builder import TensorBuilder, refuse
from dlc.transforms.tensor.decompositions.scalar import Number, function


class Lowering(TensorBuilder):
    """Reads the arguments of one `torch.aten`, operation `position` of the program, and builds."""

    def __init__(self, op: AtenOp, position: int) -> None:
        super().__init__(op, position, op.overload.data)
        self.op = op

    def tensor(self, name: str = "self") -> SSAValue:
        value = self.op.operand(name)
        if value is None:
            given = ", ".join(self.op.names) or "none"
            refuse(f"expected a tensor for '{name}', found tensors for {given}")
        return value

    def of_function(self, name: str) -> SSAValue:
        """A function of the table of scalars, such as `math.exp`, of the elements of the tensor."""
        return self.pointwise(function(name.removeprefix("math.")), self.tensor())

    def tensors(self, name: str = "tensors") -> list[SSAValue]:
        values = self.op.operand_list(name)
        return [v for v in values if v is not None]

    @staticmethod
    def _number(value: Argument) -> Argument:
        """The value of an argument; NeedsNumber for a size that is none yet."""
        return index(value) if isinstance(value, Size) else value

    def operand(self, name: str, default: Number | None = None) -> SSAValue | Number:
        """A tensor, or a number where the program has one in its place."""
        value = self.op.operand(name)
        return self.number(name, default) if value is None else value

    def sized_operand(self, name: str) -> SSAValue | Number:
        """The same, where a number may be a size, which a body of floats has as a value."""
        value = self.op.argument(name)
        if isinstance(value, Size):
            return value  # pyright: ignore[reportReturnType]
        return self.operand(name)

    def optional_operand(self, name: str) -> SSAValue | Number | None:
        value = self.op.operand(name)
        return self.optional_number(name) if value is None else value

    def number(self, name: str, default: Number | None = None) -> Number:
        value = self._number(self.op.argument(name, default))
        if not isinstance(value, bool | int | float):
            refuse(f"expected a number for '{name}', found {value}")
        return value

    def optional_number(self, name: str) -> Number | None:
        return None if self.op.argument(name) is None else self.number(name)

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._number(self.op.argument(name, default))
        return value if isinstance(value, int) else refuse(f"expected an integer for '{name}'")

    def sized_integer(self, name: str) -> int:
        """An integer, or a size, which is used as one; `NeedsNumber` where only one will do."""
        value = self.op.argument(name)
        return value if isinstance(value, Size) else self.integer(name)  # pyright: ignore

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.op.argument(name, default))

    def integers(self, name: str, default: list[int] | None = None) -> list[int]:
        """A list of integers; one integer stands for a list of it."""
        value = self.op.argument(name, default)  # pyright: ignore[reportArgumentType]
        items = value if isinstance(value, list) else [value]
        integers = [v for v in map(self._number, items) if isinstance(v, int)]
        if len(integers) != len(items):
            refuse(f"expected integers for '{name}', found {value}")
        return integers

    def dim(self, rank: int, name: str = "dim", default: int | None = None) -> int:
        """An argument that names a dimension, counted from the front."""
        count, found = max(rank, 1), self.integer(name, default)
        if not -count <= found < count:
            refuse(f"expected {name} from {-count} to {count - 1}, found {found}")
        return found % count


Lowered: TypeAlias = SSAValue | Sequence[SSAValue]
Decomposition: TypeAlias = Callable[[Lowering], Lowered]

DECOMPOSITIONS: Mapping[str, Decomposition] = plugins.DECOMPOSITIONS
"""What makes an ATen overload (`add.Tensor`) of simpler operations; those of plug-ins included."""


def lower(*overloads: str) -> Callable[[Decomposition], Decomposition]:
    """Registers a decomposition; a name without an overload stands for `.default`."""

    def register(decomposition: Decomposition) -> Decomposition:
        for overload in overloads:
            DLC.decomposition(overload, decomposition)
        return decomposition

    return register
