"""Kernels along two sizes, such as those of a batch and of a length, and along one size twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isclose, prod
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from specialized import at_any_stage, executor_at
from test_dynamic_shapes import sized
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import dlc
from dlc.backend.executor import Executor, get_backend
from dlc.dialects import loop
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.size_binding import at_hints
from dlc.pipeline import text_of
from dlc.schedule.candidate import Candidate
from dlc.schedule.contraction_tiles import tiled_contraction
from dlc.schedule.likely_sizes import problems_around, steadiest
from dlc.schedule.tiling import TOLERANCE, alike
from dlc.simulator.checker import check_module
from dlc.stages import Stages, compiler_context
from dlc.target import get_target, set_target
from dlc.transforms.tensor.specialize import specialize

B, S = Dim("b", max=64), Dim("s", max=4096)
SIZES = ((1, 1), (2, 7), (7, 2), (3, 17), (2, 64), (4, 65), (5, 37))
"""Numbers of the batch and of the length."""
Make = Callable[[int, int], tuple[torch.Tensor, ...]]


def batch(*shape: int) -> Make:
    return lambda b, s: (torch.randn(b, s, *shape),)


def heads(count: int) -> Make:
    return lambda b, s: tuple(torch.randn(b, 3, s, 32) for _ in range(count))


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), -1)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def split(x: torch.Tensor) -> torch.Tensor:
    b, s, _ = x.shape
    h = torch.relu(x.view(b, s, 4, 8).transpose(1, 2))
    return h.transpose(1, 2).reshape(b, s, 32) + x


def flat(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A layer over all rows of a batch, as PyTorch's own linear layers are written."""
    b, s, n = x.shape
    y = F.gelu(F.rms_norm(x, (n,)).reshape(-1, n) @ w.T)
    return y.view(b, s, -1) + y.amax(0)


def loss(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x.view(-1, 6), t.reshape(-1, 6)) + x.flatten(0, 1).mean(0).cumsum(0)


def numbered(x: torch.Tensor) -> torch.Tensor:
    """The rows of a flat tensor that a batch is made of again, of which some go by numbers."""
    b, s, n = x.shape
    rows = (x * 2).reshape(b * s, n)
    return rows.view(b, s, n) + rows[-1] + rows[:1]


ROWS: dict[int, Dim] = {0: B, 1: S}
PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], Make, Any]] = {
    "pointwise": (lambda x: torch.relu(x) * 2, batch(24), (ROWS,)),
    "norm": (lambda x: F.rms_norm(x, (40,)), batch(40), (ROWS,)),
    "linear": (
        lambda x, w: F.gelu(F.linear(x, w)),
        lambda b, s: (torch.randn(b, s, 32), torch.randn(48, 32)),
        (ROWS, None),
    ),
    "softmax": (lambda x: torch.softmax(x, 1), batch(), (ROWS,)),
    "split heads": (split, batch(32), (ROWS,)),
    "outer product": (
        lambda x, y: x @ y,
        lambda b, s: (torch.randn(b, 24), torch.randn(24, s)),
        ({0: B}, {1: S}),
    ),
    "gram": (
        lambda x: x @ x.T,
        lambda b, s: (torch.randn(s, 24),),
        ({0: S},),
    ),
    "triangle": (
        lambda x: x.tril(),
        lambda b, s: (torch.randn(s, s),),
        ({0: S, 1: S},),
    ),
    "scores": (scores, heads(2), ({0: B, 2: S},) * 2),
    "attention": (attention, heads(3), ({0: B, 2: S},) * 3),
    "causal": (causal, heads(3), ({0: B, 2: S},) * 3),
    "flat": (flat, lambda b, s: (torch.randn(b, s, 24), torch.randn(16, 24)), (ROWS, None)),
    "flat rows": (lambda x: torch.relu(x).flatten(0, 1), batch(24), (ROWS,)),
    "flat columns": (
        lambda x: x.transpose(1, 2).reshape(-1, 3) * 2,
        lambda b, s: (torch.randn(b, 3, s),),
        ({0: B, 2: S},),
    ),
    "flat sum": (lambda x: torch.relu(x).flatten().sum(), batch(6), (ROWS,)),
    "loss": (loss, lambda b, s: (torch.randn(b, s, 6), torch.randn(b, s, 6)), (ROWS,) * 2),
    "repeated": (lambda x: x.repeat(2, 1, 3).exp(), batch(4), (ROWS,)),
    "tiled": (
        lambda x, y: x.repeat(y.shape[0], 1) - 1,
        lambda b, s: (torch.randn(s, 4), torch.randn(b)),
        ({0: S}, {0: B}),
    ),
}


@cache
def module_of(name: str) -> ModuleOp:
    """A program for all sizes from 1 on, in Torch IR."""
    f, make, marks = PROGRAMS[name]
    module = sized(f, make(3, 24), marks).module.clone()
    set_target(module, "sm_90", "f32")
    text = text_of(module).replace("from 2", "from 1")
    return Parser(compiler_context(), text).parse_module()


def bindings(name: str, b: int, s: int) -> dict[str, int]:
    """The numbers of those sizes that a program has."""
    return {key: n for key, n in (("b", b), ("s", s)) if f"@{key} " in text_of(module_of(name))}


def check(name: str, b: int, s: int, run: Callable[..., list[torch.Tensor]]) -> None:
    f, make, _ = PROGRAMS[name]
    torch.manual_seed(b + s)
    args = make(b, s)
    exact = f(*(a.double() for a in args))
    (result,) = run(args)
    torch.testing.assert_close(result.double(), exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"scores", "attention"}))
def test_specialize_at_any_stage_gives_the_program_of_these_sizes(name: str) -> None:
    first = [*PROGRAMS].index(name)

    def sizes(turn: int) -> tuple[int, int]:
        return SIZES[1:][(first + turn) % 6]

    def bind(module: ModuleOp, turn: int) -> None:
        for key, n in bindings(name, *sizes(turn)).items():  # one after the other is as both
            specialize(module, {key: n})
            module.verify()

    for turn, bound in at_any_stage(module_of(name), first, bind):
        check(name, *sizes(turn), Executor(bound, get_backend("host")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_is_launched_for_all_sizes(name: str) -> None:
    kernels = Stages(module_of(name)).module("kernel")
    sources: set[str] = set()
    names: set[str] = set()
    for b, s in SIZES:
        executor = executor_at(kernels, bindings(name, b, s))
        check(name, b, s, executor)
        sources |= {func.source for func in executor.funcs}
        names |= {func.name_ for func in executor.funcs}
    assert len(sources) == len(names)


def add_first_row(x: torch.Tensor) -> torch.Tensor:
    b, s, n = x.shape
    x.copy_(x + x.reshape(s, b, n)[0, 0])
    return x * 1


def test_what_is_read_under_another_shape_is_not_updated_in_place() -> None:
    f = dlc.compile(add_first_row, batch(5)(3, 24), "sm_90", "host", dynamic_shapes=(ROWS,))
    for b, s in ((2, 7), (5, 9)):
        (x,) = batch(5)(b, s)
        y = x.clone()
        assert torch.equal(f(x), add_first_row(y))
        assert torch.equal(x, y)


def test_blocks_are_divided_once_for_each_size_but_the_slowest() -> None:
    source = Stages(module_of("pointwise")).text("cuda")
    assert source.count(" % ((s") == source.count(" / ((s") == 1


@pytest.mark.parametrize("name", ["linear", "gram", "attention"])
def test_a_program_compiles_its_kernels_once_for_all_sizes(name: str) -> None:
    f, make, marks = PROGRAMS[name]
    program = dlc.compile(f, make(3, 24), "sm_90", "host", dynamic_shapes=marks)
    for b, s in ((2, 17), (3, 31), (3, 29)):
        check(name, b, s, lambda args: [program(*args)])
    funcs = [func for variant in program.variants for func in variant.executor.funcs]
    multiples = name == "gram"  # whose rows are as long as a size: its multiples have their own
    assert len({func.source for func in funcs}) == len(program.kernels) * (1 + multiples)
    assert {verdict.answer for verdict in program.check()} == {"clean"}


@pytest.mark.parametrize("block", ["1,16,16 thread=1,4,4", "2,8,16 thread=2,4,4"])
def test_blocks_of_two_sizes_are_counted_in_as_many_dimensions(block: str) -> None:
    """The last of those that share a product's points goes on."""
    steps = "chunk-matmul-k{bk=8 vector=4},split-matmul-k{splits=3 combine=last}"
    schedule = f"tileify,{steps},blockify-launch{{block={block}}}"
    kernels = Stages(module_of("linear"), {"linear_gelu": schedule}).module("kernel")
    assert "kernel.last_block %arrived[%rest, %bi * 3 + %bj] of 3" in text_of(kernels)
    for b, s in SIZES:
        executor = executor_at(kernels, bindings("linear", b, s))
        for _ in range(2):  # zeroed before each launch
            check("linear", b, s, executor)
    bound = kernels.clone()
    specialize(bound, {"b": 3, "s": 37})
    assert {verdict.answer for verdict in check_module(bound)} == {"clean"}


def test_schedules_are_those_that_are_fast_for_all_sizes_that_share_them() -> None:
    """Of those that are about as fast at the likely ones."""
    f, args = torch.matmul, (torch.randn(256, 512), torch.randn(512, 768))
    module, target = sized(f, args, ({0: S}, None)).module.clone(), get_target("sm_90")
    set_target(module, "sm_90", "f32")
    (kernel,) = kernels_in(Stages(module).module("loop"), loop.KernelOp)
    around = problems_around(kernel)
    assert [problem.rows for problem in around] == [160, 192, 224]  # of 129 to 256
    with at_hints(kernel) as bound:
        tiled = tiled_contraction(bound)
        assert tiled is not None
        problem = tiled.problem
        assert problems_around(bound) == []
    found = alike(problem, target)
    best = steadiest(found, around)
    assert best.seconds <= TOLERANCE * found[0].seconds

    def seconds(candidate: Candidate) -> float:
        others = prod(replace(candidate, problem=p).seconds for p in around)
        return candidate.seconds ** len(around) * others

    assert isclose(seconds(best), min(map(seconds, found)))
    assert f"block={best.block[0]},{best.block[1]} " in str(kernel.schedule)
