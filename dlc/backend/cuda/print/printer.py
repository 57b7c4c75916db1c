"""
Kernel IR as CUDA C: a walk over the kernel, one line per operation or less.

    extern "C" __global__ void __launch_bounds__(256)
    add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z) {
      const int t = threadIdx.x;
      z[t] = x[t] + y[t];
    }

A value that stands directly before its only use is written there if that reads well; every other
value is a constant of its own. A local scalar is declared where it is allocated, by the store that
follows directly if one does. `sink-expressions` brings values and scalars to their uses.
The text compiles with nvcc, and with a C++ compiler behind the host backend's header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.target import Target

from dlc.backend.cuda.print.interface import (
    c_name,
    check_names,
    dynamic_shared_bytes,
    parameter_types,
    shared_bytes,
)
from dlc.backend.cuda.print.kernel_printer import KernelPrinter
from dlc.backend.cuda.print.line_directives import PlaceOf, with_directives
from dlc.backend.cuda.print.prelude import NEWEST, PRELUDE, prelude_for
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.garbage import rarely_collected
from dlc.target import get_target, stated_target

__all__ = [
    "CudaTarget",
    "c_name",
    "dynamic_shared_bytes",
    "parameter_types",
    "print_kernel",
    "print_module",
    "print_with_lines",
    "shared_bytes",
]


_GO_ON = "`dlc compile` goes on from here, by the passes that are left"


def print_module(module: ModuleOp) -> str:
    """All kernels of a module in one text, after the prelude functions that they use."""
    for op in module.walk():
        if op.name in ("loop.kernel", "tile.kernel"):
            fail(
                op,
                f"the CUDA printer expects kernel.func, found {op.name}",
                _GO_ON,
            )
    return _print([op for op in module.walk() if isinstance(op, kernel.FuncOp)])[0]


def print_with_lines(module: ModuleOp) -> tuple[str, dict[Operation, range]]:
    """
    The same of a module of Kernel IR, and its lines, from 0, that each operation wrote. What an
    operation computes that wrote none stands in the lines of its users.
    """
    return _print([op for op in module.walk() if isinstance(op, kernel.FuncOp)])


def print_kernel(func: kernel.FuncOp, place_of: PlaceOf | None = None) -> str:
    """One kernel as a text that compiles on its own, with `#line` directives if places are told."""
    text, written = _print([func])
    return text if place_of is None else with_directives(text, written, place_of)


def _independent(func: kernel.FuncOp) -> kernel.FuncOp:
    """A kernel whose threads run independently; OpError for one in lockstep."""
    if func.lockstep is not None:
        fail(func, f"@{func.name_} runs in lockstep, as no GPU does", _GO_ON)
    return func


def _instructions(func: kernel.FuncOp) -> int:
    """The compute capability that a kernel is for; with none stated, the newest."""
    module = func.parent_op()
    stated = None if module is None else stated_target(module)
    return NEWEST if stated is None else get_target(stated).instructions


def _check_instructions(printer: KernelPrinter, arch: int) -> None:
    """OpError for a kernel with instructions that its target has not."""
    for function in map(PRELUDE.__getitem__, sorted(printer.helpers)):
        if not function.is_of(arch) and not (function.older and arch < function.min_arch):
            first, last = function.min_arch, function.last_arch
            later = " alone" if last == first else f" to sm_{last}" if last else " or later"
            what = f"@{printer.func.name_} calls {function.name}, of sm_{first}{later}"
            fail(printer.func, f"{what}, and its target is sm_{arch}", "schedule it for its target")


@rarely_collected()
def _print(funcs: Sequence[kernel.FuncOp]) -> tuple[str, dict[Operation, range]]:
    """Kernels after their prelude, and the lines that each operation wrote."""
    check_names(funcs)
    printers = [KernelPrinter(_independent(func)) for func in funcs]
    texts = [printer.print() for printer in printers]
    helpers = {name for printer in printers for name in printer.helpers}
    arch = min((_instructions(func) for func in funcs), default=NEWEST)
    for printer in printers:
        _check_instructions(printer, arch)
    prelude = prelude_for(helpers, arch)
    written: dict[Operation, range] = {}
    first = prelude.count("\n")
    for printer, text in zip(printers, texts, strict=True):
        for op, lines in printer.written.items():
            written[op] = range(first + lines.start, first + lines.stop)
        first += text.count("\n") + 1
    return prelude + "\n".join(texts), written


@dataclass(frozen=True)
class CudaTarget(Target):
    """`dlc-opt -t cuda`: the kernels of a module as CUDA C."""

    name = "cuda"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(print_module(module))
