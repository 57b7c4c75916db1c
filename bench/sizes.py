"""
How much slower kernels for all sizes are than those that are made for one, by the estimate.

    python bench/sizes.py [--only REGEX]

Each program is called with 12 sizes on sm_90, without data, the first in their middle. A call gets
the kernels that `dlc.compile(dynamic_shapes=...)` would launch, and the static program of its
sizes; both are counted in Kernel IR (dlc/schedule/scheduled_time.py), nvcc is not run. A ratio is
the time over that of the static program, 1 where a call has a program of its own: `alone` counts
these, `programs` all that 12 calls compile. Writes JSON and a Markdown table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
import torch.nn.functional as F
from static_rows import update
from torch import Tensor, nn
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp

from dlc.bound_kernels import seconds_at
from dlc.importing import Imports
from dlc.shared_kernels import SharedKernels, are_made_for
from dlc.stages import Stages
from dlc.target import set_target
from dlc_bench.records import markdown_table

ROOT = Path(__file__).resolve().parent.parent
TARGET = "sm_90"
LENGTHS = (256, 64, 80, 100, 127, 160, 200, 333, 416, 512, 777, 1024)
"""The first is what kernels are scheduled for first; the others lie up to 4 times from it."""
BATCHES = (4, 2, 4, 8, 3, 2, 4, 6, 2, 4, 1, 3)
"""Of those programs whose batch changes, too, beside `LENGTHS`."""
HEADER = ("family", "programs", "alone", "mean", "worst", "at")

Row = dict[str, Any]
S, B = Dim("s", min=2, max=8192), Dim("b", min=1, max=64)


class Block(nn.Module):
    """A layer of a language model of 512 channels and 8 heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(512, 1536), nn.Linear(512, 512)
        self.up, self.gate, self.down = (
            nn.Linear(512, 1408),
            nn.Linear(512, 1408),
            nn.Linear(1408, 512),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        q, k, v = (
            t.view(b, s, 8, 64).transpose(1, 2)
            for t in self.qkv(F.rms_norm(x, (512,))).chunk(3, -1)
        )
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(h.transpose(1, 2).reshape(b, s, 512))
        h = F.rms_norm(x, (512,))
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@dataclass(frozen=True)
class Family:
    """A program, its arguments for a batch and a length, and what of them changes."""

    function: Callable[[], Callable[..., Tensor]]
    make: Callable[[int, int], tuple[Tensor, ...]]
    shapes: Any


FAMILIES = {
    "pointwise": Family(
        lambda: lambda x: F.gelu(x) * x,
        lambda b, s: (torch.randn(s, 1000),),
        ({0: S},),
    ),
    "norm": Family(
        lambda: lambda x, w: F.rms_norm(x, (1024,), w),
        lambda b, s: (torch.randn(s, 1024), torch.randn(1024)),
        ({0: S}, None),
    ),
    "softmax": Family(
        lambda: lambda x: torch.softmax(x, 1),
        lambda b, s: (torch.randn(4096, s),),
        ({1: S},),
    ),
    "row sum": Family(
        lambda: lambda x: x.sum(1),
        lambda b, s: (torch.randn(4096, s),),
        ({1: S},),
    ),
    "product of s rows": Family(
        lambda: lambda x, w: x @ w,
        lambda b, s: (torch.randn(s, 512), torch.randn(512, 768)),
        ({0: S}, None),
    ),
    "product of s columns": Family(
        lambda: lambda x, w: x @ w,
        lambda b, s: (torch.randn(512, 768), torch.randn(768, s)),
        (None, {1: S}),
    ),
    "product along s": Family(
        lambda: lambda x, w: x @ w,
        lambda b, s: (torch.randn(512, s), torch.randn(s, 768)),
        ({1: S}, {0: S}),
    ),
    "x @ x.T": Family(
        lambda: lambda x: x @ x.T,
        lambda b, s: (torch.randn(s, 512),),
        ({0: S},),
    ),
    "causal attention": Family(
        lambda: causal,
        lambda b, s: tuple(torch.randn(2, 8, s, 64) for _ in range(3)),
        ({2: S},) * 3,
    ),
    "transformer block": Family(
        Block,
        lambda b, s: (torch.randn(b, s, 512),),
        ({0: B, 1: S},),
    ),
}


def made(module: ModuleOp) -> Stages:
    """What such a program is compiled in."""
    set_target(module, TARGET, "f32")
    return Stages(module)


def measure(family: Family) -> Row:
    """The times of each call, and how many programs are compiled for these."""
    torch.manual_seed(0)
    with torch.device("meta"), torch.no_grad():
        imports, shared = Imports(family.function(), family.shapes), SharedKernels()
        rows: list[Row] = []
        programs: list[Stages] = []
        for batch, length in zip(BATCHES, LENGTHS, strict=True):
            args = family.make(batch, length)
            alone = made(imports.program(args, None).module)
            static = seconds_at(alone.module("kernel"), {}) * 1e6
            known = imports.sized_call(args, None)
            found = shared.stages(*known, "f32", made) if known else None
            if found and not are_made_for(found[0].module("kernel"), found[1]):
                found = None
            stages, sizes = found or (alone, {})
            if not any(one is stages for one in programs):
                programs.append(stages)
            us = seconds_at(stages.module("kernel"), sizes) * 1e6 if found else static
            row: Row = {"batch": batch, "length": length, "static_us": static, "us": us}
            rows.append(row | {"ratio": us / static, "alone": found is None})
    return {
        "programs": len(programs),
        "mean": geometric_mean(row["ratio"] for row in rows),
        "obstacle": shared.obstacle.replace(f"{ROOT}/", ""),
        "calls": rows,
    }


def cells(name: str, row: Row) -> list[str]:
    worst = max(row["calls"], key=lambda call: call["ratio"])
    return [
        name,
        str(row["programs"]),
        str(sum(call["alone"] for call in row["calls"])),
        f"{row['mean']:.2f}",
        f"{worst['ratio']:.2f}",
        f"{worst['batch']} x {worst['length']}",
    ]


def markdown(record: Row) -> str:
    """The table."""
    lines = [
        f"Counted {record['date']} for {TARGET}; 12 sizes of each program, batch x length.",
        "",
        *markdown_table(HEADER, (cells(name, row) for name, row in record["families"].items())),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    families = {name: partial(measure, family) for name, family in FAMILIES.items()}
    update("sizes", __doc__, families, markdown, key="families")
