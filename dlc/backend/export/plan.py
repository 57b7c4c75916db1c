"""A host program in terms of names, which an export is written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, ModuleOp, StringAttr

from dlc.analysis.kernel.tensor_maps import TensorMap
from dlc.backend.cuda.print.c_text import Names
from dlc.backend.cuda.print.interface import (
    c_name,
    check_names,
    dynamic_shared_bytes,
    parameter_types,
    tensor_maps,
)
from dlc.backend.export.signature import Signature
from dlc.backend.host_program import Allocate, HostProgram, Launch, Layout, Slice, Zero
from dlc.diagnostics import fail
from dlc.dialects import host, kernel
from dlc.dialects.kernel import FuncOp
from dlc.ir.elements import ELEMENTS
from dlc.ir.provenance import ops_of

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
    memory: tuple[Allocate | Slice | Zero, ...]
    steps: tuple[Allocate | Slice | Zero | Call, ...]
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
        body = main.body.block
        planned = all(isinstance(a.type, MemRefType) for a in body.args)
        if not planned or any(isinstance(op, kernel.LaunchOp) for op in body.ops):
            fail(main, "expected a host program, found none", "run plan-buffers first")
        program = HostProgram.of(module).bind({})
        check_names(program.funcs)
        scope = Names(_TAKEN)
        names: dict[int, str] = {}
        layouts: dict[str, Layout] = {}
        for number, layout in enumerate(program.arguments):
            assert layout is not None
            names[number] = scope.new(body.args[number].name_hint or f"argument_{number}")
            layouts[names[number]] = layout
        arguments = list(names.values())
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
            else:
                fail(
                    main,
                    "expected a program without control flow, of which exports have none yet",
                    'save the program as it is compiled: f.save("program.dlc")',
                )
        results = [names[n] for n in program.results]
        return ExportPlan(
            target,
            Signature.of(main, arguments, results, layouts),
            tuple(s for s in steps if not isinstance(s, Call)),
            tuple(steps),
            names,
            layouts,
            _unsigned(main.arg_attrs, arguments) | _unsigned(main.res_attrs, results),
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


def _unsigned(given: ArrayAttr[DictionaryAttr] | None, buffers: Sequence[str]) -> frozenset[str]:
    """The buffers that are said to hold bytes without a sign."""
    attributes = [DictionaryAttr({})] * len(buffers) if given is None else given.data
    pairs = zip(buffers, attributes, strict=True)
    return frozenset(b for b, a in pairs if a.data.get("dlc.dtype") == StringAttr("u8"))
