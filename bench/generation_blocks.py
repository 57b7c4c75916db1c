"""One decoder layer on a prompt, by dlc and by PyTorch: `bench/generation.py --block`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from generation_cases import How
from jobs import as_json
from kernel_rows import loop_kernels
from transformers import AutoConfig
from turns import Row, Turn

import dlc
from dlc.models.load import ModelOptions, build, inputs_of, program_of, quiet
from dlc.models.weights import fill_random
from dlc_bench.contender import COMPILE, DLC, PEERS, Contender, dlc_module
from dlc_bench.device import find_device
from dlc_bench.environment import forbid_tf32
from dlc_bench.measure import Plan, measure
from dlc_bench.program import program_subject
from dlc_bench.subject import Subject

PLAN = Plan(warm_up_seconds=0.05, seconds=0.2)
BLOCK_HEADER = ("block", "launches", "estimate", "roofline", DLC, "eager", COMPILE,
                "error: bound", "compiled in")  # fmt: skip


@dataclass(frozen=True)
class Block:
    """The first decoder layer of a model, on a prompt."""

    model: str
    config: dict[str, Any]
    dtype: str
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.model} {self.dtype} s{self.tokens}"


def measure_block(turn: Turn, block: Block, how: How) -> None:
    """Sends what is found of dlc and of its peers, all of which are compiled before they wait."""
    forbid_tf32()
    with torch.no_grad(), quiet():
        config = AutoConfig.for_model(**block.config)
        given = ModelOptions(layer=0, seq_len=block.tokens, dtype=block.dtype)
        layer = program_of(build(config, given), given)
        inputs = [x.to(how.device) for x in inputs_of(layer, config, given)]
        (model,) = layer.called
        fill_random(model, 0, how.device)
        model.to(how.device)
        begin = time.perf_counter()
        variant = dlc.compile(layer, inputs, backend=how.backend).variant(inputs)
        compiled = time.perf_counter() - begin
        variant.executor.prepare()
        made = time.perf_counter() - begin - compiled
        bound = variant.program.bind(inputs, {})
        subject = program_subject(variant.program, variant.program.module, bound)
        contenders = [dlc_module(variant.executor, variant.finish), *_peers(subject, how.peers)]
        turn.wait()
        device = find_device(how.backend)
        longest = variant.longest_reduction if how.backend == "host" else 1
        results = measure(subject, contenders, device, PLAN, longest_reduction=longest)
        turn.send({
            "estimate_us": sum(k["estimate_us"] for k in loop_kernels(variant.module("loop"))),
            "roofline_us": device.limits.roofline(subject.work) * 1e6,
            "compile_seconds": compiled,
            "machine_code_seconds": made,
            "contenders": {name: as_json(result) for name, result in results.items()},
        })  # fmt: skip


def _peers(subject: Subject, names: Sequence[str]) -> list[Contender]:
    """Made now, while others compile, too; what that raises they raise again when measured."""
    found = []
    for name in names:
        contender = PEERS[name]()
        try:
            call = contender.make(subject, lambda step, seconds: None)
        except Exception:
            found.append(contender)
        else:
            found.append(Contender(name, lambda s, r, call=call: call))
    return found


def block_cells(name: str, row: Row) -> list[str]:
    """A line of the table."""
    if "contenders" not in row:
        return [name, row.get("error", "compiled"), *[""] * (len(BLOCK_HEADER) - 2)]
    mine = row["contenders"][DLC]
    accuracy = mine["accuracy"]
    return [
        name,
        str(mine["launches"]),
        f"{row['estimate_us']:.1f} us",
        f"{row['roofline_us']:.1f} us",
        *(_time(row["contenders"].get(who)) for who in (DLC, "eager", COMPILE)),
        f"{accuracy['error']:.2g}: {accuracy['bound']:.2g}" if accuracy else "-",
        f"{row['compile_seconds']:.0f} + {row['machine_code_seconds']:.0f} s",
    ]


def _time(result: Row | None) -> str:
    if result is None:
        return "-"
    if result["error"]:
        return str(result["error"]).splitlines()[0][:120]
    return f"{(result['cold_us'] or result['warm_us'])[0]:.1f} us"
