"""
Kernels of programs for all sizes: `specialize` at any stage of the pipeline gives the program that
runs as eager PyTorch does, and so do kernels that take sizes when they are launched.
"""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from specialized import at_any_stage, executor_at
from test_dynamic_shapes import AUTO, sized
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import dlc
from dlc.backend import BackendError
from dlc.backend.cuda.print import printer
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run.gpu_backend import Arguments
from dlc.backend.executor import Executor, get_backend
from dlc.diagnostics import OpError
from dlc.dialects.kernel import FuncOp
from dlc.dialects.kernel_parts import kernel_sizes
from dlc.dialects.size_index import SizeIndexOp, narrow_sizes
from dlc.ir.sizes import NeedsNumber
from dlc.judge.accuracy import compare
from dlc.pipeline import text_of
from dlc.stages import Stages, compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.specialize import specialize

SIZES = (1, 2, 7, 17, 64, 65, 100)
Make = Callable[[int], tuple[torch.Tensor, ...]]


def normed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (96,), w) + x


def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b))


def attention(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.chunk(3, -1)
    return F.scaled_dot_product_attention(q, k, v)


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask)


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def heads(n: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 3, n, 32) for _ in range(3))


def recurrent(x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    return torch.gru(x, h, weights, False, 1, 0.0, False, True, False)[0]


def windows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.conv2d(x, w, padding=1), 3, 1, 1)


def states(n: int) -> tuple[torch.Tensor, ...]:
    """Those that a layer of both directions begins with, and its weights."""
    return torch.randn(2, n, 4), *(torch.randn(12, k) / 2 for _ in range(2) for k in (5, 4))


ALONG: dict[str, Any] = {
    "windows": ({2: Dim("x_0", max=4096)}, None),
    "steps": (
        dict.fromkeys((0, 1), Dim("x_0", max=4096)),
        {1: Dim("x_0", max=4096)},
        *[None] * 4,
    ),
    "inner": ({1: Dim("x_0", max=4096)},),
    "inner rows": ({1: Dim("x_0", max=4096)},),
    "softmax of rows": ({1: Dim("x_0", max=4096)},),
    "prefixes of rows": ({1: Dim("x_0", max=4096)},),
    "shifted": ({1: Dim("x_0", max=4096)},),
    "tails": ({1: Dim("x_0", max=4096)},),
    "product over rows": ({0: Dim("x_0", max=4096)},),
    "causal": ({2: Dim("x_0", max=4096)},) * 3,
    "heads": ({2: Dim("x_0", max=4096)},),
    "slices": ({0: Dim("x_0", max=4096)},) * 2,
    "rows of a larger batch": ({1: Dim("x_0", max=4096)},),
    "masked": (*({2: Dim("x_0", max=4096)},) * 3, dict.fromkeys((0, 1), Dim("x_0", max=4096))),
}
"""The dimensions that change, where that is not the first one of the first argument alone."""
PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], Make]] = {
    "pointwise": (lambda x: torch.relu(x * 2) + x.exp(), lambda n: (torch.randn(n, 24),)),
    "one dimension": (lambda x: x * 2 + 1, lambda n: (torch.randn(n),)),
    "softmax": (lambda x: torch.softmax(x, 1), lambda n: (torch.randn(n, 300),)),
    "norm": (normed, lambda n: (torch.randn(n, 96), torch.randn(96))),
    "linear": (layer, lambda n: (torch.randn(n, 80), torch.randn(48, 80), torch.randn(48))),
    "attention": (attention, lambda n: (torch.randn(n, 2, 24, 48),)),
    "sum of rows": (lambda x: x.sum(0), lambda n: (torch.randn(n, 64),)),
    "centered": (lambda x: (x - x.mean(0)) * x.shape[0], lambda n: (torch.randn(n, 24),)),
    "sum of all": (lambda x: x.exp().sum(), lambda n: (torch.randn(n, 20),)),
    "variance": (lambda x: x.var(0, correction=0), lambda n: (torch.randn(n, 40),)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), lambda n: (torch.randn(n, 40),)),
    "softmax of all": (lambda x: torch.softmax(x, 0), lambda n: (torch.randn(n),)),
    "largest": (lambda x: x.amax(0), lambda n: (torch.randn(n, 40),)),
    "inner": (lambda x: torch.relu(x) * 2, lambda n: (torch.randn(4, n, 40),)),
    "inner rows": (lambda x: x.sum(1), lambda n: (torch.randn(4, n),)),
    "softmax of rows": (lambda x: torch.softmax(x, 1), lambda n: (torch.randn(4, n),)),
    "product over rows": (lambda x: x.T @ x, lambda n: (torch.randn(n, 48),)),
    "causal": (causal, heads),
    "masked": (masked, lambda n: (*heads(n), torch.randn(n, n))),
    "flip": (lambda x: x.flip(0) + x, lambda n: (torch.randn(n, 20),)),
    "last row": (lambda x: x[-1] * x.sum(0), lambda n: (torch.randn(n, 20),)),
    "rolled": (lambda x: x.roll((1, -3), (0, 1)) - x.roll(-1, 0), lambda n: (torch.randn(n, 20),)),
    "joined": (lambda x: torch.cat([x, x.neg(), x]).sum(1), lambda n: (torch.randn(n, 20),)),
    "shifted": (
        lambda x: F.pad(x, (0, 0, 1, -1)) * x,
        lambda n: (torch.randn(2, n, 20),),
    ),
    "prefixes": (lambda x: x.cumsum(0), lambda n: (torch.randn(n, 20),)),
    "prefixes of rows": (lambda x: x.cumsum(1), lambda n: (torch.randn(4, n),)),
    "tails": (
        lambda x: torch.stack([x[:, -1], x[:, x.shape[1] // 2]]),
        lambda n: (torch.randn(3, n, 8),),
    ),
    "lying transposed": (lambda x: torch.relu(x) * 2, lambda n: (torch.randn(24, n).T,)),
    "softmax of columns that lie transposed": (
        lambda x: torch.softmax(x, 1),
        lambda n: (torch.randn(30, n).T,),
    ),
    "product of what lies transposed": (
        lambda x, w: x @ w,
        lambda n: (torch.randn(40, n).T, torch.randn(40, 24)),
    ),
    "heads": (
        lambda x: (x.softmax(-1) @ x.transpose(-1, -2)).transpose(1, 2),
        lambda n: (torch.randn(2, n, 3, 16).transpose(1, 2),),
    ),
    "slices": (
        lambda x, y: x * 2 + y.sum(1),
        lambda n: (torch.randn(n, 3, 50)[:, 1, 10:30], torch.randn(n + 5, 7, 20)[2 : n + 2, 1:4]),
    ),
    "rows of a larger batch": (
        lambda x: torch.relu(x).sum(1),
        lambda n: (torch.randn(4, n + 7, 20)[:, 3 : n + 3],),
    ),
    "flattened": (
        lambda x: torch.relu(x).flatten(0, 1).sum(1),
        lambda n: (torch.randn(n, 6, 20),),
    ),
    "rows looked up": (
        lambda x: x[(x[:, 0] > 0).cumsum(0) - 1],
        lambda n: (torch.randn(n, 20),),
    ),
    "numbers of rows": (
        lambda x: (x > 0).sum(0, dtype=torch.int32) * x.shape[0] - x.shape[0] ** 2,
        lambda n: (torch.randn(n, 20),),
    ),
    "windows": (windows, lambda n: (torch.randn(2, 3, n, 9), torch.randn(4, 3, 3, 3))),
    "steps": (recurrent, lambda n: (torch.randn(n, n, 5), *states(n))),
}


def marks_of(name: str) -> Any:
    """The `dynamic_shapes` of a program."""
    return ALONG.get(name, ({0: AUTO}, *[None] * (len(PROGRAMS[name][1](24)) - 1)))


@cache
def module_of(name: str) -> ModuleOp:
    """A program for all sizes from 1 on, in Torch IR."""
    f, make = PROGRAMS[name]
    module = sized(f, make(24), marks_of(name)).module.clone()
    set_target(module, "sm_90", "f32")
    text = text_of(module).replace("from 2", "from 1")
    return Parser(compiler_context(), text).parse_module()


def bindings(name: str, n: int) -> dict[str, int]:
    """The numbers of a program's sizes, among which strides may be."""
    strides = zip(("x", "y"), (arg.stride(0) for arg in PROGRAMS[name][1](n)), strict=False)
    known = {"x_0": n} | {f"{argument}_stride_0": step for argument, step in strides}
    return {
        size: number for size, number in known.items() if f"@{size} " in text_of(module_of(name))
    }


def check(name: str, n: int, run: Callable[..., list[torch.Tensor]]) -> None:
    f, make = PROGRAMS[name]
    torch.manual_seed(n)
    args = make(n)
    exact = f(*(a.double() for a in args))
    (result,) = run(args)
    torch.testing.assert_close(result.double(), exact.double(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_specialize_at_any_stage_gives_the_program_of_that_size(name: str) -> None:
    first = [*PROGRAMS].index(name)

    def size(turn: int) -> int:
        return SIZES[1:][(first + turn) % 6]  # a schedule for rows need not be one for a single row

    def bind(module: ModuleOp, turn: int) -> None:
        specialize(module, bindings(name, size(turn)))

    for turn, bound in at_any_stage(module_of(name), first, bind):
        check(name, size(turn), Executor(bound, get_backend("host")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_is_launched_for_all_sizes(name: str) -> None:
    kernels = Stages(module_of(name)).module("kernel")
    sources: set[str] = set()
    names: set[str] = set()
    for n in SIZES:
        executor = executor_at(kernels, bindings(name, n))
        check(name, n, executor)
        sources |= {func.source for func in executor.funcs}
        names |= {func.name_ for func in executor.funcs}
    assert len(sources) == len(names)


INNER: dict[str, tuple[Callable[..., torch.Tensor], Make, Any]] = {
    "logits": (
        lambda x, w: (x @ w).log_softmax(-1),
        lambda n: (torch.randn(2, n, 32), torch.randn(32, 50)),
        ({1: Dim("s", max=4096)}, None),
    ),
    "rows": (
        lambda x, w: x @ w,
        lambda n: (torch.randn(2, n, 32), torch.randn(32, 50)),
        ({1: Dim("s", max=4096)}, None),
    ),
    "columns": (
        lambda x, w: x @ w,
        lambda n: (torch.randn(48, 64), torch.randn(64, n)),
        (None, {1: Dim("s", max=4096)}),
    ),
    "columns of halves": (
        lambda x, w: x @ w,
        lambda n: (torch.randn(48, 64).half(), torch.randn(64, n).half()),
        (None, {1: Dim("s", max=4096)}),
    ),
    "layers": (
        lambda x, w: torch.relu(x @ w) @ w.t(),
        lambda n: (torch.randn(2, n, 32), torch.randn(32, 50)),
        ({1: Dim("s", max=4096)}, None),
    ),
}
"""Products whose kernels may need a size only to find places in their buffers."""


@pytest.mark.parametrize("likely", [2, 3, 17, 48])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", INNER)
def test_a_size_that_only_places_are_computed_with_is_given(
    name: str, target: str, likely: int
) -> None:
    f, make, marks = INNER[name]
    program = dlc.compile(f, make(likely), target, "host", dynamic_shapes=marks)
    (variant,) = program.variants
    kernels = variant.stages.module("kernel")
    ((size, given),) = variant.sizes.items()
    by = likely // given  # of multiples alone, where rows are as long
    sources: set[str] = set()
    names: set[str] = set()
    for n in (2, 3, 17, 48) if by == 1 else (8, 24, 48):
        executor = executor_at(kernels, {size: n // by})
        args = make(n)
        (found,) = executor(args)
        exact = f(*(a.double() for a in args))
        rounding = 2e-5 if found.dtype == torch.float32 else 2e-3
        torch.testing.assert_close(found.double(), exact, rtol=rounding, atol=5 * rounding)
        sources |= {func.source for func in executor.funcs}
        names |= {func.name_ for func in executor.funcs}
    assert len(sources) == len(names)


@pytest.mark.parametrize("n", [0, 2**31 // 24])
def test_a_size_that_a_kernel_is_not_made_for_is_refused(n: int) -> None:
    kernels = Stages(module_of("pointwise")).module("kernel")
    with pytest.raises(OpError, match=f"expected x_0 from 1( to [0-9]+)?, found {n}"):
        executor_at(kernels, {"x_0": n})


def test_a_number_is_needed_for_each_size() -> None:
    kernels = Stages(module_of("pointwise")).module("kernel")
    with pytest.raises(OpError, match="expected numbers for the sizes x_0"):
        Executor(kernels, get_backend("host"))


def test_what_needs_a_number_says_where() -> None:
    f = lambda x: x.std(0, correction=0.5)  # noqa: E731
    module = sized(f, (torch.randn(24, 16),), ({0: AUTO},)).module.clone()
    set_target(module, "sm_90", "f32")
    with pytest.raises(OpError, match=r"needs a number for .*x_0"):
        Stages(module).module("kernel")


@pytest.mark.parametrize("name", ["pointwise", "norm", "linear", "centered", "masked", "heads"])
def test_a_program_compiles_its_kernels_once_for_all_sizes(
    name: str, tmp_path: pathlib.Path
) -> None:
    f, make = PROGRAMS[name]
    program = dlc.compile(f, make(24), "sm_90", "host", dynamic_shapes=marks_of(name))
    for n in SIZES[1:]:
        check(name, n, lambda args: [program(*args)])
    funcs = [func for variant in program.variants for func in variant.executor.funcs]
    schedules = len([24, 2, 7, 100])  # at most each range has its own
    schedules += name in (
        "masked",
        "heads",
    )  # rows of 65 are as long as a size, and begin at no multiple
    made = {
        id(variant.stages): {func.source for func in variant.executor.funcs}
        for variant in program.variants
    }
    assert len(made) <= schedules < len(program.variants)
    assert {func.source for func in funcs} == set().union(*made.values())
    assert "compiled for each size" not in program.explain()
    assert {verdict.answer for verdict in program.check()} == {"clean"}
    program.save(tmp_path / "saved.dlc")
    loaded = dlc.load_program(tmp_path / "saved.dlc", "host")
    check(name, 7, lambda args: [loaded(*args)])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.max_pool1d(F.conv1d(x, x[:, :, :3], stride=2), 3, 2, 1, 1, True),
        lambda x: F.avg_pool1d(x, 3, 2, 1, True, False) + F.adaptive_avg_pool1d(x, 1),
        lambda x: F.conv_transpose1d(x, x[0][:, None, :2], stride=3),
    ],
)
def test_windows_along_a_size_have_kernels_for_all(f: Any) -> None:
    shapes = ({2: Dim("s", max=4096)},)
    program = dlc.compile(f, (torch.randn(2, 3, 12),), "sm_90", "host", dynamic_shapes=shapes)
    for n in (12, 9, 14):
        x = torch.randn(2, 3, n)
        exact = f(x.double())
        torch.testing.assert_close(program(x).double(), exact, rtol=2e-5, atol=2e-5)
    assert all(variant.sizes for variant in program.variants[1:])
    assert "compiled for each size" not in program.explain()


@pytest.mark.parametrize(("dtype", "k", "step"), [
    (torch.float32, 8, "bk=16"),
    (torch.float32, 3, "bk=16"),  # shorter than an access
    (torch.bfloat16, 20, "mma="),  # half of it fills no step of tensor cores
])  # fmt: skip
def test_sums_along_sizes_that_are_likely_to_be_short(
    dtype: torch.dtype, k: int, step: str
) -> None:
    """Their chunks are longer, and slabs have room for these."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w.mT

    def made(k: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(16, k, dtype=dtype), torch.randn(129, k, dtype=dtype)

    program = dlc.compile(f, made(k), "sm_86", "host", dynamic_shapes=({1: AUTO}, {1: AUTO}))
    for n in (k, 2 * k + 1):
        args = made(n)
        exact = f(*(x.double() for x in args))
        assert compare(program(*args), exact, f(*args), n).ok
    assert not program.shared.obstacle
    assert step in program.kernels[0].schedule


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_that_are_sums_along_a_size_are_tiled(dtype: torch.dtype) -> None:
    """Of queries and keys there are no slabs then, but of values."""

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT).softmax(-1) @ v

    def made(width: int) -> tuple[torch.Tensor, ...]:
        shapes = ((40, width), (70, width), (70, 32))
        return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)

    sizes = ({1: AUTO}, {1: AUTO}, None)
    program = dlc.compile(f, made(16), "sm_90", "host", dynamic_shapes=sizes)
    for width in (16, 24, 7):
        args = made(width)
        exact = f(*(x.double() for x in args))
        assert compare(program(*args), exact, f(*args), 70).ok
    assert not program.shared.obstacle
    assert "buffers=v compute=true" in program.kernels[0].schedule


def test_why_kernels_are_compiled_for_each_size_is_told() -> None:
    f = lambda x: x.std(0, correction=0.5)  # noqa: E731
    x = torch.randn(24, 16)
    program = dlc.compile(f, (x,), "sm_90", "host", dynamic_shapes=({0: AUTO},))
    torch.testing.assert_close(program(x[:7].clone()), f(x[:7]))
    needs = "pass decompose-torch: aten.std.correction needs a number"
    why = f"kernels are compiled for each size: {needs}"
    assert program.explain().startswith(f"{why} for x_0 ({__file__}:{f.__code__.co_firstlineno})")


def test_kernels_that_cannot_be_printed_are_compiled_for_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(func: FuncOp) -> str:
        if kernel_sizes(func):
            raise KeyError(func.name_)
        return print_kernel(func)

    monkeypatch.setattr(printer, "print_kernel", failing)
    f, x = torch.relu, torch.randn(24, 16)
    program = dlc.compile(f, (x,), "sm_90", "host", dynamic_shapes=({0: AUTO},))
    torch.testing.assert_close(program(x[:7].clone()), f(x[:7]))
    why = "kernels are compiled for each size: internal error: KeyError: 'relu'\n"
    assert program.explain().startswith(why)


def test_kernels_that_a_compiler_refuses_are_compiled_for_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = get_backend("host")
    prepare = type(backend).prepare

    def refusing(self: Any, images: Any) -> None:
        if any(image.size_values for image in images):
            raise BackendError("nvcc: too many registers")
        prepare(self, images)

    monkeypatch.setattr(type(backend), "prepare", refusing)
    f, x = lambda x: x.flip(0), torch.randn(24, 16)
    program = dlc.compile(f, (x,), "sm_90", backend, dynamic_shapes=({0: AUTO},))
    for n in (24, 7, 9):
        torch.testing.assert_close(program(x[:n].clone()), f(x[:n]))
    why = "kernels are compiled for each size: nvcc: too many registers"
    assert program.explain().startswith(why)
    assert not any(variant.sizes for variant in program.variants)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_multiples_have_kernels_of_their_own_where_rows_are_as_long(dtype: torch.dtype) -> None:
    """One of multiples, whose accesses take several elements, and one of what is between."""
    f, by = (lambda x: torch.softmax(x, 1)), 16 // dtype.itemsize
    make = partial(torch.randn, dtype=dtype)
    program = dlc.compile(f, (make(4, 64),), "sm_90", "host", dynamic_shapes=({1: AUTO},))
    for n in (64, 40, 33, 56, 37, 51):
        x = make(4, n)
        torch.testing.assert_close(program(x), f(x))
        assert program.variants[-1].sizes == ({"x_1": n} if n % by else {f"x_1_by_{by}": n // by})
    multiples, others = (
        {id(v.stages) for v in program.variants if ("x_1" in v.sizes) == odd} for odd in (0, 1)
    )
    assert len(multiples) == 1
    assert multiples.isdisjoint(others)
    assert len(others) <= 2  # of sizes up to 48 and beyond, or of all
    wide = f"-> vector<{by}x"
    assert wide in program.variants[0].stages.text("kernel")
    assert wide not in program.variants[2].stages.text("kernel")


def test_attention_of_lengths_that_may_differ_has_kernels_for_ranges_of_both() -> None:
    f, args = PROGRAMS["causal"][0], heads(24)
    program = dlc.compile(f, args, "sm_90", "host", dynamic_shapes=({2: AUTO},) * 3)
    assert "kernels for q_2 from 17 to 32, k_2 from 17 to 32" in program.explain()
    args = heads(7)
    torch.testing.assert_close(program(*args), f(*args), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("f", "make"),
    {
        "channels last": (
            lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3)),
            lambda n: (torch.randn(n, 9, 9, 3).permute(0, 3, 1, 2),),
        ),
        "expanded": (lambda x: x * 2, lambda n: (torch.randn(n, 1).expand(n, 24),)),
        "permuted result": (lambda x: x.permute(0, 2, 1) * 2, lambda n: (torch.randn(n, 7, 5),)),
        "a sum without rows": (
            lambda x, w: x * w.square().sum(),
            lambda n: (torch.randn(n, 30), torch.randn(5, 7)),
        ),
        "a sum of one row": (
            lambda x, y: x + y.sum(1, keepdim=True),
            lambda n: (torch.randn(n, 30), torch.randn(1, 5)),
        ),
    }.values(),
)
def test_other_layouts_and_folds_are_compiled_for_each_size_or_right(f: Any, make: Any) -> None:
    marks = ({0: AUTO}, *[None] * (len(make(24)) - 1))
    program = dlc.compile(f, make(24), "sm_90", "host", dynamic_shapes=marks)
    for n in (2, 7, 24):
        args = make(n)
        found, expected = program(*args), f(*args)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


def test_launches_with_sizes_are_not_joined() -> None:
    """So that they go on serving all sizes."""
    weights = [torch.randn(16, 64) for _ in range(3)]
    f = lambda x: [x @ w.T for w in weights]  # noqa: E731
    program = dlc.compile(f, (torch.randn(24, 64),), "sm_90", "host", dynamic_shapes=({0: AUTO},))
    for n in (17, 24, 31):
        x = torch.randn(n, 64)
        torch.testing.assert_close(program(x), f(x))
    assert "compiled for each size" not in program.explain()
    assert len({func.source for v in program.variants for func in v.executor.funcs}) <= 3


def test_compiling_for_a_size_draws_no_numbers() -> None:
    f = lambda x: F.dropout(x, 0.5, True)  # noqa: E731
    x = torch.ones(24, 30)
    program = dlc.compile(f, (x,), "sm_90", "host", dynamic_shapes=({0: AUTO},))
    results: list[torch.Tensor] = []
    for _ in range(2):
        torch.manual_seed(1)
        results.append(program(x[:7].clone()))
    assert torch.equal(*results)


def test_names_in_one_extent_are_narrowed_together() -> None:
    """Until a buffer's subscripts have 32 bits; NeedsNumber where the likely sizes are too many."""
    text = """
      %w = "test.op"() : () -> tensor<?x64xf32, #size.of<a + b>>
      %y = loop.kernel @copy(%x: memref<?x64xf32, #size.of<a + b>> = %w)
          -> (%y: memref<?x64xf32, #size.of<a + b>>) {
        %a = size.index a from 2 hint HINT
        %b = size.index b from 2 hint 64
      }
    """

    def kernel_of(hint: str) -> Any:
        module = Parser(compiler_context(), text.replace("HINT", hint)).parse_module()
        return next(op for op in module.walk() if op.name == "loop.kernel")

    kernel = kernel_of("64")
    narrow_sizes(kernel, kernel.body.block.args)
    ranges = [op.index_range() for op in kernel.walk() if isinstance(op, SizeIndexOp)]
    assert sum(high for _, high in ranges) * 64 < 2**31
    assert all(high >= 64 for _, high in ranges)
    kernel = kernel_of("40000000")
    with pytest.raises(NeedsNumber, match="a number for a"):
        narrow_sizes(kernel, kernel.body.block.args)


def test_sizes_follow_addresses_in_the_memory_of_arguments() -> None:
    arguments = Arguments(2, (), lambda map, address: b"", (7, 300))
    assert arguments.pack([1, 2]) == struct.pack("<QQii", 1, 2, 7, 300)
    assert arguments.parameters == (8, 8, 4, 4)


def test_products_along_a_size_fold_without_guards_and_split_in_turns() -> None:
    """Beyond the end of a size staged factors are 0, as beyond a number."""
    f, s = torch.matmul, Dim("s", max=4096)
    make = lambda n: (torch.randn(64, n), torch.randn(n, 96))  # noqa: E731
    module = sized(f, make(700), ({1: s}, {0: s})).module.clone()
    set_target(module, "sm_90", "f32")
    stages = Stages(module)
    assert "deal=turns" in stages.text("loop")
    assert "kernel.select" not in stages.text("kernel")
    bound = module.clone()
    specialize(bound, {"s": 700})
    barriers = [text.text("kernel").count("kernel.barrier") for text in (Stages(bound), stages)]
    assert barriers[0] == barriers[1]  # a chunk of a ring needs no more where there are any number
    for n in (2, 15, 16, 17, 100, 701):
        args = make(n)
        (found,) = executor_at(stages.module("kernel"), {"s": n})(args)
        exact = args[0].double() @ args[1].double()
        torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("f", [lambda x: torch.softmax(x, 1), lambda x: x.sum(1)])
def test_rows_as_long_as_a_size_are_walked_in_chunks_that_are_written_out(f: Any) -> None:
    """So that the loads of a chunk wait together, as those of a row whose length is known."""
    module = sized(f, (torch.randn(600, 127),), ({1: Dim("s", max=4096)},)).module.clone()
    set_target(module, "sm_90", "f32")
    stages = Stages(module)
    assert "chunk-reduce{bk=8},mark-unroll{limit=8}" in stages.text("loop")
    for n in (2, 15, 16, 17, 127, 128, 129, 255, 389):
        x = torch.randn(600, n)
        (found,) = executor_at(stages.module("kernel"), {"s": n})([x])
        torch.testing.assert_close(found.double(), f(x.double()), rtol=2e-5, atol=2e-5)
