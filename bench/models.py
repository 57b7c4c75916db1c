"""
What it takes to compile models whole and by the layer: seconds, memory, kernels; and the memory
that they then run in, beside weights.

    python bench/models.py [--only REGEX]

Each compilation is a process of its own, up to CUDA text; no weights are in memory, and nvcc is
not run. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from static_rows import update

from dlc_bench.records import markdown_table, run_dlc

MODELS = ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "Qwen/Qwen2.5-7B")
GIVEN = ("--seq-len", "128", "--target", "sm_90")
PHASES = {
    "imports": r"import of (torch|transformers|dlc and xDSL|the frontend)",
    "export": r"the model's own code|torch\.export|import to Torch IR",
    "passes": r"passes to \w+ IR",
    "printing": r"printing",
}
"""What is reported, and the phases of `--timing` that it sums."""
MEMORY = {
    "workspace_mib": "workspace",
    "intermediates_mib": "tensors between kernels",
    "eager_mib": "eager PyTorch's peak, at least",
}
"""What is reported of the program's own memory, without weights, and the rows of `--explain`."""


def measure(arguments: list[str]) -> dict[str, float]:
    """Seconds per part, MiB, kernels printed and launches of one compilation."""
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory) / "kernels.cu"
        report = run_dlc("compile", *arguments, "--timing", "-o", str(text)).stderr
        kernels = text.read_text().count('extern "C" __global__')
        size = text.stat().st_size
    launches = run_dlc("compile", *arguments, "--ir", "kernel").stdout.count("host.launch ")
    account = run_dlc("compile", *arguments, "--explain").stdout
    phases = re.findall(r"^\S+ +(\S.*?) +([\d.]+)$", report, re.MULTILINE)
    seconds = {
        name: sum(float(value) for phase, value in phases if re.fullmatch(pattern, phase))
        for name, pattern in PHASES.items()
    }
    peak = re.search(r"peak memory: ([\d.]+)", report)
    assert peak is not None
    return {
        **seconds,
        "total": sum(seconds.values()),
        "peak_mib": float(peak[1]),
        "kernels": kernels,
        "launches": launches,
        "text_kib": size / 1024,
        **{name: _bytes(account, row) / 2**20 for name, row in MEMORY.items()},
    }


def _bytes(account: str, row: str) -> int:
    """What a row of the table of memory in `--explain` says."""
    found = re.search(rf"^{re.escape(row)} +(\d+)$", account, re.MULTILINE)
    assert found is not None, row
    return int(found[1])


def table(record: dict[str, Any]) -> str:
    header = ("model", "kernels", "launches", *PHASES, "in all", "peak", "workspace", "of tensors",
              "eager's peak")  # fmt: skip
    lines = [
        f"Measured {record['date']} on {record['machine']}; 128 tokens, sm_90.",
        "",
        *markdown_table(header, (cells(name, row) for name, row in record["models"].items())),
    ]
    return "\n".join(lines) + "\n"


def cells(name: str, row: dict[str, float]) -> list[str]:
    return [
        name,
        *(f"{row[key]:.0f}" for key in ("kernels", "launches")),
        *(f"{row[key]:.2f} s" for key in (*PHASES, "total")),
        *(f"{row[key]:.0f} MiB" for key in ("peak_mib", *MEMORY)),
    ]


if __name__ == "__main__":
    models = {
        f"{model.split('/')[1]}, {part}": partial(measure, [model, *flags, *GIVEN])
        for model in MODELS
        for part, flags in (("one layer", ["--layer", "0"]), ("whole", []))
    }
    update("models", __doc__, models, table, key="models")
