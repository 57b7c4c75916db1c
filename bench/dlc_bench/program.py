"""Imported programs and modules as subjects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten
from xdsl.dialects.builtin import ModuleOp

from dlc.frontend.export.imported import ImportedProgram
from dlc.judge.reference import evaluate
from dlc_bench.subject import Call, Subject, results_of
from dlc_bench.work import Work, work_of


def program_subject(
    program: ImportedProgram, module: ModuleOp, arguments: Sequence[torch.Tensor]
) -> Subject:
    """
    A program on the tensors of `@main`; `module` is its Torch IR. PyTorch runs the user's own code
    with the tensors in the places of its inputs, parameters and buffers.
    """
    tensors = [t.detach() for t in arguments]
    constants = frozenset(a.index for a in program.arguments if a.kind == "constant")
    written = frozenset(r.argument for r in program.results if r.argument is not None)

    def exact() -> list[torch.Tensor]:
        results = evaluate(module, tensors, double=True)
        wide = [
            t.to(torch.float64, copy=True) if t.is_floating_point() else t.clone() for t in tensors
        ]
        return results_of(program.unflatten(results, wide))

    return Subject(
        eager_call(program), tensors, exact, work_of(module, tensors), constants, written
    )


def eager_call(program: ImportedProgram) -> Call:
    """The user's code as a function of the tensors of `@main`."""
    function = program.eager
    owned = [(a.name, a.index) for a in program.arguments if a.kind in ("parameter", "buffer")]
    inputs = {a.leaf: a.index for a in program.arguments if a.leaf is not None}
    count = len(inputs) + len(program.constants)

    def call(tensors: Sequence[torch.Tensor]) -> Any:
        leaves = [tensors[inputs[i]] if i in inputs else program.constants[i] for i in range(count)]
        args, kwargs = tree_unflatten(leaves, program.input_spec)
        if not isinstance(function, torch.nn.Module):
            return function(*args, **kwargs)
        mine = {name: tensors[index] for name, index in owned}
        return torch.func.functional_call(function, mine, args, kwargs)

    return call


def module_subject(tensors: Sequence[torch.Tensor]) -> Subject:
    """A module of which PyTorch knows nothing: nothing to compare with, no known work."""

    def call(tensors: Sequence[torch.Tensor]) -> Any:
        raise NotImplementedError("PyTorch has no such program")

    return Subject(call, list(tensors), list, Work(0.0, 0.0, 0.0))
