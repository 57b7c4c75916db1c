"""A host program in terms of names, which an export is written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend.cuda.print.c_text import Names
from dlc.backend.cuda.print.interface import (
    c_name,
    dynamic_shared_bytes,
    parameter_types,
    tensor_maps,
)
from dlc.backend.host_program import Allocate, HostProgram, Launch, Layout, Slice, Zero
from dlc.diagnostics import fail
from dlc.dialects import host
from dlc.dialects.kernel import FuncOp
from dlc.ir.elements import ELEMENTS
from dlc.ir.provenance import ops_of

DTYPES = {row.torch: row.name for row in ELEMENTS}
"""How an export calls torch's dtypes."""
_TAKEN = ("kernels", "program", "argc", "argv", "main", "std", "exported")


@dataclass(frozen=True)
class Argument:
    """A tensor that a program is given: `kind` is input, parameter, buffer or constant."""

    name: str
    """In the program's source; a weight's is its qualified name."""
    kind: str
    buffer: str
    layout: Layout


@dataclass(frozen=True)
class Call:
    """A launch of a kernel on named buffers, in the order of its parameters."""

    kernel: str
    buffers: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class ExportPlan:
    """
    Everything in the order of the program. The names of buffers and kernels are C identifiers and
    differ from each other.
    """

    target: str
    arguments: tuple[Argument, ...]
    memory: tuple[Allocate | Slice | Zero, ...]
    steps: tuple[Allocate | Slice | Zero | Call, ...]
    results: tuple[str, ...]
    names: dict[int, str]
    """The names of buffers, by number."""
    layouts: dict[str, Layout]
    unsigned: frozenset[str]
    """The buffers of bytes that the user's tensors have without a sign; kernels have `i8`."""
    funcs: tuple[FuncOp, ...]

    def dtype(self, buffer: str) -> str:
        """The element type of a buffer by PyTorch's name, `u8` for bytes without a sign."""
        return "u8" if buffer in self.unsigned else dtype_name(self.layouts[buffer])

    @staticmethod
    def of(module: ModuleOp, target: str) -> ExportPlan:
        """The plan of a module of Kernel IR; OpError if its buffers are not planned."""
        main = host.main_of(module)
        if not any(isinstance(op, host.LaunchOp) for op in main.body.block.ops):
            fail(main, "expected a host program, found none", "run plan-buffers first")
        program = HostProgram.of(module).bind({})
        scope = Names(_TAKEN)
        names: dict[int, str] = {}
        layouts: dict[str, Layout] = {}
        arguments: list[Argument] = []
        given = _attributes(main.arg_attrs, len(program.arguments))
        for number, (layout, attributes) in enumerate(zip(program.arguments, given, strict=True)):
            assert layout is not None
            hint = main.body.block.args[number].name_hint or f"argument_{number}"
            names[number] = scope.new(hint)
            layouts[names[number]] = layout
            name, kind = _text(attributes, "dlc.name", hint), _text(attributes, "dlc.kind", "input")
            arguments.append(Argument(name, kind, names[number], layout))
        steps: list[Allocate | Slice | Zero | Call] = []
        for step in program.steps:
            if isinstance(step, Allocate | Slice):
                names[step.number] = scope.new(step.name)
                layouts[names[step.number]] = step.layout
                steps.append(step)
            elif isinstance(step, Zero):
                steps.append(step)
            elif isinstance(step, Launch):
                buffers = tuple(names[n] for n in step.inputs + step.outputs)
                steps.append(Call(c_name(step.func), buffers, tuple(ops_of(step.op))))
        made = _attributes(main.res_attrs, len(program.results))
        told = [
            *zip(range(len(given)), given, strict=True),
            *zip(program.results, made, strict=True),
        ]
        return ExportPlan(
            target,
            tuple(arguments),
            tuple(s for s in steps if not isinstance(s, Call)),
            tuple(steps),
            tuple(names[n] for n in program.results),
            names,
            layouts,
            frozenset(names[n] for n, a in told if a.data.get("dlc.dtype") == StringAttr("u8")),
            tuple(program.funcs),
        )


@dataclass(frozen=True)
class KernelFacts:
    """The facts that a launch of a kernel states."""

    name: str
    grid: int
    block: int
    dynamic_shared: int
    parameters: tuple[str, ...]
    maps: tuple[tuple[int, TensorMap], ...]

    @staticmethod
    def of(func: FuncOp) -> KernelFacts:
        return KernelFacts(
            c_name(func),
            func.grid_size,
            func.block_size,
            dynamic_shared_bytes(func),
            tuple(parameter_types(func)),
            tuple(tensor_maps(func)),
        )


def dtype_name(layout: Layout) -> str:
    return DTYPES[str(layout.dtype).removeprefix("torch.")]


def row(values: Sequence[int]) -> str:
    """A list in C."""
    return "{" + ", ".join(map(str, values)) + "}"


def _attributes(given: ArrayAttr[DictionaryAttr] | None, count: int) -> Sequence[DictionaryAttr]:
    return [DictionaryAttr({})] * count if given is None else given.data


def _text(attributes: DictionaryAttr, name: str, default: str) -> str:
    attribute = attributes.data.get(name)
    return attribute.data if isinstance(attribute, StringAttr) else default
