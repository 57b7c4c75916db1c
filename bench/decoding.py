"""
What a token takes of language models that generate, by the estimate.

    python bench/decoding.py [--only REGEX]

The program of a token of `dlc generate`, of bf16 and without data, for sm_90: all layers, the
choice of the token, and the test whether a row is done, with a cache that is full. Launches are
those of the compiled program; where several kernels run in one, each waits by itself, and all of
them for what the chip does. What bounds it is the bandwidth of memory: weights and cache, each
once. Overlapped is the same where kernels begin before the ones ahead of them end, as those of
`dlc generate --overlap`; what this hides by the estimate an H200 does not show (bench/NOTES.md).
Writes JSON and a Markdown table.
"""

from __future__ import annotations

import gc
from collections import Counter
from functools import partial
from pathlib import Path

import torch
from kernel_rows import Row, costs_by_value, loop_kernels, saved_seconds
from static_rows import update
from transformers import AutoConfig, AutoModelForCausalLM
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dlc.compiler import Variant
from dlc.dialects.host import LaunchOp
from dlc.dialects.kernel_grids import PrefetchOp
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.layouts import span_bytes
from dlc.frontend.export.fx import import_program
from dlc.generation.generator import by_row
from dlc.generation.row_steps import Rows, Token
from dlc.generation.sampling import Sampling
from dlc.stages import Stages, compiler_context
from dlc.target import TARGETS, set_target, target_of
from dlc.transforms.kernel.overlap_launches import OverlapLaunchesPass
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc_bench.records import markdown_table

ROOT = Path(__file__).resolve().parent.parent
TARGET = "sm_90"
MODELS = {
    "TinyLlama": "TinyLlama--TinyLlama-1.1B-Chat-v1.0.json",
    "Qwen2.5-7B": "Qwen--Qwen2.5-7B.json",
}
CASES = (("TinyLlama", 1, 2048), ("TinyLlama", 8, 2048), ("TinyLlama", 64, 2048),
         ("Qwen2.5-7B", 1, 2048), ("Qwen2.5-7B", 64, 2048))  # fmt: skip
"""A model, rows of a batch, and tokens that the cache holds of each."""
HEADER = ("model", "rows", "tokens", "launches", "of a layer", "estimate", "weights", "cache",
          "bandwidth used", "overlapped", "bandwidth used")  # fmt: skip


def measure(name: str, rows: int, capacity: int) -> Row:
    """Launches, the estimate in us, and bytes of a step."""
    config = AutoConfig.from_pretrained(ROOT / "dlc" / "models" / "configs" / MODELS[name])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        step = Token(Rows(by_row(model.requires_grad_(False)), rows, capacity, [2]), Sampling())
    weights = sum(p.nbytes for n, p in model.named_parameters() if "embed_tokens" not in n)
    cache = sum(k.nbytes + v.nbytes for k, v in step.rows.kept())
    gc.freeze()
    module = import_program(step, (), whole=DECOMPOSITIONS).module
    set_target(module, TARGET)
    row = step_estimate(Stages(module), config.to_dict())
    least = (weights + cache) / TARGETS[TARGET].memory_bandwidth * 1e6
    shares = {"share": least / row["estimate_us"], "overlapped_share": least / row["overlapped_us"]}
    return {**row, "weight_bytes": weights, "cache_bytes": cache, **shares}


def step_estimate(program: Stages | Variant, config: Row) -> Row:
    """Kernels, launches and the estimate in us of the program of a token."""
    loops, compiled = program.module("loop"), program.module("kernel")
    kernels = loop_kernels(loops)
    launched = Counter(op.kernel_name for op in compiled.walk() if isinstance(op, LaunchOp))
    launches, layers = launched.total(), config["num_hidden_layers"]
    often = [times for times in launched.values() if times >= layers - 1]
    estimated = sum(kernel["estimate_us"] for kernel in kernels)
    estimated -= saved_seconds(costs_by_value(loops), compiled) * 1e6
    return {
        "kernels": kernels,
        "launched": dict(launched),
        "launches": launches,
        "launches_of_a_layer": round(sum(often) / layers),
        "estimate_us": estimated,
        "overlapped_us": estimated - hidden_seconds(compiled) * 1e6,
    }


def hidden_seconds(compiled: ModuleOp) -> float:
    """What `overlap-launches` hides of launches, and of the start of kernels that read weights."""
    module, target = compiled.clone(), target_of(compiled)
    OverlapLaunchesPass().apply(compiler_context(), module)
    hidden = 0.0
    for op in list(module.walk()):
        if isinstance(op, LaunchOp) and op.callee is not None:
            asked = [one.ref for one in op.callee.body.block.ops if isinstance(one, PrefetchOp)]
            early, all_of_it = (sum(map(_bytes, refs)) for refs in (asked, op.callee.refs))
            start = target.start_seconds if 2 * early > all_of_it else 0
            hidden += target.launch_seconds + start - target.waiting_seconds
    return hidden


def _bytes(ref: SSAValue) -> int:
    return span_bytes(memref_of(ref))


def cells(name: str, row: Row) -> list[str]:
    return [
        *name.split(" "),
        str(row["launches"]),
        str(row["launches_of_a_layer"]),
        f"{row['estimate_us'] / 1e3:.2f} ms",
        f"{row['weight_bytes'] / 1e9:.2f} GB",
        f"{row['cache_bytes'] / 1e9:.2f} GB",
        f"{row['share']:.0%}",
        f"{row['overlapped_us'] / 1e3:.2f} ms",
        f"{row['overlapped_share']:.0%}",
    ]


def markdown(record: Row) -> str:
    """The table."""
    lines = [
        f"Estimated {record['date']} for {TARGET}, bf16: one token of each row, the cache full. "
        "The least is the time of weights and cache at the bandwidth of memory, "
        f"{TARGETS[TARGET].memory_bandwidth / 1e12:.2f} TB/s. Overlapped: by `overlap-launches`, "
        "as `dlc generate --overlap` compiles.",
        "",
        *markdown_table(HEADER, (cells(name, row) for name, row in record["steps"].items())),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    steps = {" ".join(map(str, case)): partial(measure, *case) for case in CASES}
    update("decoding", __doc__, steps, markdown, key="steps")
