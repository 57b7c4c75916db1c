"""Torch IR as plain calls."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dlc.dialects.main_function import main_of
from dlc.dialects.torch import AtenOp
from dlc.judge.plain_calls import PlainCall, PlainCalls, Use
from dlc.judge.reference import given_to, result_dtype


def plain_calls(module: ModuleOp) -> PlainCalls | None:
    """The calls of a module of Torch IR; None for one with control flow."""
    block = main_of(module).body.block
    numbers: dict[SSAValue, int] = {value: n for n, value in enumerate(block.args)}

    def plain(value: Any) -> Any:
        if isinstance(value, SSAValue):
            return Use(numbers[value])
        return list(map(plain, value)) if isinstance(value, list | tuple) else value

    calls: list[PlainCall] = []
    for op in block.ops:
        if isinstance(op, func.ReturnOp):
            return PlainCalls(tuple(calls), tuple(numbers[v] for v in op.operands))
        if not isinstance(op, AtenOp):
            return None
        given = {name: plain(value) for name, value in given_to(op).items()}
        for result in op.results:
            numbers[result] = len(numbers)
        results = tuple(numbers[r] for r in op.results)
        dtype = str(result_dtype(op)).removeprefix("torch.")
        calls.append(PlainCall(op.overload.data, given, results, dtype))
    return None
