"""
What can be told without a GPU of attention in one kernel, as `results/attention.md`.

    python bench/attention.py [--only REGEX]

What ptxas makes of `scaled_dot_product_attention` of 32 heads with as many rows as keys, fp32, for
heads of 64 and 128 elements, with and without a causal mask; and the estimates of the 84 cases that
are attention, beside those of their scores, probabilities and results as three programs, and beside
what multiply-adds alone take. Rows that the pattern does not name stay as they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from cases import SUITE, Case
from kernel_rows import Row
from static_rows import lowered, update

from dlc.target import TARGETS
from dlc.text import table
from dlc_bench.statics import examine, worst_ways

CHIPS = ("sm_80", "sm_90", "sm_120")
WIDTHS = (64, 128)
KEYS = (32, 128, 512, 4096)
HEADS = 32


@dataclass(frozen=True)
class Attention:
    """One program of the static table; as many rows as keys."""

    width: int
    keys: int
    causal: bool
    chip: str

    @property
    def name(self) -> str:
        mask = "causal" if self.causal else "none"
        return f"{self.width} {self.keys} {mask} {self.chip}"

    @property
    def text(self) -> str:
        drawn = f"torch.randn(1, {HEADS}, {self.keys}, {self.width})"
        return f"F.scaled_dot_product_attention({drawn}, {drawn}, {drawn}, is_causal={self.causal})"


def attentions() -> Iterator[Attention]:
    for width in WIDTHS:
        for keys in KEYS:
            for causal in (False, True):
                for chip in CHIPS:
                    yield Attention(width, keys, causal, chip)


def examined(case: Attention) -> Row:
    """The estimate in microseconds, and of the last kernel what ptxas made."""
    kernels = lowered(case.text, case.chip)
    row = examine(kernels[-1], case.chip)
    loop = row["loop"] or {"fma_share": 0.0}
    return {
        "us": sum(each.get("whole_us", 0.0) for each in kernels),
        "kernels": len(kernels),
        "schedule": row["schedule"],
        "threads": row["threads"],
        "registers": row["registers"],
        "spill_bytes": row["spill_bytes"],
        "shared_bytes": row["shared_bytes"],
        "blocks_per_sm": row["ctas_per_sm"],
        "bank_ways": worst_ways(row),
        "fma_share": loop["fma_share"],
    }


def apart(case: Case) -> Iterator[str]:
    """A case's scores, probabilities and results as programs of their own, by the one before."""
    (_, heads, s, d), kv_heads = case.inputs["q"], case.inputs["k"][1]
    group = heads // kv_heads
    q, k = f"torch.randn({kv_heads}, {group}, {s}, {d})", f"torch.randn({kv_heads}, 1, {s}, {d})"
    scores = f"q @ k.transpose(-2, -1) / math.sqrt({d})"
    if case.constants:
        masked = f"mask = {case.constants['mask']}; {scores} + mask"
    else:
        tokens = f"t = torch.arange({s})"
        masked = f"{tokens}; ({scores}).masked_fill(t > t[:, None], -math.inf)"
    shape = f"{kv_heads}, {group}, {s}, {s}"
    yield f"q = {q}; k = {k}; {masked}"
    yield f"torch.softmax(torch.randn({shape}), -1)"
    yield f"torch.randn({shape}) @ {k}"


def estimated(case: Case) -> Row:
    """Microseconds on sm_90 by the estimate, of three kernels, and of the multiply-adds alone."""
    kernels, target = lowered(case.text, "sm_90"), TARGETS["sm_90"]
    parts = [each for text in apart(case) for each in lowered(text, "sm_90")]
    return {
        "us": sum(each.get("whole_us", 0.0) for each in kernels),
        "launches": len(kernels),
        "apart_us": sum(each.get("whole_us", 0.0) for each in parts),
        "least_us": (case.flops / target.flops + target.launch_seconds) * 1e6,
    }


def tile(schedule: str) -> str:
    """Rows, columns and keys of a block's chunk, such as `64x64x64`."""
    chunk, block = (re.search(p, schedule) for p in (r"\{bk=(\d+)", r"block=([\d,]+)"))
    if not chunk or not block:
        return "-"
    return "x".join([*block[1].split(",")[-2:], chunk[1]])


def markdown(data: dict[str, Row]) -> str:
    """Both tables."""
    head = ("width", "keys", "mask", "chip", "us", "kernels", "block", "threads", "registers",
            "spilled B", "shared B", "on an SM", "ways", "FFMA in the loop")  # fmt: skip
    static = [
        [
            *name.split(" "),
            *(f"{row['us']:.1f}", str(row["kernels"]), tile(row["schedule"])),
            *(str(row[n]) for n in ("threads", "registers", "spill_bytes", "shared_bytes")),
            *(str(row["blocks_per_sm"]), f"{row['bank_ways']:.3g}"),
            f"{row['fma_share']:.1%}" if row["fma_share"] else "-",
        ]
        for name, row in data.items()
        if " " in name
    ]
    suite = [
        [
            *(name, f"{row['us']:.1f}", str(row["launches"]), f"{row['apart_us']:.1f}"),
            *(f"{row['us'] / row['apart_us']:.2f}", f"{row['least_us']:.1f}"),
            f"{row['us'] / row['least_us']:.2f}",
        ]
        for name, row in data.items()
        if " " not in name
    ]
    cases = ("case", "us", "launches", "apart us", "ratio", "least us", "ratio to it")
    return "\n".join([
        "# Attention, without a GPU",
        "",
        "Made by `python bench/attention.py`: times are predictions. fp32, 32 heads, as many",
        "rows as keys. A block is its rows, columns and keys in a chunk; of more kernels than one,",
        "the last stands here. The loop is that over keys, as it is written: of a causal mask it",
        "holds both ways to store scores, of which a block goes one. Of one chunk there is none.",
        "",
        table(head, static),
        "",
        "The cases among the 84 that are attention, for sm_90. Apart are scores, probabilities and",
        "results as three programs, each as dlc makes it alone. The least is the time of the",
        "multiply-adds that a program of these masks needs at the rate of all lanes, and a launch.",
        "",
        table(cases, suite),
        "",
    ])  # fmt: skip


def main() -> None:
    suite = [case for case in SUITE if re.match(r"sdpa|naive_attn", case.name)]
    rows = {case.name: partial(examined, case) for case in attentions()}
    rows |= {case.name: partial(estimated, case) for case in suite}
    update("attention", __doc__, rows, markdown)


if __name__ == "__main__":
    main()
