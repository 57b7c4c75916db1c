"""The steps and texts of transformers, for `bench/generation.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from generation_cases import Case, How, timed
from transformers import CompileConfig, DynamicCache, StaticCache
from turns import Row

from dlc.generation.row_steps import cache_argument

EAGER, DYNAMIC, COMPILE = "eager", "dynamic", "compile"
TEXTS = ".text"
"""What follows a peer's name where its `generate` is measured, too; torch.compile compiles anew."""
PIECE = 512
"""Tokens that fill a cache at once."""


class Peer:
    """transformers on the same model: with a static or a dynamic cache, or compiled."""

    def __init__(self, model: Any, case: Case, how: How, name: str) -> None:
        self.model, self.case, self.how, self.name = model, case, how, name
        self.argument = cache_argument(model)

    def cache(self) -> Any:
        if self.name == DYNAMIC:
            return DynamicCache(config=self.model.config)
        return StaticCache(config=self.model.config, max_cache_len=self.case.capacity)

    def called(self, call: Callable[..., Any], tokens: torch.Tensor, at: Any, cache: Any) -> Any:
        given = {self.argument: cache, "position_ids": at, "use_cache": True}
        return call(input_ids=tokens, logits_to_keep=1, **given).logits[:, -1]

    def measure_steps(self) -> Row:
        """
        Steps in a loop that waits for nothing: the forward and the likeliest token. A static cache
        is gone through whole at any step; a dynamic one is filled.
        """
        case, device = self.case, self.how.device
        cache, call = self.cache(), self.model
        wanted = case.prompt if self.name != DYNAMIC else case.capacity - 2 * case.steps - 16
        for first in range(0, wanted, PIECE):
            length = min(PIECE, wanted - first)
            piece = torch.randint(0, 100, (case.rows, length), device=device)
            at = torch.arange(first, first + length, device=device).expand(case.rows, -1)
            self.called(self.model, piece, at, cache)
        found: Row = {}
        if case.prefill and self.name != COMPILE:
            found["prefill_us"] = self.prefill_us()
        token = torch.zeros(case.rows, 1, dtype=torch.int64, device=device)
        place = torch.full((case.rows, 1), wanted, device=device)
        begin = time.perf_counter()
        if self.name == COMPILE:
            call = self.model.get_compiled_call(CompileConfig(mode="reduce-overhead"))

        def step() -> None:
            token.copy_(self.called(call, token, place, cache).argmax(-1, keepdim=True))
            place.add_(1)

        for _ in range(3):
            step()
        found["make_seconds"] = time.perf_counter() - begin
        return found | timed(step, min(case.steps, 20), self.how.backend)

    def prefill_us(self) -> float:
        """A prompt into an empty cache."""
        case, device = self.case, self.how.device
        prompt = torch.randint(0, 100, (case.rows, case.prefill), device=device)
        at = torch.arange(case.prefill, device=device).expand(case.rows, -1)
        cache = self.cache()

        def read() -> None:
            cache.reset()
            self.called(self.model, prompt, at, cache if self.name != DYNAMIC else self.cache())

        return timed(read, 5, self.how.backend)["step_us"]

    def measure_text(self, prompts: list[list[int]], dlc_tokens: list[list[int]]) -> Row:
        """`model.generate`, the second time, and how much of its text is dlc's, too."""
        case = self.case
        tokens = torch.tensor(prompts, device=self.how.device)
        given: dict[str, Any] = {"attention_mask": torch.ones_like(tokens), "do_sample": False,
                                 "max_new_tokens": case.new}  # fmt: skip
        cache = None if self.name == DYNAMIC else self.cache()
        if cache is not None:
            given |= {self.argument: cache, "disable_compile": self.name != COMPILE}
        first = self.model.generate(tokens, **given)
        if cache is not None:
            cache.reset()
        begin = time.perf_counter()
        found = self.model.generate(tokens, **given)[:, case.prompt :].tolist()
        took = time.perf_counter() - begin
        equal = [equal_prefix(a, b) for a, b in zip(found, dlc_tokens, strict=False)]
        return {
            "text_us": took / case.new * 1e6,
            "repeats": first[:, case.prompt :].tolist() == found,
            "equal_tokens": {"least": min(equal), "mean": statistics.mean(equal)},
        }


def equal_prefix(a: list[int], b: list[int]) -> int:
    """Tokens from the beginning that are the same."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(b))
