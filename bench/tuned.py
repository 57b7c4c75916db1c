"""
What `dlc tune` prints for six programs, by nvcc's machine code and by the clock of the host.

    python bench/tuned.py [--only REGEX] [--objectives static host] [-o bench/results/tuned]

Writes the commands and their outputs as Markdown, and the gain of each kernel as JSON beside it;
with --only, what stands there of other programs stays. The database is one of its own, in a
temporary folder.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dlc_bench.records import markdown_table, run_dlc, where_and_when, write_record

RESULTS = Path(__file__).parent / "results" / "tuned"
PROGRAMS: dict[str, list[str]] = {
    "RMSNorm": ["-c", "torch.nn.RMSNorm(2048)(torch.randn(32, 2048))"],
    "softmax": ["-c", "torch.randn(64, 1024).softmax(-1)"],
    "GEMM": ["-c", "torch.randn(128, 256) @ torch.randn(256, 192)"],
    "split GEMM": ["-c", "torch.randn(16, 2048) @ torch.randn(2048, 32)"],
    "attention": [
        "-c",
        "F.scaled_dot_product_attention(torch.randn(1, 4, 64, 32), torch.randn(1, 4, 64, 32), "
        "torch.randn(1, 4, 64, 32))",
    ],
    "TinyLlama layer": [
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        *("--block", "--seq-len", "32", "--random-weights"),
    ],
}
BUDGET = {"static": "12", "host": "20"}
"""Candidates of a kernel."""
LAYER_BUDGET = "5"
"""Of the kernels of a layer: there are a dozen."""
BETTER = re.compile(r"^(\w+): .* us, the default .* us \(([\d.]+) times as fast\)", re.MULTILINE)
SAME = re.compile(r"^(\w+): the default schedule is the best", re.MULTILINE)


def command(name: str, objective: str) -> list[str]:
    """The arguments of `dlc`."""
    budget = LAYER_BUDGET if "layer" in name else BUDGET[objective]
    given = ["--target", "sm_90", "--objective", objective, "--budget", budget]
    return ["tune", *PROGRAMS[name], *given]


def tuned(name: str, objective: str) -> dict[str, Any]:
    """What the command prints, and the gain of each kernel."""
    arguments = command(name, objective)
    with TemporaryDirectory() as folder:
        printed = run_dlc(*arguments, "--db", f"{folder}/tuned.sqlite").stdout
    gains = dict.fromkeys(SAME.findall(printed), 1.0)
    gains |= {kernel: float(gain) for kernel, gain in BETTER.findall(printed)}
    return {"command": shlex.join(["dlc", *arguments]), "printed": printed.strip(), "gains": gains}


def text(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    rows = [
        [name, objective, kernel, f"{gain:.2f}"]
        for key, found in record["programs"].items()
        for name, objective in [key.split(", by ")]
        for kernel, gain in found["gains"].items()
    ]
    lines = [
        "# Tuned schedules",
        "",
        f"`python bench/tuned.py`, {record['date']}, {record['machine']}. `static` is predicted of "
        "the machine code for sm_90, `host` is measured; neither is a measurement of a GPU.",
        "",
        *markdown_table(("program", "objective", "kernel", "times as fast as the default"), rows),
    ]
    for key, found in record["programs"].items():
        lines += ["", f"## {key}", "", "```", f"$ {found['command']}", found["printed"], "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="of names of programs")
    parser.add_argument("--objectives", nargs="+", choices=list(BUDGET), default=list(BUDGET))
    parser.add_argument("-o", type=Path, default=RESULTS, help="where to, without a suffix")
    options = parser.parse_args()
    before = options.o.with_suffix(".json")
    kept = json.loads(before.read_text())["programs"] if options.only and before.exists() else {}
    record: dict[str, Any] = {**where_and_when(), "programs": kept}
    for objective in options.objectives:
        for name in PROGRAMS:
            if re.search(options.only, name):
                record["programs"][f"{name}, by {objective}"] = tuned(name, objective)
                write_record(options.o, record, text(record))


if __name__ == "__main__":
    main()
