"""
The programs of bench/measured.py, as data.

    python bench/measured_programs.py [--only REGEX]        # lists them

A program's name is `group/name`. Groups are in the order in which they are measured: what decides
most comes first, in case the time is spent before the end.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attention_choices import attention_choices
from convolution_choices import CONVOLUTIONS
from halves import LINEARS, TOKENS
from kernel_programs import PROGRAMS as KERNELS
from part_endings import split_step
from token_choices import token_choices
from warpgroup_choices import TILINGS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

from tensor_cores import HOPPER, RUNGS, SIZE, linear

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Program:
    """A program, made where it is measured: a function or module, and its arguments."""

    name: str
    make: Callable[[], Made]
    options: dict[str, Any] = field(default_factory=dict)
    """Of `dlc.compile`."""
    passes: str = ""
    """One that its Kernel IR goes through beside."""
    tf32: bool = False
    """Whether PyTorch may compute products of f32 in it."""

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def of_function(
    function: Callable[..., Any], *shapes: Sequence[int], dtype: torch.dtype = torch.float32
) -> Callable[[], Made]:
    """A function of tensors drawn on the current device."""

    def make() -> Made:
        return function, tuple(torch.randn(*shape, dtype=dtype) for shape in shapes)

    return make


def of_text(text: str) -> Callable[[], Made]:
    """A program as `dlc run -c` takes it."""

    def make() -> Made:
        from dlc.frontend.scripts.capture import capture_text

        return capture_text(text)

    return make


def ladder() -> Iterator[Program]:
    """The rungs of docs/tensor-cores.md, and what dlc chooses."""
    for chip, rungs in (("sm_80", RUNGS), ("sm_90", HOPPER)):
        for number, rung in enumerate(rungs, 1):
            square = (SIZE, SIZE)
            made = of_function(linear, square, square, dtype=rung.dtype)
            options: dict[str, Any] = {"schedules": {"linear": rung.schedule}}
            if rung.precision != "f32":
                options["precision"] = rung.precision
            name = f"ladder/{chip}.{number}. {rung.title}"
            yield Program(name, made, options, tf32=rung.precision == "tf32")
    for size in (4096, 8192):
        square = (size, size)
        half = of_function(linear, square, square, dtype=torch.bfloat16)
        yield Program(f"ladder/default.bf16.{size}", half)
        for precision in ("f32", "3xtf32", "tf32"):
            made = of_function(matmul, square, square)
            options = {"precision": precision}
            name = f"ladder/default.{precision}.{size}"
            yield Program(name, made, options, tf32=precision == "tf32")


def halves() -> Iterator[Program]:
    for name, (columns, k) in LINEARS.items():
        for tokens in TOKENS:
            made = of_function(linear, (tokens, k), (columns, k), dtype=torch.bfloat16)
            yield Program(f"halves/{name}.s{tokens}", made)


def attention() -> Iterator[Program]:
    def full(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    for dtype in (torch.bfloat16, torch.float32):
        for width in (64, 128):
            for keys in (128, 512, 4096):
                shape = (1, 32, keys, width)
                for function in (full, causal):
                    name = str(dtype).removeprefix("torch.")
                    made = of_function(function, shape, shape, shape, dtype=dtype)
                    yield Program(f"attention/{name}.{width}.{keys}.{function.__name__}", made)
    for keys in (512, 2048, 8192):
        shapes = ((1, 32, 1, 64), (1, 32, keys, 64), (1, 32, keys, 64))
        made = of_function(full, *shapes, dtype=torch.bfloat16)
        yield Program(f"attention/bfloat16.64.{keys}.one-row", made)


_TILES = (
    "tileify,chunk-matmul-k{{bk={bk} vector=4}},blockify-launch{{block={block} thread={thread}"
    "{group}}},stage-inputs{{budget=65536}},register-tile{{extents={points}}},{strips}"
    "double-buffer{{depth={depth}}},async-copy,pipeline-k-outer,mark-unroll{{limit=4}}"
)
_STRIPS = "permute-register-tile{{axes=ri,rj strip={0},4}},"
_SPLIT = (
    "tileify,chunk-matmul-k{{bk=16 vector=4}},split-matmul-k{{splits={splits}{combine}}},"
    "blockify-launch{{block=32,128 thread=4,32}},stage-inputs{{budget=34816}},"
    "register-tile{{extents=8,4}},double-buffer{{depth=3}},async-copy,pipeline-k-outer,"
    "mark-unroll{{limit=4}}"
)
_SQUARE = ((4096, 4096), (4096, 4096))


def _parts() -> Iterator[Program]:
    """Products of blocks for about every SM, with K in parts that are added in each way."""
    for size, block, thread, points, strip, splits in (
        ((1024, 1024, 1024), "256,128", "16,16", "16,8", 8, 4),
        ((1024, 1024, 1024), "128,128", "16,16", "8,8", 4, 2),
        ((128, 4096, 4096), "128,256", "16,16", "8,16", 8, 8),
        ((128, 4096, 4096), "128,128", "16,16", "8,8", 4, 4),
        ((512, 512, 512), "128,64", "16,16", "8,4", 4, 4),
        ((512, 512, 512), "64,64", "8,16", "8,4", 4, 2),
        ((128, 4096, 1024), "128,256", "8,32", "16,8", 8, 8),
        ((128, 4096, 1024), "128,64", "16,16", "8,4", 4, 2),
    ):  # fmt: skip
        rows, columns, k = size
        for ending in ("kernel", "last", "cluster"):
            split = f",{split_step(splits, ending, (rows, columns))}blockify"
            schedule = _TILES.format(
                bk=16, block=block, thread=thread, group="", points=points, depth=3,
                strips=_STRIPS.format(strip),
            ).replace(",blockify", split)  # fmt: skip
            name = f"choices/parts.{rows}x{k}x{columns}.{block.replace(',', 'x')}.{splits}.{ending}"
            made = of_function(matmul, (rows, k), (k, columns))
            yield Program(name, made, {"schedules": {"matmul": schedule}})


def convolution_tiles() -> Iterator[Program]:
    """Convolutions by what is chosen and by other blocks, and pools in their epilogues."""
    texts = {program.name: program.text for program in KERNELS}
    for name, tiles in CONVOLUTIONS.items():
        told = name.rpartition("/")[2]
        for tile, schedules in {"default": None, **tiles}.items():
            options = {} if schedules is None else {"schedules": schedules}
            yield Program(f"choices/tiles.{told}.{tile}", of_text(texts[name]), options)


def _linear_of(sizes: Sequence[int]) -> Callable[[], Made]:
    """A linear in bf16 of so many rows, columns and points of K."""
    rows, columns, k = sizes
    return of_function(linear, (rows, k), (columns, k), dtype=torch.bfloat16)


def warpgroup_tiles() -> Iterator[Program]:
    """Linears in bf16 by warpgroups."""
    for tiling in TILINGS:
        options = {"schedules": {"linear": tiling.schedule}}
        yield Program(f"choices/linear.{tiling.name}", _linear_of(tiling.sizes), options)
    made = of_function(linear, *_SQUARE)
    yield Program("choices/square-linear.tf32", made, {"precision": "tf32"}, tf32=True)


def choices() -> Iterator[Program]:
    """One program by several schedules, of which the estimate has an order."""
    yield from convolution_tiles()
    for choice in attention_choices():
        made = of_function(choice.attend, *choice.shapes, dtype=choice.dtype)
        schedules = {"scaled_dot_product_attention": choice.schedule} if choice.schedule else {}
        yield Program(f"choices/{choice.name}", made, {"schedules": schedules})
    for token in token_choices():
        yield Program(f"choices/{token.name}", token.make, dict(token.options))
    yield from warpgroup_tiles()
    for block, thread, points, strip in (
        ("128,256", "16,16", "8,16", 8), ("256,128", "16,16", "16,8", 8),
        ("128,128", "16,16", "8,8", 4), ("128,128", "8,16", "16,8", 8),
        ("64,128", "8,16", "8,8", 4),
    ):  # fmt: skip
        for depth in (2, 3):
            schedule = _TILES.format(
                bk=16, block=block, thread=thread, group=" group=8", points=points, depth=depth,
                strips=_STRIPS.format(strip),
            )  # fmt: skip
            told = f"{points.replace(',', 'x')}.of.{block.replace(',', 'x')}x16.in{depth}"
            made = of_function(matmul, *_SQUARE)
            yield Program(f"choices/square.{told}", made, {"schedules": {"matmul": schedule}})
    yield from _parts()
    for shape in (((32, 2048), (2048, 2048)), ((16, 4096), (4096, 64))):
        for splits in (8, 16):
            for combine in ("", " combine=last", " combine=cluster"):
                if combine == " combine=cluster" and splits > 8:
                    continue
                schedule = _SPLIT.format(splits=splits, combine=combine)
                ending = combine.partition("=")[2] or "kernel"
                (rows, k), (_, columns) = shape
                name = f"choices/split.{rows}x{k}x{columns}.{splits}.{ending}"
                made = of_function(matmul, *shape)
                yield Program(name, made, {"schedules": {"matmul": schedule}})
    for rows, length in ((16384, 512), (4096, 2048), (4096, 777)):
        for threads, own in ((32, 8), (64, 4), (128, 2), (256, 1)):
            schedule = (
                f"tileify,cooperative-reduce{{threads={threads} rows={own} vector="
                f"{1 if length % 4 else 4}}},mark-unroll{{limit=4}}"
            )
            made = of_function(softmax, (rows, length))
            name = f"choices/softmax.{rows}x{length}.{threads}"
            yield Program(name, made, {"schedules": {"softmax": schedule}})

    yield from memory_bound()

    def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            x = torch.softmax(x @ w, -1)
        return x

    for passes in ("", "overlap-launches"):
        made = of_function(chain, (128, 1024), (1024, 1024))
        yield Program(f"choices/chain.{passes or 'apart'}", made, passes=passes)
        made = of_function(chain, (1, 1024), (1024, 1024))
        yield Program(f"choices/row-chain.{passes or 'apart'}", made, passes=passes)


def memory_bound() -> Iterator[Program]:
    """What moves through memory alone, by blocks of other shapes."""
    square, planes = (4096, 4096), (16, 64, 256, 256)

    def transpose(x: torch.Tensor) -> torch.Tensor:
        return x.T.contiguous()

    def max_pool2d(x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(x, 3, 2, 1)

    def columns(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, 0)

    def argmax(x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, 1)

    tiles = "tileify,blockify-launch{{block={} thread={}}},register-tile{{extents=4}}"
    rows = "tileify,cooperative-reduce{{threads={} rows={} vector={}}},mark-unroll{{limit=8}}"
    across = (
        "tileify,cooperative-reduce{{threads={} rows={} vector=1 order=rows}},stage-inputs{{"
        "budget=228352}}"
    )
    staged = (
        "tileify,blockify-launch{block=32,32 thread=8,32},stage-inputs{budget=16900},"
        "register-tile{extents=4},mark-unroll{limit=8}"
    )
    for block, thread in (("64,16", "64,4"), ("32,32", "32,8"), ("16,64", "16,16")):
        schedules = {"permute": tiles.format(block, thread)}
        made = of_function(transpose, square)
        yield Program(
            f"choices/transpose.{block.replace(',', 'x')}", made, {"schedules": schedules}
        )
    for name, schedule in (("read", tiles.format("32,32", "8,32")), ("staged", staged)):
        made = of_function(max_pool2d, planes)
        yield Program(f"choices/max_pool2d.{name}", made, {"schedules": {"max_pool2d": schedule}})
    for threads, own in ((64, 8), (32, 16), (16, 32)):
        made = of_function(columns, square)
        options = {"schedules": {"softmax": across.format(threads, own)}}
        yield Program(f"choices/softmax-columns.{own}", made, options)
    for threads, own in ((128, 2), (256, 1), (512, 1)):
        made = of_function(argmax, square)
        options = {"schedules": {"argmax": rows.format(threads, own, 4)}}
        yield Program(f"choices/argmax.{threads}", made, options)


MOST_SIZES = 2
"""Of one text of bench/kernel_programs.py."""


def kernels() -> Iterator[Program]:
    """The first sizes of each text of the table of operators."""
    seen: dict[str, int] = {}
    for program in KERNELS:
        text = program.name.partition(".")[0]
        seen[text] = seen.get(text, 0) + 1
        if seen[text] <= MOST_SIZES:
            yield Program(f"kernels/{program.name}", of_text(program.text))


GROUPS: dict[str, Callable[[], Iterator[Program]]] = {
    "ladder": ladder,
    "attention": attention,
    "halves": halves,
    "choices": choices,
    "kernels": kernels,
}


def select(groups: Sequence[str] = (), only: str = "") -> list[Program]:
    """Those of some groups, or all, whose names a regular expression is found in."""
    chosen = groups or list(GROUPS)
    return [p for group in chosen for p in GROUPS[group]() if re.search(only, p.name)]


def find(name: str) -> Program:
    """By name; KeyError for an unknown one."""
    group = name.partition("/")[0]
    found = (program for program in GROUPS[group]() if program.name == name)
    program = next(found, None) or measured_once(name)
    if program is None:
        raise KeyError(name)
    return program


def measured_once(name: str) -> Program | None:
    """A product whose schedules were among `choices` once, or None: rows have the schedules."""
    if sizes := re.match(r"choices/(?:split|parts)\.(\d+)x(\d+)x(\d+)\.", name):
        rows, k, columns = map(int, sizes.groups())
        return Program(name, of_function(matmul, (rows, k), (k, columns)))
    if sizes := re.match(r"choices/linear\.(\d+)x(\d+)x(\d+)\.", name):
        rows, k, columns = map(int, sizes.groups())
        return Program(name, _linear_of((rows, columns, k)))
    if name.startswith("choices/square."):
        return Program(name, of_function(matmul, *_SQUARE))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX")
    for program in select(only=parser.parse_args().only):
        print(program.name, program.options.get("schedules", ""))


if __name__ == "__main__":
    main()
