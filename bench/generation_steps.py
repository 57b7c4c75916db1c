"""What `bench/generation.py` measures: the step of `dlc generate`, and the same by transformers."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from decoding import step_estimate
from generation_cases import WARM_STEPS, Case, How, timed, waits
from generation_peers import COMPILE, TEXTS, Peer
from torch import nn
from transformers import AutoConfig
from turns import Row, Turn

import dlc
from dlc.generation.generator import Generator, sizes_for
from dlc.generation.row_steps import Chunk, Rows
from dlc.judge.accuracy import compare
from dlc.models.load import ModelOptions, build, quiet
from dlc.models.weights import fill_random
from dlc_bench.ceilings import measure_ceilings
from dlc_bench.device import find_device
from dlc_bench.environment import forbid_tf32
from dlc_bench.measure import Plan

NEVER = [-1]
"""Tokens that end a text: none."""


def measure_case(turn: Turn, case: Case, how: How) -> None:
    """Sends what is found of dlc, and then of each peer; what a peer raises is its result."""
    forbid_tf32()
    row: Row = {}
    with torch.no_grad(), quiet():
        model = random_model(case, how)
        steps = DlcSteps(model, case, how)
        row |= steps.build()
        turn.send(row)
        known = turn.wait()
        if "copy_bandwidth" not in known:
            rates = measure_ceilings(find_device(how.backend), Plan(seconds=0.1))
            known = {"copy_bandwidth": rates.copy_bandwidth}
            turn.share(known)
        row |= known | attempt(steps.measure)
        if "step_us" in row:
            least = (row["weight_bytes"] + row["cache_bytes"]) / row["copy_bandwidth"]
            row["share"] = least * 1e6 / row["step_us"]
        turn.send(row)
        row |= {"choices": attempt(lambda: judge(model, steps.prompts, steps.found, how))}
        turn.send(row)
        row["peers"] = {}
        for wanted in how.peers:
            name = wanted.removesuffix(TEXTS)
            peer = Peer(model, case, how, name)
            found = row["peers"].setdefault(name, {})
            found |= attempt(peer.measure_steps)
            turn.send(row)
            if name != COMPILE or wanted.endswith(TEXTS):
                found |= attempt(lambda peer=peer: peer.measure_text(steps.prompts, steps.found))
                turn.send(row)


def attempt(find: Callable[[], Row]) -> Row:
    """What is found, or the error."""
    try:
        return find()
    except Exception as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        return {"error": f"{type(error).__name__}: {first}"}


def random_model(case: Case, how: How) -> Any:
    """The model with random weights, which are made where they are used."""
    config = AutoConfig.for_model(**case.config)
    model: Any = build(config, ModelOptions(dtype="bf16"))
    fill_random(model, 0, how.device)
    model.to(how.device)
    model.set_attn_implementation("sdpa")
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


class Logits(nn.Module):
    """The logits (rows, vocabulary) of the step that makes a token."""

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.rows = rows

    def forward(self) -> torch.Tensor:
        return self.rows.called(self.rows.position[:, None])[:, -1]


class DlcSteps:
    """A generator of dlc for a case; `found` are the tokens that it makes of `prompts`."""

    def __init__(self, model: Any, case: Case, how: How) -> None:
        self.model, self.case, self.how = model, case, how
        self.found: list[list[int]] = []
        drawn = torch.Generator().manual_seed(0)
        vocabulary = model.config.get_text_config().vocab_size
        shape = case.rows, case.prompt
        self.prompts = torch.randint(0, vocabulary, shape, generator=drawn).tolist()

    def build(self) -> Row:
        """Programs and their machine code; nothing is run."""
        case, rows = self.case, self.case.rows
        chunk = sizes_for(case.prompt, case.new, case.capacity, None).chunk
        self.generator = Generator(self.model, rows, case.capacity, ends=NEVER, chunk=chunk,
                                   backend=self.how.backend)  # fmt: skip
        self.programs = dict(self.generator.programs)
        begin = time.perf_counter()
        if case.prefill:
            reading = Chunk(self.generator.rows, case.prefill)
            self.programs["prefill"] = self.compiled(reading, (self.generator.start,))
        if self.how.logits:
            self.programs["logits"] = self.compiled(Logits(self.generator.rows), ())
        compiled = self.generator.times.compiling + time.perf_counter() - begin
        begin = time.perf_counter()
        for program in self.programs.values():
            program.variants[0].executor.prepare()
        made = time.perf_counter() - begin
        weights = sum(p.nbytes for n, p in self.model.named_parameters() if "embed_tokens" not in n)
        estimate = step_estimate(self.programs["token"].variants[0], case.config)
        return {
            "programs": len(self.programs),
            "compile_seconds": compiled,
            "machine_code_seconds": made,
            "weight_bytes": weights,
            "cache_bytes": sum(k.nbytes + v.nbytes for k, v in self.generator.rows.kept()),
            **{key: estimate[key] for key in ("estimate_us", "launches", "kernels")},
        }

    def compiled(self, module: nn.Module, given: tuple[torch.Tensor, ...]) -> dlc.CompiledProgram:
        on_gpu = self.how.backend == "cuda"
        return dlc.compile(module, given, backend=self.how.backend, graph=on_gpu)

    def measure(self) -> Row:
        """Times of steps, of a text, of a prompt; and the logits of a step."""
        generator, case = self.generator, self.case
        found = self.measure_steps()
        self.found = generator(self.prompts, case.new)  # what is done once is done
        begin = time.perf_counter()
        again = generator(self.prompts, case.new)
        found["text_us"] = (time.perf_counter() - begin) / case.new * 1e6
        found["repeats"] = again == self.found
        if case.prefill:
            longer = torch.randint(0, 100, (case.rows, case.prefill)).tolist()
            generator.rows.begin(longer, 1)
            read: Any = partial(self.programs["prefill"], generator.start.zero_())
            if self.how.backend == "cuda":
                read = self.programs["prefill"].replayed(generator.start).replay
            found["prefill_us"] = timed(read, 5, self.how.backend)["step_us"]
        if self.how.logits:
            found["logits"] = self.judged_logits()
        return found

    def measure_steps(self) -> Row:
        """The cache is full but for the steps that are made."""
        rows = self.generator.rows
        _, step = self.generator.calls()
        for kept in (tensor for pair in rows.kept() for tensor in pair):
            kept.normal_()
        rows.position.fill_(rows.capacity - 2 * self.case.steps - WARM_STEPS - 16)
        rows.last.fill_(rows.capacity)
        rows.done.zero_()
        found = timed(step, self.case.steps, self.how.backend)
        if self.how.backend == "cuda":
            found |= {"waits": waits(step)}
        return found

    def judged_logits(self) -> Row:
        """Those of the first step after the prompts, by the rule of accuracy, against fp32."""
        generator = self.generator
        generator(self.prompts, 1)
        generator.rows.position.fill_(self.case.prompt - 1)
        logits = self.programs["logits"]()
        tokens = torch.tensor(self.prompts, device=self.how.device)
        eager, exact = both(self.model, tokens, 1)
        judged = compare(logits, exact[:, -1], eager[:, -1])
        return {"ok": judged.ok, "error": judged.error, "eager_error": judged.eager_error,
                "bound": judged.bound}  # fmt: skip


def both(model: Any, tokens: torch.Tensor, last: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (rows, last, vocabulary) of the last tokens in eager: in bf16, and in fp32."""
    eager = model(tokens, use_cache=False, logits_to_keep=last).logits
    wider = {id(p): nn.Parameter(p.float(), requires_grad=False) for p in model.parameters()}
    wide = copy.deepcopy(model, wider)
    exact = wide(tokens, use_cache=False, logits_to_keep=last).logits
    return eager, exact


def judge(model: Any, prompts: list[list[int]], found: list[list[int]], how: How) -> Row:
    """
    Each token that was made, after all that come before it, by fp32's logits: how far it is below
    the likeliest one. Two logits that are each within the bound of accuracy may change places, so
    more than twice that is wrong. Shares of the largest logit.
    """
    texts = torch.tensor([a + b for a, b in zip(prompts, found, strict=True)], device=how.device)
    new = len(found[0])
    eager, exact = both(model, texts[:, :-1], new)
    chosen = texts[:, -new:, None]
    bound = compare(eager, exact.double(), eager).bound
    largest = exact.abs().max()
    below = (exact.amax(-1) - exact.gather(2, chosen)[..., 0]) / largest
    return {
        "tokens": below.numel(),
        "likeliest": int((below == 0).sum()),
        "wrong": int((below > 2 * bound).sum()),
        "furthest": float(below.max()),
        "bound": bound,
    }
