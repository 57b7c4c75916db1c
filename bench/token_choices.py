"""Schedules of what a token of each row takes, of which a GPU says which is the fastest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from part_endings import split_step
from torch import Tensor

HEADS, GROUPS, WIDTH, KEYS = 32, 4, 64, 2048
"""Heads of queries and of keys, and their elements, as of TinyLlama, and what a cache holds."""
ATTENTION, PRODUCT = "le_scaled_dot_product_attention", "linear"
GATED = "rms_norm_linear_silu_mul"
"""How the kernels are called."""
_WARPS = (
    "tileify,chunk-matmul-k{{bk={bk} vector=16}},{split}blockify-launch{{block=16,{columns} "
    "thread=1,1}},"
    "stage-inputs{{budget=26752 compute=true points=4,8}},register-tile{{extents=16,{columns} "
    "mma=m16n8k16}},double-buffer{{depth={depth}}},async-copy,pad-smem,pipeline-k-outer,"
    "mark-unroll{{limit=4}}"
)
_THREADS = (
    "tileify,chunk-matmul-k{{bk=64 vector=4}},{split}blockify-launch{{block=8,64 thread={threads} "
    "lanes=2}},stage-inputs{{budget=21568 compute=true points={points}}},register-tile{{extents="
    "{points} held=true}},double-buffer{{depth=2}},async-copy,pad-smem,pipeline-k-outer,"
    "mark-unroll{{limit=16}}"
)
_ROW = (
    "tileify,chunk-matmul-k{{bk=64 vector=4}},{split}blockify-launch{{block=4,64 thread=4,32 "
    "lanes=2}},stage-inputs{{budget=19040 compute=true points=1,2}},register-tile{{extents=2}},"
    "pad-smem,mark-unroll{{limit=16}}"
)
_PRODUCT = (
    "tileify,chunk-matmul-k{{bk=64 vector=16}},{split}blockify-launch{{block=64,{columns} "
    "thread=1,1}},stage-inputs{{budget=18432}},register-tile{{extents=64,{columns} "
    "mma=m64n{columns}k16}},double-buffer{{depth=4}},tma-copy,split-inner-for-swizzle{{bytes=128}},"
    "pipeline-k-outer,mark-unroll{{limit=4}}"
)
_OF_WARPS = (
    "tileify{repeat=true},cooperative-reduce{threads=32 rows=4 vector=8},mark-unroll{limit=8}"
)
_APART = "x+square+sum+rms+rms_norm,product+linear+linear_2+silu+product_2+linear_3+linear_4+mul"


@dataclass(frozen=True)
class TokenChoice:
    """What makes a function and its arguments, and options of `dlc.compile`."""

    name: str
    make: Callable[[], tuple[Callable[..., Tensor], tuple[Tensor, ...]]]
    options: Mapping[str, Any]


def attend(q: Tensor, k: Tensor, v: Tensor, last: Tensor) -> Tensor:
    """One query of each row over the keys up to its last one."""
    held = torch.arange(k.shape[2], device=k.device) <= last[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=held[:, None, None], enable_gqa=True)


def attention_of(rows: int) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    q = torch.randn(rows, HEADS, 1, WIDTH, dtype=torch.bfloat16)
    k, v = (torch.randn(rows, GROUPS, KEYS, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    return attend, (q, k, v, torch.full((rows,), KEYS - 1))


def product_of(k: int) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    x, w = (torch.randn(rows, k, dtype=torch.bfloat16) for rows in (64, 2048))
    return F.linear, (x, w)


def gated(x: Tensor, g: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """A norm, and the products behind it."""
    h = F.rms_norm(x, x.shape[-1:], g)
    return F.silu(F.linear(h, gate)) * F.linear(h, up)


def gated_of_one() -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    shapes = (1, 2048), (2048,), (5632, 2048), (5632, 2048)
    return gated, tuple(torch.randn(shape, dtype=torch.bfloat16) for shape in shapes)


def token_choices() -> Iterator[TokenChoice]:
    """Attention by warps and by threads, products by warpgroups; parts that end in three ways."""
    for rows, name, schedule in _attention():
        name = f"token.attention.{rows}.{name}"
        yield TokenChoice(name, partial(attention_of, rows), _by(ATTENTION, schedule))
    for k, columns, splits in ((5632, 80, 4), (2048, 80, 4)):
        for ending in ("cluster", "kernel"):
            split = split_step(splits, ending, (64, 2048))
            schedule = _PRODUCT.format(split=split, columns=columns)
            name = f"token.product.64x{k}.{splits}.of{columns}.{ending}"
            yield TokenChoice(name, partial(product_of, k), _by(PRODUCT, schedule))
    for name, options in (
        ("fused", {}), ("fused-by-warps", _by(GATED, _OF_WARPS)), ("apart", {"plan": _APART}),
    ):  # fmt: skip
        yield TokenChoice(f"token.gated.1.{name}", gated_of_one, options)


def _by(kernel: str, schedule: str) -> dict[str, Any]:
    return {"schedules": {kernel: schedule}}


def _attention() -> Iterator[tuple[int, str, str]]:
    for rows, warps in (
        (64, ((1, "", 64, 2, 64), (1, "", 64, 4, 64), (2, "last", 64, 2, 64),
              (2, "kernel", 64, 4, 64), (4, "cluster", 64, 2, 64))),
        (8, ((8, "kernel", 64, 2, 32), (8, "kernel", 64, 2, 64), (16, "kernel", 64, 2, 64),
             (8, "cluster", 64, 2, 64), (8, "last", 64, 2, 64))),
        (1, ((32, "kernel", 32, 2, 16), (32, "kernel", 32, 2, 64), (32, "last", 64, 2, 64))),
    ):  # fmt: skip
        for parts, ending, bk, depth, columns in warps:
            split = _split(parts, ending, rows) if ending else ""
            told = f"warps.{parts}.{ending or 'whole'}.{bk}keys.in{depth}.of{columns}"
            yield rows, told, _WARPS.format(bk=bk, split=split, depth=depth, columns=columns)
    for rows, parts, dealt, points in ((64, 3, "2,16", "4,4"), (8, 16, "4,16", "2,4")):
        split = _split(parts, "kernel", rows)
        told = f"threads.{parts}.kernel"
        yield rows, told, _THREADS.format(split=split, threads=dealt, points=points)
    for ending in ("kernel", "last"):
        yield 1, f"threads.32.{ending}", _ROW.format(split=_split(32, ending, 1))


def _split(parts: int, ending: str, rows: int) -> str:
    """The step that splits keys, of which a length tells the last."""
    return split_step(parts, ending, (rows, GROUPS, HEADS // GROUPS, WIDTH), 3, " deal=turns")
