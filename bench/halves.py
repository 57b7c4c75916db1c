"""
What can be told without a GPU of products of bf16: what ptxas makes of their main loops, and their
time by the estimate over the roofline, as `results/halves.md`.

    python bench/halves.py [--only REGEX]

The roofline is the longer of the bytes at the memory's rate and the products at the rate of tensor
cores, and a launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from math import exp, log
from statistics import mean

from static import Row
from static_rows import lowered, update

from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.target import TARGETS
from dlc.text import table
from dlc_bench.statics import worst_ways

LINEARS = {
    "tl.q_proj": (2048, 2048),
    "tl.kv_proj": (256, 2048),
    "tl.gate_proj": (5632, 2048),
    "tl.down_proj": (2048, 5632),
    "qw.q_proj": (3584, 3584),
    "qw.kv_proj": (512, 3584),
    "qw.gate_proj": (18944, 3584),
    "qw.down_proj": (3584, 18944),
}
"""Columns and K of the products of TinyLlama 1.1B and Qwen2.5 7B."""
TOKENS = (1, 32, 128, 512)
CHIPS = ("sm_80", "sm_90", "sm_120")


def cases() -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """Names, chips, and rows, columns and K."""
    for chip in CHIPS:
        yield "gemm.4096", chip, (4096, 4096, 4096)
        for name, (columns, k) in LINEARS.items():
            for tokens in TOKENS:
                yield f"linear.{name}.s{tokens}", chip, (tokens, columns, k)


def roofline(chip: str, size: tuple[int, int, int]) -> float:
    """Microseconds."""
    (rows, columns, k), target = size, TARGETS[chip]
    bytes = 2 * (rows * k + columns * k + rows * columns)
    flops = 2 * rows * columns * k
    longest = max(bytes / target.memory_bandwidth, flops / target.tensor_flops)
    return (target.launch_seconds + longest) * 1e6


def examined(chip: str, size: tuple[int, int, int]) -> Row:
    """Time and roofline in microseconds, and of the kernel with the products what ptxas made."""
    rows, columns, k = size
    x, w = (f"torch.randn({n}, {k}, dtype=torch.bfloat16)" for n in (rows, columns))
    kernels = lowered(f"F.linear({x}, {w})", chip)
    kernel = kernels[0]
    cubin = compile_cubin(kernel["source"], chip)
    (function,) = sass.parse(sass.disassemble(cubin.path))
    loop = function.hot_loop
    body = function.body(loop) if loop else function.instructions
    if not any(i.opcode in sass.TENSOR for i in body):  # few chunks: their loop is unrolled
        body = function.instructions
    return {
        "us": sum(each.get("whole_us", 0.0) for each in kernels),
        "floor": roofline(chip, size),
        "schedule": kernel["schedule"],
        "kernels": len(kernels),
        "registers": cubin.registers,
        "spill_bytes": cubin.spill_bytes,
        "serialized": cubin.serialized,
        "bank_ways": worst_ways(kernel),
        "tensor": sum(i.opcode in sass.TENSOR for i in body),
        "ldmatrix": sum(i.opcode == "LDSM" for i in body),
        "copies": sum(i.opcode == "LDGSTS" for i in body),
        "issued": sum(i.opcode != "NOP" for i in body),
    }


def markdown(data: dict[str, Row]) -> str:
    """The table, a row for each product and chip."""
    head = ("product", "chip", "tile", "us", "roofline us", "ratio", "products / issued", "LDSM",
            "LDGSTS", "ways", "registers", "spilled B", "serialized")  # fmt: skip
    means = [(chip, _mean([row for name, row in data.items() if name.endswith(f" {chip}")]))
             for chip in CHIPS]  # fmt: skip
    tokens = [(n, _mean([row for name, row in data.items() if f".s{n} " in name])) for n in TOKENS]
    means += [(f"{n} token{'s'[: n > 1]}", mean) for n, mean in tokens]
    return "\n".join([
        "# Products of bf16, without a GPU",
        "",
        "Made by `python bench/halves.py`: times are predictions. NOPs, which ptxas writes between",
        "products for sm_120, are not among what is issued. A tile is a block's rows, columns and",
        "points of K in a chunk, and the parts of K. Ways are the most of an access of shared",
        "memory, by the model of banks: 1 is free of conflicts. Products of one row are reduces.",
        "Serialized are remarks of ptxas on products of warpgroups that wait where they need not.",
        "",
        f"Geometric mean of the ratios: {_mean(list(data.values()))}; "
        + ", ".join(f"{of} {mean}" for of, mean in means) + ".",
        "",
        table(head, [_cells(name, row) for name, row in data.items()]),
        "",
    ])  # fmt: skip


def _mean(rows: Sequence[Row]) -> str:
    return f"{exp(mean(log(row['us'] / row['floor']) for row in rows)):.2f}" if rows else "-"


def _cells(name: str, row: Row) -> list[str]:
    product, chip = name.split(" ")
    share = f"{row['tensor']} / {row['issued']}" if row["tensor"] else ""
    return [
        *(product, chip, _tile(row["schedule"])),
        *(f"{row['us']:.1f}", f"{row['floor']:.1f}", f"{row['us'] / row['floor']:.2f}"),
        *(share, str(row["ldmatrix"]), str(row["copies"]), f"{row['bank_ways']:.3g}"),
        *(str(row["registers"]), str(row["spill_bytes"]), str(row.get("serialized", 0))),
    ]


def _tile(schedule: str) -> str:
    """What a schedule makes a block of, such as `128x256x64 in 4`."""
    own = re.sub(r' then="[^"]*"', "", schedule)
    patterns = (r"\{bk=(\d+)", r"splits=(\d+)", r"block=(\d+),(\d+) thread=\d+,")
    chunk, splits, block = (re.search(p, own) for p in patterns)
    if not chunk or not block:
        return "reduce"
    return f"{block[1]}x{block[2]}x{chunk[1]}" + (f" in {splits[1]}" if splits else "")


def main() -> None:
    rows = {f"{name} {chip}": partial(examined, chip, size) for name, chip, size in cases()}
    update("halves", __doc__, rows, markdown)


if __name__ == "__main__":
    main()
