"""
What the examples cost: compile time, peak memory, and time on the host backend.

    python bench/examples.py [--only REGEX]

Each compilation is a process of its own, so imports count; the least of three runs is kept.
Writes JSON and a Markdown table.
"""

from __future__ import annotations

import compileall
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from static_rows import update

from dlc_bench.records import markdown_table, run_dlc

ROOT = Path(__file__).resolve().parent.parent
REPEAT = 3

EXAMPLES: dict[str, tuple[list[str], float]] = {
    "RMSNorm": (["-c", "torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))"], 0),
    "softmax": (["-c", "torch.nn.Softmax(dim=-1)(torch.randn(1,28,256,256))"], 0),
    "matmul, bias before, relu after": (
        [
            "-c",
            "torch.relu(torch.matmul(torch.randn(16,64) + torch.randn(64), torch.randn(64,16)))",
        ],
        2 * 16 * 64 * 16,
    ),
    "LayerNorm in five lines": ([str(ROOT / "examples" / "layer_norm.py")], 0),
    "TinyLlama MLP": ([str(ROOT / "examples" / "mlp.py")], 3 * 2 * 128 * 2048 * 5632),
}
"""Arguments of `dlc`, and the floating-point operations of the matrix products."""

HEADER = ("example", "kernels", "dlc's own share", "torch's import and export", "peak memory",
          "host")  # fmt: skip


def measure(arguments: list[str], flops: float) -> dict[str, float]:
    """Seconds of dlc's own phases and of torch's, MiB, kernels, and seconds on the host."""
    own, torch, memory = [], [], []
    for _ in range(REPEAT):
        report = run_dlc("compile", *arguments, "--timing", "-o", os.devnull).stderr
        own.append(float(re.search(r"dlc +total +([\d.]+)", report)[1]))
        torch.append(float(re.search(r"torch +total +([\d.]+)", report)[1]))
        memory.append(float(re.search(r"peak memory: ([\d.]+)", report)[1]))
    seconds = []
    for _ in range(REPEAT):
        table = run_dlc("run", *arguments).stdout
        rows = re.findall(r"([\d.]+) (µs|us|ms|s)$", table, re.MULTILINE)
        if "WRONG" in table or not rows:
            sys.exit(table)
        unit = {"µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1}
        value, name = rows[-1]
        seconds.append(float(value) * unit[name])
    return {
        "dlc_seconds": min(own),
        "torch_seconds": min(torch),
        "peak_mib": min(memory),
        "kernels": len(re.findall(r"^\S+ +\d+ +\d+ +\d+ +[\d.]+ \S+$", table, re.MULTILINE)),
        "host_seconds": min(seconds),
        "host_gflops": flops / min(seconds) / 1e9,
    }


def lines_of_python() -> int:
    return sum(len(path.read_text().splitlines()) for path in (ROOT / "dlc").rglob("*.py"))


def cells(name: str, row: dict[str, float]) -> list[str]:
    speed = f", {row['host_gflops']:.1f} GFLOP/s" if row["host_gflops"] > 1 else ""
    return [
        name,
        str(row["kernels"]),
        f"{row['dlc_seconds']:.2f} s",
        f"{row['torch_seconds']:.2f} s",
        f"{row['peak_mib']:.0f} MiB",
        f"{row['host_seconds'] * 1e3:.3g} ms{speed}",
    ]


def markdown(record: dict[str, Any]) -> str:
    """The table."""
    lines = [
        f"Measured {record['date']} on {record['machine']}; {lines_of_python()} lines of Python.",
        "",
        *markdown_table(HEADER, (cells(name, row) for name, row in record["examples"].items())),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    compileall.compile_dir(ROOT / "dlc", quiet=1)  # as a first use leaves it behind
    examples = {name: partial(measure, *given) for name, given in EXAMPLES.items()}
    update("examples", __doc__, examples, markdown, key="examples")
