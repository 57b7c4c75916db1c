"""`dlc.generate`: prompts go in as token numbers, and come out with what follows."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from dlc.backend.executor import BackendLike, get_backend
from dlc.compiler import CompiledProgram, compile
from dlc.cuda_graph import has_graphs
from dlc.diagnostics import UsageError
from dlc.frontend.source import ImportFailure
from dlc.generation.looks import Look, Looks, Seen
from dlc.generation.row_steps import Chunk, Rows, Token
from dlc.generation.sampling import Sampling

MOST_OF_A_CHUNK = 512
LEAST_CAPACITY = 64
AHEAD = 8
"""Steps on a GPU between looks at what they have made; on the host it is looked at each time."""


@dataclass
class Times:
    """What a generation took so far, in seconds, compilation left out."""

    compiling: float = 0.0
    reading: float = 0.0
    """Of the prompts."""
    making: float = 0.0
    """Of the tokens."""
    steps: int = 0
    tokens: int = 0
    """That were made, of all rows."""


class Grown(NamedTuple):
    """What a row got at a look: its number, the new tokens, and True if these are the last."""

    row: int
    tokens: list[int]
    is_done: bool


class Generator:
    """
    A model compiled for batches of `rows` prompts of up to `capacity` tokens, with what follows.

    `model` is a causal LM of transformers in eval mode, whose weights are shared, and which stays
    as it is. Two programs are compiled: one for a chunk of all prompts, of `chunk` tokens, and one
    for a token of each row; lengths are data. A row ends at one of the tokens `ends` (default:
    those of the model's configuration). With `overlap` kernels begin before the ones ahead of them
    end, as those of `dlc.compile`: on an H200 a token of 1, 8 and 64 rows took 1.06, 1.03 and 1.15
    times as long so. With `one_launch` no second kernel folds what up to 64 blocks
    share, as there.
    """

    def __init__(
        self,
        model: nn.Module,
        rows: int = 1,
        capacity: int = 512,
        *,
        sampling: Sampling | None = None,
        ends: Sequence[int] | None = None,
        chunk: int = 64,
        target: str | None = None,
        backend: BackendLike = None,
        overlap: bool = False,
        one_launch: bool = False,
    ) -> None:
        self.times = Times()
        begin = time.perf_counter()
        chunk = min(chunk, MOST_OF_A_CHUNK, power_from(capacity))
        own = by_row(model)
        if (limit := limit_of(own)) is not None and capacity > limit:
            raise UsageError(
                f"expected at most {limit} tokens, which the model is made for, found {capacity}"
            )
        with torch.no_grad():
            padded = -(-capacity // chunk) * chunk
            self.rows = Rows(own, rows, padded, ends_of(own) if ends is None else ends)
            self.capacity, self.chunk = capacity, chunk
            place, device = get_backend(backend), self.rows.tokens.device
            self.graphed = device == place.device and has_graphs(place)
            given: dict[str, Any] = {
                "target": target, "backend": place, "graph": self.graphed,
                "overlap": overlap, "one_launch": one_launch,
            }  # fmt: skip
            self.start = torch.zeros((), dtype=torch.int64, device=device)
            self._read = compile(Chunk(self.rows, chunk), (self.start,), **given)
            self._make = compile(Token(self.rows, sampling or Sampling()), (), **given)
        self.ahead = AHEAD if self.graphed else 1
        self.times.compiling = time.perf_counter() - begin

    @property
    def programs(self) -> dict[str, CompiledProgram]:
        """The compiled programs: of a chunk, and of a token."""
        return {"chunk": self._read, "token": self._make}

    @torch.no_grad()
    def calls(self) -> tuple[Callable[[int], object], Callable[[], object]]:
        """
        What reads a chunk that begins at a token, and what makes a token of each row. On a GPU they
        replay graphs for the model's weights as they lie now, and look at nothing else.
        """
        if not self.graphed:
            return lambda start: self._read(self.start.fill_(start)), self._make
        reading, making = self._read.replayed(self.start), self._make.replayed()
        (first,) = reading.inputs.values()

        def read(start: int) -> None:
            first.fill_(start)
            reading.replay()

        return read, making.replay

    def stream(self, prompts: Sequence[Sequence[int]], new: int) -> Iterator[Grown]:
        """
        Up to `new` tokens for each of as many prompts as there are rows, or fewer, as they are
        made. UsageError for prompts that are empty, too many or too long.
        """
        rows = self.rows
        check_prompts(prompts, rows.tokens.shape[0], self.capacity, new, vocabulary_of(rows.model))
        self.times = Times(self.times.compiling)
        begin = time.perf_counter()
        make = self._read_prompts(prompts, new)
        ended = [new == 0 for _ in prompts]
        self.times.reading = time.perf_counter() - begin
        for row in range(len(prompts)):
            if ended[row]:
                yield Grown(row, [], True)
        seen = self._seen(make, new)
        while not all(ended):
            begin = time.perf_counter()
            looked = next(seen)
            self.times.steps += self.ahead
            self.times.making += time.perf_counter() - begin
            for row in range(len(prompts)):
                if not ended[row]:
                    tokens, ended[row] = looked[row].tokens, looked[row].is_done
                    self.times.tokens += len(tokens)
                    yield Grown(row, tokens, ended[row])

    @torch.no_grad()
    def _read_prompts(self, prompts: Sequence[Sequence[int]], new: int) -> Callable[[], object]:
        """Reads prompts, as many as rows or fewer; gives what makes a token of each row."""
        rows = self.rows
        spare = rows.tokens.shape[0] - len(prompts)
        rows.begin([*prompts, *[[0]] * spare], new)
        rows.done[len(prompts) :] = True
        read, make = self.calls()
        for start in range(0, max(map(len, prompts)) - 1, self.chunk):
            read(start)
        return make

    def _seen(self, make: Callable[[], object], new: int) -> Iterator[list[Seen]]:
        """
        What each look shows, until each row may have `new` tokens; on a GPU the steps after it have
        been asked for by then.
        """
        looks, asked, left = Looks(self.rows, self.ahead), deque[Look](), new
        while left > 0 or asked:
            with torch.no_grad():
                while left > 0 and len(asked) < (2 if self.graphed else 1):
                    for _ in range(self.ahead):
                        make()
                    asked.append(looks.ask())
                    left -= self.ahead
                seen = asked.popleft().take()
            yield seen

    def __call__(self, prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        """What follows each prompt, without it, the token at which it ends included."""
        found: list[list[int]] = [[] for _ in prompts]
        for grown in self.stream(prompts, new):
            found[grown.row] += grown.tokens
        return found


def generate(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int = 32,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    seed: int = 0,
    ends: Sequence[int] | None = None,
    capacity: int | None = None,
    target: str | None = None,
    backend: BackendLike = None,
    overlap: bool = False,
    one_launch: bool = False,
) -> list[list[int]]:
    """
    The tokens that follow each prompt, by a causal LM of transformers: the likeliest ones where
    `temperature` is 0, else drawn by seed and position (`Sampling`). `capacity` is the most tokens
    of a row, its prompt included: by default as many as are needed, rounded up to a power of two,
    so that few lengths are compiled for. With `overlap` kernels begin before the ones ahead of them
    end, where the chip can; with `one_launch` no second kernel folds what up to 64 blocks share.
    UsageError for prompts that do not fit.
    """
    sampling = Sampling(temperature, top_k, top_p, min_p, seed)
    longest = max(map(len, prompts), default=0)
    room = sizes_for(longest, max_new_tokens, capacity, limit_of(model))
    generator = Generator(
        model, len(prompts), room.capacity, sampling=sampling, ends=ends, chunk=room.chunk,
        target=target, backend=backend, overlap=overlap, one_launch=one_launch,
    )  # fmt: skip
    return generator(prompts, max_new_tokens)


@dataclass(frozen=True)
class Room:
    """Tokens of a row, and of a chunk that is read at once."""

    capacity: int
    chunk: int = field(default=MOST_OF_A_CHUNK)


def sizes_for(longest: int, new: int, capacity: int | None, limit: int | None) -> Room:
    """Powers of two that prompts and what follows fit into, so that few sizes are compiled for."""
    if capacity is None:
        capacity = max(power_from(longest + new), LEAST_CAPACITY)
        if limit is not None:
            capacity = max(min(capacity, limit), longest + new)
    return Room(capacity, min(power_from(max(longest - 1, 16)), MOST_OF_A_CHUNK))


def power_from(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


def limit_of(model: nn.Module) -> int | None:
    """The most positions of a model, if its configuration says."""
    config: Any = getattr(model, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else None
    found: int | None = getattr(text, "max_position_embeddings", None)
    return found


def vocabulary_of(model: Any) -> int:
    """The number of a model's tokens."""
    found: int = model.config.get_text_config().vocab_size
    return found


def check_prompts(
    prompts: Sequence[Sequence[int]], rows: int, capacity: int, new: int, vocabulary: int
) -> None:
    """UsageError for prompts that a generator does not take."""
    if not 0 < len(prompts) <= rows:
        raise UsageError(f"expected 1 to {rows} prompts, found {len(prompts)}")
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise UsageError(f"expected a token or more in prompt {number}, found none")
        if len(prompt) + new > capacity:
            raise UsageError(
                f"prompt {number} has {len(prompt)} tokens: with {new} new ones it does not fit "
                f"into {capacity}"
            )
        if wrong := [token for token in prompt if not 0 <= token < vocabulary]:
            raise UsageError(
                f"expected tokens from 0 to {vocabulary - 1} in prompt {number}, found {wrong[0]}"
            )


def by_row(model: nn.Module) -> Any:
    """
    A model with the same tensors, whose rows have positions of their own. ImportFailure for one
    whose attention cannot be told so.
    """
    from dlc.generation.row_cache import BY_ROW  # with transformers

    settable = getattr(model, "_can_set_attn_implementation", None)
    if settable is None or not settable():
        raise ImportFailure(
            f"expected a causal LM of transformers that takes its attention from outside, as "
            f"Llama does; {type(model).__name__} does not"
        )
    tensors = [*model.parameters(), *model.buffers()]
    own: Any = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    own.set_attn_implementation(BY_ROW)
    return own.eval()


def ends_of(model: Any) -> list[int]:
    """The tokens that end a text, by the model's configurations."""
    for config in (getattr(model, "generation_config", None), model.config.get_text_config()):
        ends = getattr(config, "eos_token_id", None)
        if ends is not None:
            return [ends] if isinstance(ends, int) else list(ends)
    return []
