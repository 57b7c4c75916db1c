"""`dlc generate`: prompts from the command line, text as it comes, and what it took."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlc.backend.executor import default_backend
from dlc.cli.option_rules import check_names
from dlc.cli.status_line import progress
from dlc.diagnostics import UsageError
from dlc.frontend.source import ImportFailure
from dlc.generation.generator import (
    Generator,
    check_prompts,
    limit_of,
    sizes_for,
    vocabulary_of,
)
from dlc.generation.sampling import Sampling
from dlc.models.find import Found, find
from dlc.models.load import ModelOptions, load_model
from dlc.models.tokenizer import ends_in, tokenizer_of
from dlc.models.weights import bytes_of
from dlc.text import table

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def generate_and_report(options: argparse.Namespace) -> int:
    """Writes what follows the prompts; errors as of `find`, `load_model` and `Generator`."""
    check_names(options)
    sampling = Sampling(
        options.temperature, options.top_k, options.top_p, options.min_p, options.seed
    )
    found = find(options.file)
    tokenizer = None if options.tokens else tokenizer_of(found)
    texts = prompts_of(options)
    prompts = [numbers_of(text, tokenizer) for text in texts]
    with progress("loading the model …"):
        model = _model(found, options)
    new, longest = options.max_new_tokens, max(map(len, prompts))
    room = sizes_for(longest, new, options.cache, limit_of(model))
    check_prompts(prompts, len(prompts), room.capacity, new, vocabulary_of(model))
    with progress("compiling …"):
        generator = Generator(
            model,
            len(prompts),
            room.capacity,
            sampling=sampling,
            ends=ends_in(found),
            chunk=room.chunk,
            target=options.target,
            backend=options.backend,
            overlap=options.overlap,
            one_launch=options.one_launch,
        )
    written = [Written(prompt, tokenizer) for prompt in prompts]
    alone = len(prompts) == 1
    for grown in generator.stream(prompts, new):
        text = written[grown.row].text_of(grown.tokens, last=grown.is_done)
        if alone:
            print(text, end="\n" if grown.is_done else "", flush=True)
        elif grown.is_done:
            print(f"[{grown.row}] {written[grown.row].whole}", flush=True)
    if options.stats:
        print(_stats(generator, model, prompts), file=sys.stderr)
    return 0


def prompts_of(options: argparse.Namespace) -> list[str]:
    """As they are given: text, or numbers."""
    if options.batch_file is None:
        return list(options.prompt or options.tokens)
    try:
        lines = Path(options.batch_file).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read '{options.batch_file}': {error}") from None
    if not (prompts := [line for line in lines if line.strip()]):
        raise UsageError(f"expected a prompt a line in '{options.batch_file}', found none")
    return prompts


def numbers_of(prompt: str, tokenizer: Any) -> list[int]:
    """The tokens of a prompt: of its text, or as they stand there."""
    if tokenizer is not None:
        given: list[int] = tokenizer(prompt)["input_ids"]
        if given and given[-1] == tokenizer.eos_token_id and len(given) > 1:
            given.pop()  # some tokenizers end every text
        return given or [tokenizer.bos_token_id or 0]
    try:
        return [int(word) for word in prompt.split(",")]
    except ValueError:
        raise UsageError(f"expected numbers of tokens such as 1,15043, found '{prompt}'") from None


class Written:
    """The text of a row: the prompt, then what follows it."""

    def __init__(self, prompt: Sequence[int], tokenizer: Any) -> None:
        self.tokens, self.tokenizer = list(prompt), tokenizer
        self.said = 0
        """Characters of it that have been given."""

    @property
    def whole(self) -> str:
        if self.tokenizer is None:
            return ",".join(map(str, self.tokens))
        text: str = self.tokenizer.decode(self.tokens, skip_special_tokens=True)
        return text

    def text_of(self, tokens: Sequence[int], *, last: bool) -> str:
        """What new tokens add to the text; a character is held back until all of it is there."""
        self.tokens += tokens
        whole = self.whole
        if not last and whole.endswith(REPLACEMENT):
            return ""
        new, self.said = whole[self.said :], len(whole)
        return new


def _model(found: Found, options: argparse.Namespace) -> Any:
    given = ModelOptions(
        dtype=options.dtype, weights=True, random_weights=options.random_weights, seed=options.seed
    )
    program, _ = load_model(found, given)
    from dlc.models.programs import CausalLM

    if not isinstance(program, CausalLM):
        raise ImportFailure(f"expected a causal language model, found that '{found.name}' is none")
    (model,) = program.called
    return model.to("cuda") if (options.backend or default_backend()) == "cuda" else model


def _stats(generator: Generator, model: Any, prompts: Sequence[Sequence[int]]) -> str:
    times, token = generator.times, generator.programs["token"]
    kept = sum(k.nbytes + v.nbytes for k, v in generator.rows.kept())
    each = times.making / max(times.steps, 1)
    rows = [
        ("compilation", f"{times.compiling:.1f} s"),
        ("prompts", f"{sum(map(len, prompts))} tokens in {times.reading * 1e3:.0f} ms"),
        ("new tokens", f"{times.tokens}, {times.tokens / max(times.making, 1e-9):.1f} a second"),
        ("a step", f"{each * 1e3:.2f} ms, {len(token.kernels)} launches"),
        ("weights", f"{bytes_of(model) / 2**20:.1f} MiB"),
        ("keys and values", f"{kept / 2**20:.1f} MiB for {generator.rows.capacity} tokens a row"),
    ]
    return "\n" + table(("what", "how much"), rows)
