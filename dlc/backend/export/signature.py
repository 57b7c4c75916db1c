"""What an exported program takes, writes to and returns, in terms of named buffers and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from dlc.backend.bound_program import Layout
from dlc.diagnostics import fail
from dlc.dialects.main_function import attributes_of
from dlc.dialects.user_outputs import mutated_by, outputs_of
from dlc.escapes import file_name
from dlc.ir.leaves import Constant, Leaf, Output


@dataclass(frozen=True)
class Argument:
    """A tensor that a program is given: `kind` is input, parameter, buffer or constant."""

    name: str
    """In the program's source; a weight's is its qualified name."""
    kind: str
    file: str
    """The name of its file, without an extension: its own where that can be a file's."""
    buffer: str
    layout: Layout


@dataclass(frozen=True)
class Mutation:
    """What the program leaves in an argument: the elements of a buffer, to be copied there."""

    argument: Argument
    buffer: str


@dataclass(frozen=True)
class Result:
    """Leaf `number` of the user's output: a buffer's memory, from an element on."""

    number: int
    path: str
    """Its place in the output's structure."""
    buffer: str
    layout: Layout
    offset: int
    """In elements."""
    relation: str
    """How it shares memory, such as `a view of x`; empty if it is a tensor of its own."""
    is_number: bool = False
    """True if it is a number of Python in the output."""


@dataclass(frozen=True)
class Other:
    """Leaf `number` of the user's output, which is no tensor."""

    number: int
    path: str
    value: object


@dataclass(frozen=True)
class Signature:
    """The tensors of `@main` and the user's output."""

    arguments: tuple[Argument, ...]
    mutations: tuple[Mutation, ...]
    results: tuple[Result | Other, ...]

    @staticmethod
    def of(
        main: FuncOp,
        arguments: Sequence[str],
        results: Sequence[str],
        layouts: Mapping[str, Layout],
    ) -> Signature:
        """`arguments` and `results` are the names of `@main`'s buffers, of these layouts."""
        outputs = outputs_of(main)
        taken = {str(number) for number in range(len(outputs))}
        given: list[Argument] = []
        for attributes, buffer in zip(attributes_of(main), arguments, strict=True):
            name = _text(attributes, "dlc.name", buffer)
            kind = _text(attributes, "dlc.kind", "input")
            given.append(Argument(name, kind, _file(name, taken), buffer, layouts[buffer]))
        mutations = [
            Mutation(given[number], results[place])
            for place, number in enumerate(mutated_by(main))
            if number is not None
        ]
        reader = _Reader(main, given, results, layouts, outputs)
        return Signature(
            tuple(given),
            tuple(mutations),
            tuple(reader.result(number, leaf) for number, leaf in enumerate(outputs)),
        )


@dataclass(frozen=True)
class _Reader:
    main: FuncOp
    arguments: Sequence[Argument]
    results: Sequence[str]
    layouts: Mapping[str, Layout]
    outputs: Sequence[Leaf]

    def result(self, number: int, leaf: Leaf) -> Result | Other:
        if isinstance(leaf, Constant):
            return Other(number, leaf.path, leaf.value)
        ours = leaf.of == "argument"
        buffer = self.arguments[leaf.number].buffer if ours else self.results[leaf.number]
        layout = self.layouts[buffer]
        if leaf.view is None:
            relation = self._relation(number, leaf)
            return Result(number, leaf.path, buffer, layout, 0, relation, leaf.is_number)
        if leaf.view.end * layout.dtype.itemsize > layout.bytes:
            fail(self.main, f"expected output {number} to lie in {buffer}, found {leaf.view}")
        shape, strides, offset = leaf.view.numbers
        seen = Layout(shape, strides, layout.dtype)
        return Result(number, leaf.path, buffer, seen, offset, self._relation(number, leaf))

    def _relation(self, number: int, leaf: Output) -> str:
        if leaf.of == "argument":
            name = self.arguments[leaf.number].name
            return name if leaf.view is None else f"a view of {name}"
        for place, other in enumerate(self.outputs[:number]):
            if isinstance(other, Output) and (other.of, other.number) == (leaf.of, leaf.number):
                same = other.view == leaf.view
                return f"result {place}" if same else f"in the memory of result {place}"
        return ""


def _file(name: str, taken: set[str]) -> str:
    """A name of a file for a tensor's name, which is none that is taken."""
    file = file_name(name)
    while file in taken:
        file += "_"
    taken.add(file)
    return file


def _text(attributes: Mapping[str, Attribute], name: str, default: str) -> str:
    attribute = attributes.get(name)
    return attribute.data if isinstance(attribute, StringAttr) else default
