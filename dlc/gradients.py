"""Gradients of compiled calls: the forward is dlc's, the backward is that of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from dlc.dialects.user_outputs import Constant, Output, View
from dlc.frontend.imported import ImportedProgram
from dlc.frontend.pairs import pairs_of, resolved
from dlc.frontend.source import ImportFailure


def are_wanted(bound: Sequence[torch.Tensor]) -> bool:
    """True if gradients are recorded and one of these tensors requires one."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in bound)


def call_with_gradients(
    program: ImportedProgram,
    run: Callable[[Sequence[torch.Tensor]], Any],
    bound: Sequence[torch.Tensor],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """
    What `run` makes of the tensors of `@main` for a call: the user's output, with a backward that
    runs the call again, in PyTorch. ImportFailure for a program that draws random numbers, which
    would be others, or that writes to its arguments, as the second run would do that again.
    """
    if any(argument.kind == "random" for argument in program.arguments):
        raise ImportFailure(
            "the program draws random numbers, and gradients of what it returns are recorded, "
            "whose computation would draw others; call it under torch.no_grad(), or use "
            "torch.compile(backend='dlc')"
        )
    for result in program.results:
        if result.argument is not None:
            raise ImportFailure(
                f"the program writes to '{result.name}', and gradients of what it returns are "
                "recorded; call it under torch.no_grad(), or use torch.compile(backend='dlc')"
            )
    computed: dict[tuple[int, View | None], int] = {}
    for place, output in enumerate(program.outputs):
        if isinstance(output, Output) and output.of == "result":
            computed.setdefault((output.number, output.view), place)
    places = tuple(computed.values())
    found = _Recomputed.apply(program, run, places, args, kwargs, *bound)
    tensors = dict(zip(computed, found, strict=True))
    leaves: list[Any] = []
    for output in program.outputs:
        if isinstance(output, Constant):
            leaves.append(output.value)
        elif output.of == "result":
            leaves.append(tensors[output.number, output.view])
        else:
            leaves.append(output.tensor((), bound))
    return tree_unflatten(leaves, program.output_spec)


class _Recomputed(torch.autograd.Function):
    """The leaves `places` of the output; the tensors of `@main` are those with gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        program: ImportedProgram,
        run: Callable[[Sequence[torch.Tensor]], Any],
        places: tuple[int, ...],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *bound: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        leaves, _ = tree_flatten(run(bound))
        results = tuple(leaves[place].detach() for place in places)
        smooth = [r for r in results if r.is_floating_point() or r.is_complex()]
        known = {id(r) for r in smooth}
        ctx.mark_non_differentiable(*(r for r in results if id(r) not in known))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*bound)  # so that a later change of one is an error, as in eager
        ctx.call = program, places, args, kwargs
        return results

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: Any, *gradients: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        program, places, args, kwargs = ctx.call
        own, place = _own_inputs(program, ctx.saved_tensors, args, kwargs)
        with torch.enable_grad():
            leaves, _ = tree_flatten(program.eager(*place[0], **place[1]))
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
            allow_unused=True,
        )
        left = dict(zip(wanted, found, strict=True))
        taken = [left.pop(id(tensor), None) for tensor in own]
        return (*[None] * 5, *(g if g is None else pairs_of(resolved(g)) for g in taken))


def _own_inputs(
    program: ImportedProgram,
    bound: Sequence[torch.Tensor],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> tuple[list[torch.Tensor], tuple[tuple[Any, ...], dict[str, Any]]]:
    """
    The tensors to take gradients of, and the call that uses them: each input is a leaf of its own,
    even if two are one tensor or views of one, and the rest are the module's. Complex tensors are
    such as the call has them, not the pairs that `@main` takes.
    """

    def leaf_of(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().requires_grad_(tensor.requires_grad)

    call = tree_map_only(torch.Tensor, leaf_of, (tuple(args), dict(kwargs)))
    again = program.user_tensors(*call)
    inputs = [argument.kind == "input" for argument in program.arguments]
    own = [
        a if given or a.is_complex() else b
        for a, b, given in zip(again, bound, inputs, strict=True)
    ]
    return own, call
