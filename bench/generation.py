"""
Tokens of `dlc generate` on a GPU, beside transformers' eager and compiled ones.

    python bench/generation.py [--only REGEX] [--budget 5m] [--peers eager,dynamic,compile]
                               [--layers N] [--logits] [--output bench/results/generation]
    python bench/generation.py --rehearse                 # in small, on the host backend

Models have random weights in bf16 and all their layers, or the first N. All cases are compiled side
by side, each in a process of its own; then they are measured one after the other, dlc and its peers
in one process. `eager` has a static cache, `dynamic` the default one, `compile` is torch.compile in
the mode reduce-overhead, as transformers has it for a static cache; `compile.text` also times its
`model.generate`, which compiles anew. JSON and a Markdown table are written after each row.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from decoding import MODELS
from generation_cases import Case, How
from generation_peers import COMPILE, DYNAMIC, EAGER, TEXTS
from generation_steps import measure_case
from suite import parse_budget
from turns import Job, Row, run

from dlc_bench.device import find_device
from dlc_bench.environment import environment, forbid_tf32
from dlc_bench.records import markdown_table, write_record

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "dlc" / "models" / "configs"
CAPACITY = 2048
CASES = (("TinyLlama", 1), ("TinyLlama", 64), ("Qwen2.5-7B", 1), ("TinyLlama", 8))
"""Models and rows of a batch, the most important ones first."""
PREFILL = 512
TINY = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
HEADER = ("case", "launches", "estimate", "dlc", "of the copy's rate", "host", "a token of a text",
          "prefill by dlc, peers", *(f"{peer}: step, text" for peer in (EAGER, DYNAMIC, COMPILE)),
          "equal tokens", "likeliest by fp32", "compiled in")  # fmt: skip


def shortened(config: Row, layers: int | None) -> Row:
    """A configuration with the first layers only."""
    if layers is None:
        return config
    kinds = {"layer_types": config["layer_types"][:layers]} if "layer_types" in config else {}
    return config | kinds | {"num_hidden_layers": layers}


def configurations(options: argparse.Namespace) -> dict[str, Row]:
    if options.rehearse:
        return {"tiny": TINY}
    return {name: json.loads((CONFIGS / file).read_text()) for name, file in MODELS.items()}


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """What is measured, most important first."""
    configs = configurations(options)
    if options.rehearse:
        yield Case("tiny", TINY, 2, 64, prompt=8, new=4, prefill=16, steps=2)
        return
    for model, rows in CASES:
        case = Case(model, shortened(configs[model], options.layers), rows, CAPACITY,
                    prefill=PREFILL if rows == 1 else 0)  # fmt: skip
        if re.search(options.only, case.name):
            yield case


def microseconds(value: float | None) -> str:
    """As a cell has it."""
    if value is None:
        return "-"
    return f"{value / 1e3:.2f} ms" if value >= 1e3 else f"{value:.0f} us"


def cells(name: str, row: Row) -> list[str]:
    if "step_us" not in row:
        return [name, row.get("error", "compiled"), *[""] * (len(HEADER) - 2)]
    peers: dict[str, Row] = row.get("peers", {})
    equal = [f"{p['equal_tokens']['mean']:.0f}" for p in peers.values() if "equal_tokens" in p]
    choices: Row = row.get("choices", {})
    judged = choices.get("error", "")
    if "tokens" in choices:
        judged = f"{choices['likeliest']} of {choices['tokens']}, {choices['wrong']} wrong"
    return [
        name,
        str(row["launches"]),
        microseconds(row["estimate_us"]),
        microseconds(row["step_us"]) + (f", {row['error']}" if "error" in row else ""),
        f"{row['share']:.0%}",
        microseconds(row.get("host_us")),
        microseconds(row.get("text_us")),
        ", ".join(
            microseconds(of["prefill_us"]) for of in (row, *peers.values()) if "prefill_us" in of
        ),
        *(_peer(peers.get(peer)) for peer in (EAGER, DYNAMIC, COMPILE)),
        ", ".join(equal),
        judged,
        f"{row['compile_seconds']:.0f} + {row['machine_code_seconds']:.0f} s",
    ]


def _peer(row: Row | None) -> str:
    if not row:
        return "-"
    times = f"{microseconds(row.get('step_us'))}, {microseconds(row.get('text_us'))}"
    return times + (f": {row['error']}" if "error" in row else "")


def say(name: str, shown: list[str]) -> None:
    pairs = zip(HEADER[1:], shown[1:], strict=True)
    print(f"{name}: " + "; ".join(f"{key} {cell}" for key, cell in pairs if cell), flush=True)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--only", default="", help="a pattern of cases' names: TinyLlama b64")
    parser.add_argument("--budget", type=parse_budget, default=parse_budget("8m"))
    parser.add_argument(
        "--peers", default=f"{EAGER},{DYNAMIC}", help="what dlc is beside, by commas"
    )
    parser.add_argument("--layers", type=int, help="the first ones only")
    parser.add_argument("--logits", action="store_true", help="judge those of the first step")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--rehearse", action="store_true", help="in small, on the host backend")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "generation")
    return parser


def jobs_of(options: argparse.Namespace) -> list[Job]:
    if options.rehearse:
        options.backend = "host"
    peers = tuple(filter(None, options.peers.split(",")))
    allowed = (EAGER, DYNAMIC, COMPILE)
    if wrong := [p for p in peers if p.removesuffix(TEXTS) not in allowed]:
        raise SystemExit(f"expected peers among {', '.join(allowed)}, found {', '.join(wrong)}")
    how = How(options.backend, peers, options.logits)
    return [Job(case.name, measure_case, (case, how)) for case in cases(options)]


def main(argv: list[str] | None = None) -> None:
    options = make_parser().parse_args(argv)
    deadline = time.monotonic() + options.budget
    begin = time.monotonic()
    jobs = jobs_of(options)
    forbid_tf32()
    where = environment(find_device(options.backend))
    rows: dict[str, Row] = {}
    layers = f", {options.layers} layers" if options.layers else ""

    def on_row(name: str, row: Row) -> None:
        rows[name] = rows.get(name, {}) | row
        print(f"{time.monotonic() - begin:.0f} s ", end="")
        say(name, cells(name, rows[name]))
        ordered = [(job.name, rows[job.name]) for job in jobs if job.name in rows]
        text = [
            f"Measured {where['date']} on {where['device']}, PyTorch {where['torch']}: a token of "
            f"each row, the cache full{layers}.",
            "",
            *markdown_table(HEADER, [cells(*each) for each in ordered]),
        ]
        record = {**where, "layers": options.layers, "rows": dict(ordered)}
        write_record(options.output, record, "\n".join(text) + "\n", quiet=True)

    run(jobs, deadline, on_row)
    print(options.output.with_suffix(".md").read_text() if rows else "no case", end="")


if __name__ == "__main__":
    main()
