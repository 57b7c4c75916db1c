"""Gradients of compiled calls: the forward is dlc's, the backward is that of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_unflatten

from dlc.frontend.arguments import Argument
from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.pairs import pairs_of, resolved
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.held_tensors import Held
from dlc.ir.leaves import Constant, Output, View

Run = Callable[[Sequence[torch.Tensor]], Any]
"""Makes the user's output of the tensors of `@main`."""


def are_wanted(bound: Sequence[torch.Tensor]) -> bool:
    """True if gradients are recorded and one of these tensors requires one."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in bound)


class Gradients:
    """
    Calls of a program with a backward that runs the call again, in PyTorch, with the tensors,
    attributes and modes that it had.
    """

    def __init__(self, program: ImportedProgram) -> None:
        self.program = program
        self._requiring: dict[tuple[bool, ...], list[bool]] = {}

    def call(self, run: Run, bound: Sequence[torch.Tensor]) -> Any:
        """
        What `run` makes of the tensors of `@main`, some of which it may write to: the backward
        writes to copies of what was there. ImportFailure for a program that draws random numbers,
        which would be others in the second run, or that writes what has a gradient.
        """
        program = self.program
        if any(argument.kind == "random" for argument in program.arguments):
            raise ImportFailure(
                "the program draws random numbers, and gradients of what it returns are recorded, "
                "whose computation would draw others; call it under torch.no_grad(), or use "
                "torch.compile(backend='dlc')"
            )
        require = self.requiring(bound)
        before = _with_copies(program, bound)
        computed: dict[tuple[int, View | None], int] = {}
        """The first leaf with a gradient, or the first one, of each tensor that is returned."""
        for place, output in enumerate(program.outputs):
            if isinstance(output, Output) and output.of == "result":
                key = output.number, output.view
                if key not in computed or (require[place] and not require[computed[key]]):
                    computed[key] = place
        places = tuple(computed.values())
        found = _Recomputed.apply(program, run, places, require, before, *bound)
        tensors = dict(zip(computed, found, strict=True))
        leaves: list[Any] = []
        for output, requires in zip(program.outputs, require, strict=True):
            if isinstance(output, Constant):
                leaves.append(output.value)
                continue
            computes = output.of == "result"
            tensor = tensors[output.number, output.view] if computes else output.tensor((), bound)
            tensor = tensor if requires or not tensor.requires_grad else tensor.detach()
            leaves.append(tensor.item() if output.is_number else tensor)
        return tree_unflatten(leaves, program.output_spec)

    def requiring(self, bound: Sequence[torch.Tensor]) -> list[bool]:
        """
        For each leaf of the output whether it requires a gradient. PyTorch is asked once for each
        set of arguments that do. ImportFailure if what the program writes to does, or is to.
        """
        given = tuple(tensor.requires_grad for tensor in bound)
        if given not in self._requiring:
            self._check_written(bound[number] for number in self.program.written)
            own = _inputs_of_call(self.program, bound, again=False)
            leaves, written = _in_eager(self.program, own)
            self._check_written(written)
            self._requiring[given] = [
                isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves
            ]
        return self._requiring[given]

    def _check_written(self, written: Iterable[torch.Tensor]) -> None:
        for number, tensor in zip(self.program.written, written, strict=True):
            if tensor.requires_grad:
                raise ImportFailure(
                    f"the program writes to '{self.program.arguments[number].name}' what requires "
                    "a gradient; call it under torch.no_grad(), or use "
                    "torch.compile(backend='dlc')"
                )


class _Recomputed(torch.autograd.Function):
    """
    The leaves `places` of the output; the tensors of `@main` are those with gradients, and
    `before` are they with copies of those that the program writes to.
    """

    @staticmethod
    def forward(
        ctx: Any,
        program: ImportedProgram,
        run: Run,
        places: tuple[int, ...],
        require: Sequence[bool],
        before: Sequence[torch.Tensor],
        *bound: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        leaves = tree_leaves(run(bound))
        results = tuple(_as_tensor(leaves[place]) for place in places)
        constant = (r for r, p in zip(results, places, strict=True) if not require[p])
        ctx.mark_non_differentiable(*constant)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*before)  # so that a later change of one is an error, as in eager
        ctx.call = program, places
        return results

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, *gradients: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        program, places = ctx.call
        bound: Sequence[torch.Tensor] = ctx.saved_tensors
        again = torch.is_grad_enabled()  # with create_graph=True
        own = _inputs_of_call(program, bound, again=again)
        leaves, _ = _in_eager(program, own)
        given = [
            (leaves[place], gradient)
            for place, gradient in zip(places, gradients, strict=True)
            if gradient is not None and leaves[place].requires_grad
        ]
        wanted = {id(tensor): tensor for tensor in own if tensor.requires_grad}
        found = torch.autograd.grad(
            [leaf for leaf, _ in given],
            list(wanted.values()),
            [gradient for _, gradient in given],
            create_graph=again,
            allow_unused=True,
        )
        left = dict(zip(wanted, found, strict=True))
        taken = [left.pop(id(tensor), None) for tensor in own]
        return (*[None] * 5, *(g if g is None else pairs_of(resolved(g)) for g in taken))


def _as_tensor(leaf: torch.Tensor | float) -> torch.Tensor:
    """A leaf of the output without its gradient; a number of Python with all of its digits."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach()
    return torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)


def _inputs_of_call(
    program: ImportedProgram, bound: Sequence[torch.Tensor], *, again: bool
) -> list[torch.Tensor]:
    """
    The tensors to take gradients of: each input is one of its own, even if two are one tensor or
    views of one, and the rest are the module's, but for copies of what the program writes to.
    Inputs are leaves, or, where gradients are differentiated `again`, computed from those of the
    call. Complex tensors are such as the call has them, not the pairs that `@main` takes.
    """
    return [
        _input_of(argument, tensor, again)
        for argument, tensor in zip(program.arguments, _with_copies(program, bound), strict=True)
    ]


def _with_copies(program: ImportedProgram, bound: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, with copies of those that the program writes to."""
    copies = {number: bound[number].detach().clone() for number in program.written}
    return [copies.get(number, tensor) for number, tensor in enumerate(bound)]


def _input_of(argument: Argument, tensor: torch.Tensor, again: bool) -> torch.Tensor:
    if not argument.guard.dtype.is_complex:
        return _own(tensor, again, tensor.requires_grad) if argument.kind == "input" else tensor
    held = argument.tensor
    if held is not None and held.data_ptr() == tensor.data_ptr():
        return held
    return _own(torch.view_as_complex(tensor), again, tensor.requires_grad)


def _own(tensor: torch.Tensor, again: bool, required: bool) -> torch.Tensor:
    if again and required:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_(required)


def _in_eager(
    program: ImportedProgram, own: Sequence[torch.Tensor]
) -> tuple[list[Any], list[torch.Tensor]]:
    """
    The leaves of the output of the call with these tensors, run by PyTorch, and what is then where
    the program writes to: a buffer may be another tensor by then.
    """
    args, kwargs = program.call_of(own)
    with torch.enable_grad(), program.as_called(own):
        leaves = tree_leaves(program.eager(*args, **kwargs))
        fetches = {number: program.arguments[number].fetch for number in program.written}
        found = {n: fetch() for n, fetch in fetches.items() if isinstance(fetch, Held)}
        return leaves, [own[n] if (t := found.get(n)) is None else t for n in program.written]
