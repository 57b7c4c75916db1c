"""
What can be told without a GPU of products of bf16: what ptxas makes of their main loops, and their
time by the estimate over the roofline, as `results/halves.md`.

    python bench/halves.py [--only REGEX]

The roofline is the longer of the bytes at the memory's rate and the products at the rate of tensor
cores, and a launch.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F

import dlc
from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.schedule.problem import Problem, TensorProduct
from dlc.schedule.tiling import candidates
from dlc.target import TARGETS
from dlc.text import table

Row = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
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
TOKENS = (32, 128, 512)
CHIPS = ("sm_80", "sm_90", "sm_120")
COMPILED = "sm_90"
"""The chip for which all products are compiled; the square one is for every chip."""
LAST = {"gemm.4096": (4096, 4096, 4096)}


def cases() -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """Names, chips, and rows, columns and K."""
    for chip in CHIPS:
        for name, size in LAST.items():
            yield name, chip, size
        for name, (columns, k) in LINEARS.items():
            for tokens in TOKENS:
                yield f"linear.{name}.s{tokens}", chip, (tokens, columns, k)


def predicted(chip: str, size: tuple[int, int, int]) -> Row:
    """Microseconds by the estimate and by the roofline."""
    rows, columns, k = size
    target = TARGETS[chip]
    problem = Problem(1, rows, columns, k, row_work=1, column_work=1, bytes_=2,
                      tensor=TensorProduct("bf16"))  # fmt: skip
    best = candidates(problem, target)[0]
    bytes = problem.compulsory_bytes / target.memory_bandwidth
    flops = 2 * rows * columns * k / target.tensor_flops
    floor = target.launch_seconds + max(bytes, flops)
    return {"tile": str(best).partition(":")[0], "us": best.seconds * 1e6, "floor": floor * 1e6}


def compiled(chip: str, size: tuple[int, int, int]) -> Row:
    """Of the kernel with the products: registers, spills, and what its main loop issues."""
    rows, columns, k = size
    x, w = (torch.empty(n, k, dtype=torch.bfloat16) for n in (rows, columns))
    made = dlc.compile(F.linear, (x, w), target=chip, backend="host")
    cubin = compile_cubin(made.kernels[0].ir("cuda"), chip)
    (function,) = sass.parse(sass.disassemble(cubin.path))
    loop = function.hot_loop
    body = function.body(loop) if loop else function.instructions
    return {
        "schedule": made.kernels[0].schedule,
        "registers": cubin.registers,
        "spill_bytes": cubin.spill_bytes,
        "tensor": sum(i.opcode in sass.TENSOR for i in body),
        "ldmatrix": sum(i.opcode == "LDSM" for i in body),
        "copies": sum(i.opcode == "LDGSTS" for i in body),
        "nops": sum(i.opcode == "NOP" for i in body),
        "issued": len(body),
    }


def markdown(data: dict[str, Row]) -> str:
    """The table, a row for each product and chip."""
    head = ("product", "chip", "tile", "us", "roofline us", "ratio", "HMMA / issued", "LDSM",
            "LDGSTS", "registers", "spilled B")  # fmt: skip
    lines = [_cells(name, row) for name, row in data.items()]
    ratios = [log(row["us"] / row["floor"]) for row in data.values()]
    return "\n".join([
        "# Products of bf16, without a GPU",
        "",
        "Made by `python bench/halves.py`: times are predictions. NOPs, which ptxas writes between",
        "products for sm_120, are not among what is issued. Geometric mean of the ratios:",
        f"{exp(mean(ratios)):.2f}.",
        "",
        table(head, lines),
        "",
    ])  # fmt: skip


def _cells(name: str, row: Row) -> list[str]:
    product, chip = name.split(" ")
    cells = [product, chip, row["tile"], f"{row['us']:.1f}", f"{row['floor']:.1f}"]
    cells.append(f"{row['us'] / row['floor']:.2f}")
    if "issued" not in row:
        return [*cells, *[""] * 5]
    share = f"{row['tensor']} / {row['issued'] - row['nops']}"
    counts = (row["ldmatrix"], row["copies"], row["registers"], row["spill_bytes"])
    return [*cells, share, *map(str, counts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().partition("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression for `name chip`")
    only = re.compile(parser.parse_args().only)
    path = RESULTS / "halves.json"
    data: dict[str, Row] = json.loads(path.read_text()) if path.exists() else {}
    for name, chip, size in cases():
        key = f"{name} {chip}"
        if only.search(key):
            data[key] = predicted(chip, size)
            if chip == COMPILED or name in LAST:
                data[key] |= compiled(chip, size)
            path.write_text(json.dumps(data, indent=1) + "\n")
            (RESULTS / "halves.md").write_text(markdown(data))


if __name__ == "__main__":
    main()
