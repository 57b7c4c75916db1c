"""
Complex tensors as two tensors of reals, their real and their imaginary parts.

A decomposition of an operation that takes or gives complex tensors is registered by
`@lower_complex("mul.Tensor")`. It gives a `Pair` for a complex result. `@main` has complex tensors
as pairs along a last dimension, which `view_as_complex` and `view_as_real` take apart and join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Attribute, SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.tensor_ir import ElementwiseOp
from dlc.dialects.torch import Argument, AtenOp
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.complex_scalar import Complex
from dlc.transforms.tensor.decompositions.lowering import DECOMPOSITIONS, Lowering
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar
from dlc.transforms.tensor.decompositions.types import join


@dataclass(frozen=True)
class Pair:
    """The two parts of a complex tensor; of a number, two numbers."""

    re: SSAValue | Number
    im: SSAValue | Number

    @property
    def tensors(self) -> tuple[SSAValue, SSAValue]:
        assert isinstance(self.re, SSAValue)
        assert isinstance(self.im, SSAValue)
        return self.re, self.im


def _without_dead_code(value: SSAValue) -> SSAValue:
    """The result of an elementwise operation, which computes nothing but that."""
    assert isinstance(value.owner, ElementwiseOp)
    for op in reversed(list(value.owner.body.block.ops)):
        if op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
    return value


Parts: TypeAlias = dict[SSAValue, Pair]
"""What complex values stand for."""
PairLowered: TypeAlias = Pair | SSAValue | Sequence[Pair | SSAValue]


def is_complex(value: SSAValue) -> bool:
    return isinstance(element_of(value), ComplexType)


def part_type(element: Attribute) -> Attribute:
    """The type of the parts of a complex number; of a real one its own."""
    return element.element_type if isinstance(element, ComplexType) else element


class PairLowering(Lowering):
    """Reads the arguments of an operation on complex tensors, whose parts are known, and builds."""

    def __init__(self, op: AtenOp, position: int, parts: Parts) -> None:
        super().__init__(op, position)
        self.parts = parts

    @property
    def element(self) -> Attribute:
        """The type of the parts of the first result."""
        return part_type(element_of(self.op.results[0]))

    @property
    def part(self) -> Attribute:
        """The type of parts that the operation calculates in."""
        if is_complex(self.op.results[0]):
            return self.element
        found = [part_type(element_of(v)) for v in self.op.operands if is_complex(v)]
        return found[0] if len(found) < 2 else join(*found[:2])

    def pair(self, name: str = "self") -> Pair:
        """An operand by its parts: those of a real one are itself and zero."""
        value = self.op.operand(name)
        if value is not None:
            return self.parts_of(value)
        number = self.complex_number(name)
        return Pair(number.real, number.imag)

    def parts_of(self, value: SSAValue) -> Pair:
        if is_complex(value):
            return self.parts[value]
        real = self.cast(value, self.part)
        return Pair(real, self.constant(0.0, shape_of(value), self.part))

    def complex_number(self, name: str, default: complex | None = None) -> complex:
        value = self.op.argument(name, default)
        if not isinstance(value, bool | int | float | complex):
            refuse(f"expected a number for '{name}', found {value}")
        return complex(value)

    def of_scalars(
        self, function: Callable[..., Complex | Scalar], *pairs: Pair
    ) -> Pair | SSAValue:
        """A function of complex scalars, broadcast; the parts of what it gives."""
        kinds: list[bool] = []

        def taking(choose: Callable[[Complex | Scalar], Scalar]) -> SSAValue:
            def body(*scalars: Scalar) -> Scalar:
                given = [Complex(*scalars[i : i + 2]) for i in range(0, len(scalars), 2)]
                found = function(*given)
                kinds.append(isinstance(found, Complex))
                return choose(found)

            flat = [part for pair in pairs for part in (pair.re, pair.im)]
            return _without_dead_code(self.pointwise(body, *flat, within=self.part))

        first = taking(lambda z: z.re if isinstance(z, Complex) else z)
        if not kinds[0]:
            return first
        return Pair(first, taking(lambda z: z.im if isinstance(z, Complex) else z))

    def real(
        self,
        tensors: Mapping[str, SSAValue],
        arguments: Mapping[str, Argument],
        types: Sequence[Attribute],
        overload: str | None = None,
    ) -> list[SSAValue]:
        """What an operation (this one, if none is named) gives for real tensors."""
        overload = overload or self.op.overload.data
        if overload not in DECOMPOSITIONS:
            refuse("it is not compiled for complex numbers")
        op = AtenOp(overload, tensors, arguments, types)
        op.location = self.op.location
        for result in op.results:
            result.name_hint = self.hint
        self.builder.insert(op)
        inner = Lowering(op, self.position)
        inner.name = self.name
        found = DECOMPOSITIONS[overload](inner)
        self._created |= inner._created
        op.detach()
        op.erase()
        values = [found] if isinstance(found, SSAValue) else list(found)
        return [self.cast(v, element_of(r)) for v, r in zip(values, op.results, strict=True)]

    @property
    def real_types(self) -> list[Attribute]:
        """The types of the results' parts."""
        return [sized_tensor(part_type(element_of(r)), shape_of(r)) for r in self.op.results]

    @property
    def named_operands(self) -> dict[str, SSAValue]:
        return dict(zip(self.op.names, self.op.operands, strict=True))

    @property
    def named_arguments(self) -> dict[str, Argument]:
        """The arguments that are no tensors; dtypes are those of the parts."""
        found = {name: self.op.argument(name) for name in self.op.arguments.data}
        real = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
        return {k: real.get(v, v) if isinstance(v, str) else v for k, v in found.items()}

    def finish(self, lowered: PairLowered) -> None:
        """Puts real results in the operation's place; keeps the parts of complex ones."""
        results = [lowered] if isinstance(lowered, Pair | SSAValue) else list(lowered)
        if not is_complex(self.op.results[0]):
            self.replace([r for r in results if isinstance(r, SSAValue)])
            return
        for old, new in zip(self.op.results, results, strict=True):
            assert isinstance(new, Pair)
            for name, part in zip(("re", "im"), new.tensors, strict=True):
                if part.owner in self._created and part.name_hint == self.hint:
                    part.name_hint = f"{old.name_hint or 'z'}_{name}"
            self.parts[old] = new


PairDecomposition: TypeAlias = Callable[[PairLowering], PairLowered]
COMPLEX: dict[str, PairDecomposition] = {}
"""What makes an ATen overload on complex tensors of operations on their parts."""


def lower_complex(*overloads: str) -> Callable[[PairDecomposition], PairDecomposition]:
    """Registers a decomposition; a name without an overload stands for `.default`."""

    def register(decomposition: PairDecomposition) -> PairDecomposition:
        for overload in overloads:
            name = overload if "." in overload else f"{overload}.default"
            assert name not in COMPLEX, f"{name} has two decompositions of complex numbers"
            COMPLEX[name] = decomposition
        return decomposition

    return register
