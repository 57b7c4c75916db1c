"""`flex_attention`: attention whose scores and masks are functions, against PyTorch's in fp64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
)

import dlc
from dlc.judge.accuracy import compare

Mod = Callable[..., torch.Tensor]
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
BIAS = torch.randn(4, 256, generator=torch.Generator().manual_seed(5))
DOCUMENTS = torch.arange(128) // 9
LENGTHS = torch.tensor([5, 0])


def causal(b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return q >= k


def window(b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return (q >= k) & (q - k <= 3)


def documents(b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return (DOCUMENTS[q] == DOCUMENTS[k]) & (q >= k)


def padded(b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    """Of the second sample, whole rows are masked."""
    return k < LENGTHS[b]


def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return score + SLOPES[h] * (k - q)


def relative(score: Any, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return score + BIAS[h, q - k + 127]


def capped(score: Any, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return 2 * torch.tanh(score / 2)


def later_excluded(score: Any, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return torch.where(q >= k, score, -float("inf"))


def tensors(queries: int, keys: int, shared: int = 1, dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(queries + keys)
    shapes = (4, queries, 8), (4 // shared, keys, 8), (4 // shared, keys, 5)
    return tuple(torch.randn(2, *shape, generator=generator).to(dtype) for shape in shapes)


def program(score: Mod | None, mask: Mod | None, queries: int, keys: int, **options: Any) -> Any:
    block_mask: BlockMask | None = None
    if mask is not None:
        block_mask = create_block_mask(mask, 2, None, queries, keys, device="cpu")

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask, **options)

    return attend


def dense(
    score: Mod | None, mask: Mod | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """What `program` computes, by functions that take all indices at once."""
    exact = q.dtype if q.dtype == torch.float64 else torch.float32
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q.to(exact) @ k.to(exact).mT / q.shape[-1] ** 0.5
    spread = [[-1 if d == axis else 1 for d in range(4)] for axis in range(4)]
    indices = [torch.arange(n).view(s) for n, s in zip(scores.shape, spread, strict=True)]
    if score is not None:
        scores = score(scores, *indices)
    if mask is not None:
        scores = scores.masked_fill(~mask(*indices), -torch.inf)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.softmax(-1).masked_fill(empty, 0.0)
    return weights.to(q.dtype) @ v


def assert_computes(score: Mod | None, mask: Mod | None, args: Any, compiled: Any) -> None:
    """That a program computes what `dense` does."""
    eager = dense(score, mask, *args)
    exact = dense(score, mask, *(x.double() for x in args))
    assert (verdict := compare(compiled(*args), exact, eager)).ok, str(verdict)


def assert_is(attend: Any, args: Any, compiled: Any) -> None:
    """That a program computes what PyTorch's own does, in its layout."""
    eager, exact = _leaves(attend(*args)), _leaves(attend(*(x.double() for x in args)))
    found = _leaves(compiled(*args))
    assert len(found) == len(eager) == len(exact)
    for own, reference, known in zip(found, exact, eager, strict=True):
        assert own.stride() == known.stride()
        assert (verdict := compare(own, reference, known)).ok, str(verdict)


def _leaves(value: Any) -> list[torch.Tensor]:
    """The tensors of a result, whose sums stand in an object."""
    if isinstance(value, torch.Tensor):
        return [value]
    result, more = value
    return [result, more.lse]


CASES: dict[str, tuple[Mod | None, Mod | None, int, int]] = {
    "plain": (None, None, 7, 100),
    "causal": (None, causal, 100, 100),
    "one query": (alibi, causal, 1, 127),
    "alibi": (alibi, None, 7, 7),
    "window": (None, window, 127, 127),
    "capped": (capped, causal, 100, 7),
    "relative": (relative, None, 100, 127),
    "documents": (alibi, documents, 127, 100),
    "masked rows": (None, padded, 7, 100),
    "masked by scores": (later_excluded, None, 7, 7),
    "one key": (capped, None, 127, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_of_scores_and_masks(name: str) -> None:
    score, mask, queries, keys = CASES[name]
    args = tensors(queries, keys)
    compiled = dlc.compile(program(*CASES[name]), args, backend="host")
    assert_computes(score, mask, args, compiled)
    if queries == 7:
        assert all(str(verdict).endswith("is clean>") for verdict in compiled.check())


@pytest.mark.parametrize("name", ["documents", "masked rows"])
def test_under_torch_compile(name: str) -> None:
    score, mask, queries, keys = CASES[name]
    torch._dynamo.reset()
    options = {"backend": "host", "fallback": False}
    with torch.no_grad():
        compiled = torch.compile(program(*CASES[name]), backend="dlc", options=options)
        assert_computes(score, mask, tensors(queries, keys), compiled)


def test_heads_share_keys() -> None:
    attend, args = program(alibi, causal, 7, 100, enable_gqa=True), tensors(7, 100, shared=2)
    assert_computes(alibi, causal, args, dlc.compile(attend, args, backend="host"))


def test_sums_of_rows_are_returned() -> None:
    attend = program(alibi, padded, 7, 9, return_aux=AuxRequest(lse=True))
    args = tensors(7, 9)
    compiled = dlc.compile(attend, args, backend="host")
    _, aux = compiled(*args)
    assert aux.lse[1].eq(-torch.inf).all()
    assert_is(attend, args, compiled)


def test_a_scale_of_its_own_and_other_layouts() -> None:
    attend = program(None, causal, 7, 9, scale=0.3)
    args = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors(7, 9))
    assert_is(attend, args, dlc.compile(attend, args, backend="host"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype: torch.dtype) -> None:
    attend, args = program(alibi, causal, 7, 9), tensors(7, 9, dtype=dtype)
    assert_computes(alibi, causal, args, dlc.compile(attend, args, backend="host"))


def test_infinite_and_undefined_scores() -> None:
    attend, args = program(None, causal, 7, 7), tensors(7, 7)
    args[0][0, 0, 3, 0] = torch.nan
    args[1][1, 1, 2, 1] = torch.inf
    assert_is(attend, args, dlc.compile(attend, args, backend="host"))


def test_tensors_that_functions_hold_are_followed() -> None:
    slopes = SLOPES.clone()

    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
        return s + slopes[h] * (k - q)

    args = tensors(7, 9)
    compiled = dlc.compile(program(score, None, 7, 9), args, backend="host")
    for factor in (1.0, 3.0):
        slopes.mul_(factor)
        assert_computes(score, None, args, compiled)


def test_a_mask_that_is_made_in_the_program() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        mask = create_block_mask(causal, None, None, q.shape[2], k.shape[2], device="cpu")
        return flex_attention(q, k, v, block_mask=mask)

    args = tensors(7, 9)
    assert_computes(None, causal, args, dlc.compile(attend, args, backend="host"))
