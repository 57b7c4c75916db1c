"""The exact operations of the Torch IR that a kernel implements: see `implementation`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.diagnostics import did_you_mean, with_hint
from dlc.dialects import host
from dlc.dialects.main_function import main_of
from dlc.dialects.torch import AtenOp
from dlc.ir.provenance import values_of


@dataclass(frozen=True)
class Implementation:
    """
    Launches, and the operations of the program that compute the same of the same tensors: `inputs`
    and `outputs` are buffers of the launches, `given` and `wanted` the values of the Torch IR that
    these hold. The operations may take further arguments of the program, which no launch reads.
    """

    launches: list[host.LaunchOp]
    inputs: list[SSAValue]
    outputs: list[SSAValue]
    given: list[SSAValue]
    wanted: list[SSAValue]
    ops: list[AtenOp]
    """In the order of the program."""


def implementation(torch_ir: ModuleOp, kernel_ir: ModuleOp, name: str) -> Implementation:
    """
    The operations of the first launch of the kernel `name`. Where it reads or writes what is no
    value of the program, such as partial sums, the launches that make or use that are taken along.
    ValueError if there is no such kernel; OpError where the launches hold values that the program
    has not.
    """
    programs = main_of(torch_ir), main_of(kernel_ir)
    launches = [op for op in programs[1].body.block.ops if isinstance(op, host.LaunchOp)]
    names = list(dict.fromkeys(op.kernel_name for op in launches))
    if name not in names:
        hint = did_you_mean(name, names) or f"the kernels are {', '.join(names)}"
        raise with_hint(ValueError(f"expected the name of a kernel, found '{name}'"), hint)
    first = next(op for op in launches if op.kernel_name == name)
    values = _Values(*programs, launches)
    group = _closed(first, values, launches)
    inputs, outputs = dict[SSAValue, None](), dict[SSAValue, None]()
    for op in group:
        inputs |= {v: None for v in map(whole_of, op.inputs) if v not in outputs}
        outputs |= dict.fromkeys(map(whole_of, op.outputs))
    outputs = [v for v in outputs if values.leaves(v, group)]
    given = [values.known(v) for v in inputs]
    wanted = [values.known(v) for v in outputs]
    given_known, wanted_known = [v for v in given if v], [v for v in wanted if v]
    assert len(given_known) == len(given)
    assert len(wanted_known) == len(wanted)
    ops = _between(given_known, wanted_known)
    return Implementation(group, [*inputs], outputs, given_known, wanted_known, ops)


def whole_of(buffer: SSAValue) -> SSAValue:
    """The buffer that one is a view of, or itself."""
    return buffer.owner.memory if isinstance(buffer.owner, host.BufferViewOp) else buffer


class _Values:
    """The values of the Torch IR that the buffers of a host program hold."""

    def __init__(
        self, torch_main: func.FuncOp, main: func.FuncOp, launches: Sequence[host.LaunchOp]
    ) -> None:
        self.ops = [op for op in torch_main.walk() if isinstance(op, AtenOp)]
        self.writers: dict[SSAValue, list[host.LaunchOp]] = {}
        """Several of what is updated in place."""
        self.readers: dict[SSAValue, list[host.LaunchOp]] = {}
        for op in launches:
            for value in map(whole_of, op.inputs):
                self.readers.setdefault(value, []).append(op)
            for value in map(whole_of, op.outputs):
                self.writers.setdefault(value, []).append(op)
        arguments = zip(main.body.block.args, torch_main.body.block.args, strict=True)
        self._known: dict[SSAValue, SSAValue] = dict(arguments)
        for op in launches:
            for value, text in zip(op.outputs, values_of(op, len(op.outputs)), strict=True):
                if text:
                    number, _, result = text.partition(".")
                    self._known[whole_of(value)] = self.ops[int(number)].results[int(result or 0)]
        self.returned = _returned(main)
        for value, torch_value in zip(self.returned, _returned(torch_main), strict=True):
            self._known.setdefault(value, torch_value)

    def known(self, buffer: SSAValue) -> SSAValue | None:
        """The value of the program that a buffer holds."""
        return self._known.get(buffer)

    def leaves(self, buffer: SSAValue, group: Sequence[host.LaunchOp]) -> bool:
        """True if others than `group` read a buffer that it writes, or the program knows it."""
        outside = any(op not in group for op in self.readers.get(buffer, ()))
        return outside or buffer in self.returned or self.known(buffer) is not None


def _closed(
    first: host.LaunchOp, values: _Values, launches: Sequence[host.LaunchOp]
) -> list[host.LaunchOp]:
    """The launches to take so that all that goes in and out is a value of the program."""
    group = {first}
    while True:
        more: set[host.LaunchOp] = set()
        for op in group:
            for value in map(whole_of, op.inputs):
                if values.known(value) is None:
                    more.update(values.writers.get(value, ()))
            for value in map(whole_of, op.outputs):
                more.update(values.writers[value])
                if values.known(value) is None:
                    more.update(values.readers.get(value, ()))
        if more <= group:
            return [op for op in launches if op in group]
        group |= more


def _between(given: Sequence[SSAValue], wanted: Sequence[SSAValue]) -> list[AtenOp]:
    """The operations that compute `wanted`, as far back as `given` and arguments."""
    found: set[Operation] = set()
    todo = [v for v in wanted if v not in given]
    while todo:
        value = todo.pop()
        if isinstance(value, BlockArgument) or value in given or value.owner in found:
            continue
        assert isinstance(value.owner, AtenOp)
        found.add(value.owner)
        todo += value.owner.operands
    if not found:
        return []
    block = next(iter(found)).parent
    assert block is not None
    return [op for op in block.ops if isinstance(op, AtenOp) and op in found]


def _returned(main: func.FuncOp) -> list[SSAValue]:
    end = main.body.block.last_op
    return list(end.operands) if isinstance(end, func.ReturnOp) else []
