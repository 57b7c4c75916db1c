"""`dlc compile … --reproduce KERNEL`: a kernel as a script, beside the operations it implements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, SSAValue

from dlc.backend.cuda.print.c_text import Names
from dlc.backend.kernel_program import Input, program_around
from dlc.cli.implementation import Implementation, implementation, whole_of
from dlc.diagnostics import UsageError, fail
from dlc.dialects import kernel
from dlc.dialects.kernel_op import tensor_of
from dlc.dialects.layouts import shape_of
from dlc.dialects.torch import Argument, AtenOp
from dlc.dialects.views import BufferViewOp
from dlc.escapes import python_comment, python_string
from dlc.judge.aten_calls import VIEWS
from dlc.judge.reference import default_epsilon, overload_of
from dlc.pipeline import stage_of, text_of

_SCRIPT = '''\
"""
The kernel @{name}, run by dlc on random inputs, against the operations that it implements:
{ops}.

    python FILE [--backend host|cuda] [--seed N]
"""

import sys

import torch

from dlc.cli.reproduced import check_kernel


def operations({parameters}):
{body}
    return [{results}]


# Arguments of @main are those of `operations`, with their shapes, strides and alignments.
KERNEL = {kernel}

if __name__ == "__main__":
    sys.exit(check_kernel(KERNEL, operations))
'''
_PYTHON = ("torch", "sys", "aten", "operations", "check_kernel", "lambda", "in", "is", "from",
           "import", "def", "pass", "global", "None", "as", "with", "yield", "assert", "async",
           "await", "del", "elif", "except", "finally", "nonlocal", "raise")  # fmt: skip
"""Words that a variable of the script cannot be called, beside those of C."""


def program_to_compare_with(module: ModuleOp) -> ModuleOp:
    """A copy of a module of Torch IR, which has the operations; UsageError for another module."""
    if stage_of(module) != "torch":
        raise UsageError(
            "expected a program with --reproduce: text, a script, or a file of Torch IR, which has "
            "the operations to compare with"
        )
    return module.clone()


def kernel_script(torch_ir: ModuleOp, kernel_ir: ModuleOp, name: str) -> str:
    """The text of the script for the kernel `name` of a program; errors as of `implementation`."""
    found = implementation(torch_ir, kernel_ir, name)
    names = _PythonNames()
    parameters = [names.new(v) for v in found.given]
    for value in [v for op in found.ops for v in op.operands] + found.wanted:
        if isinstance(value, BlockArgument) and value not in found.given:
            fail(
                found.launches[0],
                f"the operations of @{found.launches[0].kernel_name} depend on "
                f"%{value.name_hint}, which it does not read: what it reads in its place is no "
                "value of the program",
            )
    body = [f"    {_statement(op, names)}" for op in found.ops]
    ops = ", ".join(dict.fromkeys(op.overload.data for op in found.ops)) or "none: it copies"
    return _SCRIPT.format(
        name=python_comment(found.launches[0].kernel_name),
        ops=python_comment(ops),
        parameters=", ".join(parameters),
        body="\n".join(body) or "    # The kernel copies.",
        results=", ".join(names.of(v) for v in found.wanted),
        kernel=python_string(text_of(_module(found, kernel_ir, parameters))),
    )


class _PythonNames:
    """Names of values in the script."""

    def __init__(self) -> None:
        self._names = Names(_PYTHON)
        self._known: dict[SSAValue, str] = {}

    def new(self, value: SSAValue) -> str:
        self._known[value] = self._names.new(value.name_hint or "value")
        return self._known[value]

    def of(self, value: SSAValue) -> str:
        return self._known[value]


def _statement(op: AtenOp, names: _PythonNames) -> str:
    """`y = torch.ops.aten.add.Tensor(self=x, other=2.0)`: one call, as the program makes it."""
    overload, given = op.overload.data, _arguments(op, names)
    if overload in VIEWS:  # a tensor may lie as no view of that shape can
        overload, given = "reshape.default", {"self": given["self"], "shape": given["size"]}
    if overload == "rms_norm.default" and given.get("eps", "None") == "None":
        given["eps"] = repr(default_epsilon(op))
    arguments = ", ".join(f"{name}={text}" for name, text in given.items())
    target = ", ".join(names.new(v) for v in op.results)
    return f"{target} = torch.ops.aten.{overload}({arguments})"


def _arguments(op: AtenOp, names: _PythonNames) -> dict[str, str]:
    """The Python text of each argument of the schema, defaults left out."""
    given: dict[str, str] = {}
    for argument in overload_of(op)._schema.arguments:
        name: str = argument.name
        if (value := op.operand(name)) is not None:
            given[name] = names.of(value)
        elif items := op.operand_list(name):
            given[name] = f"[{', '.join('None' if v is None else names.of(v) for v in items)}]"
        elif name in op.arguments.data:
            given[name] = _literal(name, op.argument(name))
        elif not argument.has_default_value():
            given[name] = "None"
    return given


def _literal(name: str, value: Argument) -> str:
    if isinstance(value, str) and name == "dtype" and value.isidentifier():
        return f"torch.{value}"
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f'float("{value}")'
    return repr(value)


def _module(found: Implementation, module: ModuleOp, parameters: Sequence[str]) -> ModuleOp:
    """The launches alone, on tensors, with the kernels that they launch."""

    def run(block: Block) -> Sequence[SSAValue]:
        values: dict[SSAValue, SSAValue] = dict(zip(found.inputs, block.args, strict=True))
        for op in found.launches:
            boxes = {v: v.owner for v in op.inputs if isinstance(v.owner, BufferViewOp)}
            views: dict[SSAValue, kernel.ViewOp] = {}
            for buffer, box in boxes.items():
                view = kernel.ViewOp(values[box.memory], box.begin, shape_of(buffer))
                block.add_op(view)
                values[buffer], views[buffer] = view.result, view
            results = [tensor_of(v.type) for v in op.outputs]
            launch = kernel.LaunchOp(op.kernel_name, [values[v] for v in op.inputs], results)
            launch.attributes |= op.attributes
            block.add_op(launch)
            for buffer, result in zip(op.outputs, launch.results, strict=True):
                result.name_hint = buffer.name_hint
                values[buffer] = result
                if buffer in views:
                    block.add_op(whole := kernel.WholeOp(views[buffer], result))
                    values[boxes[buffer].memory] = whole.result
        return [values[v] for v in found.outputs]

    inputs = [
        Input(buffer, _alignment(found, buffer), name)
        for buffer, name in zip(found.inputs, parameters, strict=True)
    ]
    callees = dict.fromkeys(callee for op in found.launches if (callee := op.callee) is not None)
    return program_around(module, inputs, run, list(callees))


def _alignment(found: Implementation, buffer: SSAValue) -> int:
    """The alignment that all kernels that read a buffer know of, in bytes."""
    return min(
        callee.alignment(ref)
        for op in found.launches
        if (callee := op.callee) is not None
        for value, ref in zip(op.inputs, callee.input_refs, strict=True)
        if whole_of(value) is buffer
    )
