"""
What can be told without a GPU of products of bf16, of attention and of whole blocks of models: what
ptxas makes of their main loops, and their time by the estimate over the roofline, as
`results/halves.md`.

    python bench/halves.py [--only REGEX]

The roofline is the longer of the bytes at the memory's rate and the products at the rate of tensor
cores, and one launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from math import exp, log
from statistics import mean
from typing import Any

from kernel_rows import Maker, Row
from static_rows import compiled, update

from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.backend.cuda.run.sass_products import early_accesses
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
ATTENTION = (("causal", 512), ("causal", 4096), ("none", 4096))
"""Masks, and rows and keys of 32 heads."""
WIDTHS = (64, 128)
BLOCKS = {"tl": "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "qw": "Qwen/Qwen2.5-7B"}
BLOCK_TOKENS = (128, 512)
CHIPS = ("sm_80", "sm_90", "sm_120")
KINDS = ("gemm", "linear", "attention", "block")


def cases() -> Iterator[tuple[str, str | Maker]]:
    """Names and programs: texts, or what makes a module and its inputs."""
    yield "gemm.4096", _linear(4096, 4096, 4096)
    for name, (columns, k) in LINEARS.items():
        for tokens in TOKENS:
            yield f"linear.{name}.s{tokens}", _linear(tokens, columns, k)
    for width in WIDTHS:
        for mask, keys in ATTENTION:
            yield f"attention.{width}.{keys}.{mask}", _attention(width, keys, mask == "causal")
    for name, model in BLOCKS.items():
        for tokens in BLOCK_TOKENS:
            yield f"block.{name}.s{tokens}", partial(block, model, tokens)


def _linear(rows: int, columns: int, k: int) -> str:
    x, w = (f"torch.randn({n}, {k}, dtype=torch.bfloat16)" for n in (rows, columns))
    return f"F.linear({x}, {w})"


def _attention(width: int, keys: int, causal: bool) -> str:
    drawn = f"torch.randn(1, 32, {keys}, {width}, dtype=torch.bfloat16)"
    return f"F.scaled_dot_product_attention({drawn}, {drawn}, {drawn}, is_causal={causal})"


def block(model: str, tokens: int) -> tuple[Any, tuple[Any, ...]]:
    """The first layer of a model in bf16, and hidden states of a prompt."""
    from dlc.models.find import find
    from dlc.models.load import ModelOptions, load_model

    return load_model(find(model), ModelOptions(layer=0, seq_len=tokens, dtype="bf16"))


def roofline(chip: str, flops: float, bytes: float) -> float:
    """Microseconds."""
    target = TARGETS[chip]
    longest = max(bytes / target.memory_bandwidth, flops / target.tensor_flops)
    return (target.launch_seconds + longest) * 1e6


def examined(chip: str, given: str | Maker) -> Row:
    """
    Time and roofline in microseconds, what ptxas made of the kernels, and how many instructions
    are in the loops of those that multiply matrices, or of the first.
    """
    found = compiled(given, chip)
    kernels = found["kernels"]
    cubins = [compile_cubin(kernel["source"], chip) for kernel in kernels]
    functions = [sass.parse(sass.disassemble(cubin.path)) for cubin in cubins]
    bodies = [_loop(of_one) for of_one in functions]
    multiply = [body for body in bodies if any(i.opcode in sass.TENSOR for i in body)]
    issued = [i.opcode for body in multiply or bodies[:1] for i in body if i.opcode != "NOP"]
    return {
        "us": found["us"],
        "floor": roofline(chip, found["flops"], found["bytes"]),
        "schedule": kernels[0]["schedule"],
        "kernels": len(kernels),
        "registers": max(cubin.registers for cubin in cubins),
        "spill_bytes": sum(cubin.spill_bytes for cubin in cubins),
        "serialized": sum(cubin.serialized for cubin in cubins),
        "early": sum(len(early_accesses(f)) for of_one in functions for f in of_one),
        "bank_ways": max(map(worst_ways, kernels)),
        "tensor": sum(opcode in sass.TENSOR for opcode in issued),
        "ldmatrix": issued.count("LDSM"),
        "copies": issued.count("LDGSTS"),
        "issued": len(issued),
    }


def _loop(functions: Sequence[sass.Function]) -> Sequence[sass.Instruction]:
    """The loop of a kernel where the time goes; all of it where few chunks are written out."""
    function = max(functions, key=lambda f: len(f.instructions))
    body = function.body(function.hot_loop) if function.hot_loop else function.instructions
    multiplies = any(i.opcode in sass.TENSOR for i in body)
    return body if multiplies else function.instructions


def markdown(data: dict[str, Row]) -> str:
    """The table, a row for each program and chip."""
    head = ("program", "chip", "tile", "us", "roofline us", "ratio", "products / issued", "LDSM",
            "LDGSTS", "ways", "registers", "spilled B", "serialized", "early")  # fmt: skip
    means = [(chip, _mean([row for name, row in data.items() if name.endswith(f" {chip}")]))
             for chip in CHIPS]  # fmt: skip
    means += [(kind, _mean([row for name, row in data.items() if name.startswith(f"{kind}.")]))
              for kind in KINDS]  # fmt: skip
    linears = {name: row for name, row in data.items() if name.startswith("linear.")}
    tokens = [(n, _mean([r for name, r in linears.items() if f".s{n} " in name])) for n in TOKENS]
    means += [(f"linear of {n} token{'s'[: n > 1]}", mean) for n, mean in tokens]
    return "\n".join([
        "# Products of bf16, without a GPU",
        "",
        "Made by `python bench/halves.py`: times are predictions. NOPs, which ptxas writes between",
        "products for sm_120, are not among what is issued. A tile is a block's rows, columns and",
        "points of K (of attention: keys) in a chunk, and the parts of K. Ways are the most of an",
        "access of shared memory, by the model of banks: 1 is free of conflicts. Products of one",
        "row are reduces. Serialized are remarks of ptxas on products of warpgroups that wait",
        "where they need not, early are instructions that touch sums before their products have",
        "been waited for, which would be wrong. Attention is of 32 heads; a block is a model's",
        "first layer: of its kernels the most registers of one, and the loops of those that",
        "multiply matrices.",
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
    program, chip = name.split(" ")
    share = f"{row['tensor']} / {row['issued']}" if row["tensor"] else ""
    return [
        *(program, chip, _tile(row) if "block" not in program else f"{row['kernels']} kernels"),
        *(f"{row['us']:.1f}", f"{row['floor']:.1f}", f"{row['us'] / row['floor']:.2f}"),
        *(share, str(row["ldmatrix"]), str(row["copies"]), f"{row['bank_ways']:.3g}"),
        *(str(row["registers"]), str(row["spill_bytes"]), str(row.get("serialized", 0))),
        str(row.get("early", "-")),
    ]


def _tile(row: Row) -> str:
    """What a schedule makes a block of, such as `128x256x64 in 4`."""
    own = re.sub(r' then="[^"]*"', "", row["schedule"])
    patterns = (r"\{bk=(\d+)", r"splits=(\d+)", r"block=(?:\d+,)*(\d+),(\d+) thread=\d+,")
    chunk, splits, block = (re.search(p, own) for p in patterns)
    if not chunk or not block:
        return "reduce"
    return f"{block[1]}x{block[2]}x{chunk[1]}" + (f" in {splits[1]}" if splits else "")


def main() -> None:
    programs = [(name, chip, given) for chip in CHIPS for name, given in cases()]
    rows = {f"{name} {chip}": partial(examined, chip, given) for name, chip, given in programs}
    update("halves", __doc__, rows, markdown)


if __name__ == "__main__":
    main()
