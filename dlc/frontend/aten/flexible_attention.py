"""`flex_attention`, attention whose scores and mask are functions, in ATen's terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

AXES = 4
"""What such a function is given the indices of: batch, head, query and key."""


def take_attention_apart(program: GraphModule) -> None:
    """Has `flex_attention` of an exported program traced as what it computes."""
    for module in program.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in [n for n in module.graph.nodes if is_flexible_attention(n)]:
            score, mask = node.args[3], node.args[4][-1]
            node.target = _of_functions(*(module.get_submodule(f.target) for f in (score, mask)))
            blocks = (*node.args[4][:-1], None)
            node.args = (*node.args[:3], None, blocks, *node.args[5:])
            for function in {score, mask}:
                if not function.users:
                    module.graph.erase_node(function)
        module.recompile()


def is_flexible_attention(node: Node) -> bool:
    target = node.target
    known = isinstance(target, torch._ops.HigherOrderOperator)
    return known and target.name() == "flex_attention"


def _of_functions(score: Callable[..., Tensor], mask: Callable[..., Tensor]) -> Callable[..., Any]:
    """`attention` of two graphs, which as its arguments PyTorch would take for tensors."""

    def flex_attention(*given: Any) -> Any:
        query, key, value, _, blocks, *rest = given
        return attention(query, key, value, score, (*blocks[:-1], mask), *rest)

    return flex_attention


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_function: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: Mapping[str, Any],
    score_tensors: tuple[Tensor, ...] = (),
    mask_tensors: tuple[Tensor, ...] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """
    The result, and the logarithm of the sum of exponentials and the largest of the scores of each
    query, both in units of log(2). Of the block mask only its function counts, as in eager PyTorch:
    the blocks say where it is false throughout.
    """
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    batch, heads, queries, _ = query.shape
    key, value = (
        given.repeat_interleave(heads // given.shape[1], 1).expand(batch, -1, -1, -1)
        for given in (key, value)
    )
    scores = query.to(dtype) @ key.to(dtype).mT * scale
    extents = (batch, heads, queries, key.shape[2])
    indices = [torch.arange(extent, device=query.device) for extent in extents]
    modified = _mapped(score_function, 1)(scores, *indices, *score_tensors)
    allowed = _mapped(block_mask[-1], 0)(*indices, *mask_tensors)
    scores = torch.where(allowed, modified.to(dtype), -math.inf)
    weights = torch.ops.aten._safe_softmax.default(scores, -1)
    result = (weights @ value.to(dtype)).to(query.dtype)
    sums, largest = scores.logsumexp(-1), scores.amax(-1)
    return _laid_out_as(query, result), sums / math.log(2), largest / math.log(2)


def _mapped(function: Callable[..., Tensor], scores: int) -> Callable[..., Tensor]:
    """A function of a score and its indices, or of these alone, over all of them at once."""

    def call(*given: Any) -> Tensor:
        return function(*given)

    for axis in reversed(range(AXES)):
        along = [0 if axis == other else None for other in range(AXES)]
        call = _vmapped(call, [0] * scores + along)
    return call


def _vmapped(function: Callable[..., Tensor], dims: list[int | None]) -> Callable[..., Tensor]:
    def call(*given: Any) -> Tensor:
        rest = [None] * (len(given) - len(dims))
        return torch.vmap(function, in_dims=(*dims, *rest))(*given)

    return call


def _laid_out_as(query: Tensor, result: Tensor) -> Tensor:
    """The result with its dimensions in memory in the order of the queries', the last one dense."""
    outer = sorted(range(3), key=query.stride().__getitem__, reverse=True)
    order = [*outer, 3]
    inverse = [order.index(dimension) for dimension in range(4)]
    return result.permute(order).contiguous().permute(inverse)
