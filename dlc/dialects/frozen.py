"""What is the same at all calls of a program, where its module says so: `dlc.frozen`."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue

from dlc.dialects.main_function import attributes_of, kind_in
from dlc.dialects.user_outputs import mutated_by

FROZEN = "dlc.frozen"
"""The attribute of a module whose parameters, buffers and constants are the same at all calls."""
KINDS = ("parameter", "buffer", "constant")


def freeze(module: ModuleOp) -> None:
    """Says of a module's parameters, buffers and constants that no call finds others."""
    module.attributes[FROZEN] = UnitAttr()


def frozen_in(main: func.FuncOp) -> Collection[SSAValue]:
    """The arguments of `@main` that are the same at all calls, as it writes none of them either."""
    module = main.parent_op()
    if module is None or FROZEN not in module.attributes:
        return ()
    pairs, mutated = zip(main.body.block.args, attributes_of(main), strict=True), mutated_by(main)
    return [a for a, own in pairs if kind_in(own) in KINDS and a.index not in mutated]
