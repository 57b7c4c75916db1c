"""What a backward of PyTorch's own gets from a forward that dlc compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from dlc.frontend.source import ImportFailure

MASK = torch.arange(49).view(7, 7) % 3 != 0
BAGS = torch.tensor([1, 2, 3, 6]), torch.tensor([0, 2])


def bag(weight: Tensor, mode: str) -> Tensor:
    return F.embedding_bag(BAGS[0], weight, BAGS[1], mode=mode)


def heads(count: int, length: int, width: int) -> list[Tensor]:
    return [torch.randn(2, count, length, width) for _ in range(3)]


PROGRAMS: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "attention": (F.scaled_dot_product_attention, heads(2, 7, 4)),
    "causal": (partial(F.scaled_dot_product_attention, is_causal=True), heads(2, 7, 4)),
    "a mask": (partial(F.scaled_dot_product_attention, attn_mask=MASK), heads(2, 7, 4)),
    "rows without keys": (
        partial(F.scaled_dot_product_attention, attn_mask=MASK & (torch.arange(7) != 3)[:, None]),
        heads(3, 7, 4),
    ),
    "a scale": (partial(F.scaled_dot_product_attention, scale=0.3), heads(1, 33, 8)),
    "an encoder": (
        torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0),
        [torch.randn(5, 3, 16)],
    ),
    **{f"bags by {m}": (partial(bag, mode=m), [torch.randn(7, 3)]) for m in ("sum", "mean", "max")},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_eagers(name: str) -> None:
    program, args = PROGRAMS[name]
    found: list[list[Tensor]] = []
    for backend in ("eager", "dlc"):
        torch._dynamo.reset()
        leaves = [a.clone().requires_grad_() for a in args]
        # Bags are left to PyTorch: of what their backward needs dlc computes a part.
        options = {"fallback": name.startswith("bags")} if backend == "dlc" else None
        torch.compile(program, backend=backend, options=options)(*leaves).cos().sum().backward()
        found.append([leaf.grad for leaf in leaves if leaf.grad is not None])
    for theirs, ours in zip(*found, strict=True):
        assert torch.allclose(theirs, ours, rtol=1e-4, atol=1e-5 * theirs.abs().max().item())


def test_results_that_are_not_computed_are_refused() -> None:
    def bags(weight: Tensor) -> tuple[Tensor, ...]:
        return torch.ops.aten._embedding_bag(weight, *BAGS, False, 1)

    with pytest.raises(ImportFailure, match="result 1 is of an operation that is computed in part"):
        dlc.compile(bags, (torch.randn(7, 3),))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_what_attention_keeps_for_its_derivative(order: tuple[int, ...]) -> None:
    """Its result lies as the query does, by which the layers of torch.nn take a view of it."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    inverse = [order.index(axis) for axis in range(4)]
    args = [t.permute(order).contiguous().permute(inverse) for t in heads(2, 7, 4)]
    ours, theirs = dlc.compile(flash, tuple(args), backend="host")(*args), flash(*args)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        assert torch.allclose(one, other, atol=1e-6)
