"""A host program in terms of names, which an export is written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, ModuleOp, StringAttr

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend.bound_program import (
    Allocate,
    BoundProgram,
    For,
    Launch,
    Layout,
    Select,
    Slice,
    Step,
    While,
    flat,
)
from dlc.backend.cuda.print.c_text import Names
from dlc.backend.cuda.print.interface import (
    c_name,
    check_names,
    dynamic_shared_bytes,
    parameter_types,
    tensor_maps,
)
from dlc.backend.export.signature import Signature
from dlc.backend.host_program import HostProgram
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.kernel import FuncOp
from dlc.dialects.main_function import main_of
from dlc.ir.elements import ELEMENTS

DTYPES = {row.torch: row.name for row in ELEMENTS}
"""How an export calls torch's dtypes."""
_TAKEN = ("kernels", "program", "argc", "argv", "main", "std", "exported")


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
    signature: Signature
    steps: tuple[Step, ...]
    names: dict[int, str]
    """The names of buffers and counters, by number."""
    layouts: dict[str, Layout]
    unsigned: frozenset[str]
    """The buffers of bytes that the user's tensors have without a sign; kernels have `i8`."""
    funcs: tuple[FuncOp, ...]

    def call(self, launch: Launch) -> Call:
        """A launch in terms of names."""
        return Call(
            launch.func.c_name,
            self.all_names(launch.inputs + launch.outputs),
            launch.ops,
        )

    def all_names(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """The names of buffers."""
        return tuple(self.names[n] for n in numbers)

    def dtype(self, buffer: str) -> str:
        """The element type of a buffer by PyTorch's name, `u8` for bytes without a sign."""
        return "u8" if buffer in self.unsigned else dtype_name(self.layouts[buffer])

    @staticmethod
    def of(module: ModuleOp, target: str) -> ExportPlan:
        """The plan of a module of Kernel IR; OpError if its buffers are not planned."""
        main = main_of(module)
        body = main.body.block
        planned = all(isinstance(a.type, MemRefType) for a in body.args)
        if not planned or any(isinstance(op, kernel.LaunchOp) for op in body.ops):
            fail(main, "expected a host program, found none", "run plan-buffers first")
        program = HostProgram.of(module).bind()
        funcs = tuple(image.func for image in program.funcs)
        check_names(funcs)
        names = _names(program)
        layouts = {names[n]: layout for n, layout in _layouts(program).items()}
        arguments = [names[n] for n in range(len(program.arguments))]
        results = [names[n] for n in program.results]
        return ExportPlan(
            target,
            Signature.of(main, arguments, results, layouts),
            program.steps,
            names,
            layouts,
            _unsigned(main.arg_attrs, arguments) | _unsigned(main.res_attrs, results),
            funcs,
        )


def _names(program: BoundProgram) -> dict[int, str]:
    """A name for each buffer and counter."""
    scope = Names(_TAKEN)
    names: dict[int, str] = {}
    for number, hint in enumerate(program.hints):
        kind = "argument" if number < len(program.arguments) else "buffer"
        names[number] = scope.new(hint or f"{kind}_{number}")
    return names


def _layouts(program: BoundProgram) -> dict[int, Layout]:
    """The layouts of buffers, by number."""
    layouts: dict[int, Layout] = {}
    for number, layout in enumerate(program.arguments):
        assert layout is not None
        layouts[number] = layout
    for step in flat(program.steps):
        if isinstance(step, Allocate | Slice | Select):
            layouts[step.number] = step.layout
        elif isinstance(step, For | While):
            carry = step.carry
            for names in (*carry.names, carry.results):
                layouts |= {n: layouts[b] for n, b in zip(names, carry.inits, strict=True)}
    return layouts


@dataclass(frozen=True)
class KernelFacts:
    """The facts that a launch of a kernel states."""

    name: str
    grid: int
    block: int
    dynamic_shared: int
    cluster: int
    parameters: tuple[str, ...]
    maps: tuple[tuple[int, TensorMap], ...]

    @staticmethod
    def of(func: FuncOp) -> KernelFacts:
        return KernelFacts(
            c_name(func),
            func.grid_size,
            func.block_size,
            dynamic_shared_bytes(func),
            func.cluster_size,
            tuple(parameter_types(func)),
            tuple(tensor_maps(func)),
        )


def dtype_name(layout: Layout) -> str:
    return DTYPES[str(layout.dtype).removeprefix("torch.")]


def row(values: Sequence[int]) -> str:
    """A list in C."""
    return "{" + ", ".join(map(str, values)) + "}"


def _unsigned(given: ArrayAttr[DictionaryAttr] | None, buffers: Sequence[str]) -> frozenset[str]:
    """The buffers that are said to hold bytes without a sign."""
    attributes = [DictionaryAttr({})] * len(buffers) if given is None else given.data
    pairs = zip(buffers, attributes, strict=True)
    return frozenset(b for b, a in pairs if a.data.get("dlc.dtype") == StringAttr("u8"))
