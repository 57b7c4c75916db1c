"""`torch.cond`, `while_loop`, `scan` and `map`: control flow of the host program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._higher_order_ops import map as torch_map
from torch._higher_order_ops import scan, while_loop
from torch.utils._pytree import tree_leaves

import dlc
from dlc.backend import BackendError
from dlc.compiler import CompiledProgram
from dlc.dialects import host, host_flow
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.accuracy import compare
from dlc.judge.reference import evaluate
from dlc.loaded import load
from dlc.simulator import run_module


class Recurrent(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.w = torch.nn.Parameter(torch.randn(width, width, generator=generator) / width**0.5)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> Any:
        def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.tanh(h @ self.w + x)
            return new, new.sum(-1)

        return scan(step, h, x)


def swap(x: torch.Tensor) -> Any:
    def step(
        pair: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        a, b = pair
        return (b + 0.0, a * x), a + b

    return scan(step, (x[0].clone(), x[1] * 2.0), x)


def twice(x: torch.Tensor) -> Any:
    """One tensor is carried as two, and read beside."""
    z = x.sum(0)

    def step(
        pair: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        a, b = pair
        return (a + x, b - 2 * x * z), b * 3 - z

    return scan(step, (z, z), x)


def doubled(x: torch.Tensor) -> Any:
    def more(n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (n < 10) & (v.sum() < 100)

    def step(n: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return n + 1, v * 2 + x.sin()

    return while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))


def never(x: torch.Tensor) -> Any:
    return while_loop(lambda v: v.sum() < v.sum(), lambda v: (v * 2,), (x,))


def branch(p: torch.Tensor, x: torch.Tensor) -> Any:
    return torch.cond(p.sum() > 0, lambda x: (x.sin(), x * 2), lambda x: (x.cos() * 2, x + 1), (x,))


def both(x: torch.Tensor, h: torch.Tensor) -> Any:
    def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = torch.cond(x.sum() > 0, lambda h, x: h + x, lambda h, x: h * x, (h, x))
        return new, h.clone()

    return scan(step, h, x)


def mapped(x: torch.Tensor, y: torch.Tensor) -> Any:
    def each(a: Any, b: Any) -> Any:
        return a + b.sin(), a.sum()

    mapping: Any = torch_map  # its annotations want a type of its own
    return mapping(each, x, y)


def while_of_dtypes(x: torch.Tensor) -> Any:
    def more(n: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return (n < 5) & (v.float().sum() < 100) & ~seen.all()

    def step(n: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> Any:
        return n + 2, (v.float() * 2 + x).half(), seen | (v > 2)

    return while_loop(more, step, (torch.ones((), dtype=torch.int32), x.half(), x > 5))


def scan_of_dtypes(h: torch.Tensor, x: torch.Tensor, k: torch.Tensor) -> Any:
    def step(
        pair: tuple[torch.Tensor, torch.Tensor], given: tuple[torch.Tensor, torch.Tensor]
    ) -> Any:
        h, n = pair
        x, k = given
        return ((h.float() * x).half(), (n * 3 + k) % 7), (h > 0, x.double() + k)

    return scan(step, (h, k[0].clone()), (x, k))


def branch_of_dtypes(p: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(
        p.sum() > 0,
        lambda x, y: (x * y, (x.half() + 1).sum(), x.long()),
        lambda x, y: (x + y, x.half().sin().sum(), y * 2),
        (x, y),
    )


WEIGHT = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def scan_of_constant(h: torch.Tensor, x: torch.Tensor) -> Any:
    """The function reads a tensor that is no argument of the program."""
    return scan(lambda h, x: (torch.tanh(h @ WEIGHT + x).float(), (h @ WEIGHT).sum()), h, x)


def while_of_constant(x: torch.Tensor) -> Any:
    start = torch.zeros((), dtype=torch.int64), x
    return while_loop(lambda n, v: n < 3, lambda n, v: (n + 1, (v @ WEIGHT).float()), start)


def made(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
CASES: dict[str, Case] = {
    "scan": (Recurrent(4), (made(5, 3, 4), made(3, 4))),
    "scan of one": (Recurrent(5), (made(1, 2, 5), made(2, 5))),
    "scan of a transposed tensor": (Recurrent(4), (made(3, 6, 4).transpose(0, 1), made(3, 4))),
    "two swap": (swap, (made(7, 13),)),
    "one is carried twice": (twice, (made(7, 3),)),
    "while": (doubled, (made(3).abs(),)),
    "while of none": (doubled, (made(3).abs() * 1000,)),
    "never": (never, (made(17),)),
    "true": (branch, (torch.ones(3), made(5))),
    "false": (branch, (-torch.ones(3), made(5))),
    "not a number": (branch, (torch.full((3,), torch.nan), torch.tensor([torch.inf, torch.nan]))),
    "an if in a scan": (both, (made(6, 4), made(4))),
    "a while of several dtypes": (while_of_dtypes, (made(3).abs(),)),
    "a scan of several dtypes": (scan_of_dtypes, (made(6).half(), made(4, 6), made(4, 6).long())),
    "branches of several dtypes": (branch_of_dtypes, (torch.ones(3), made(7), torch.arange(7))),
    "a scan that reads a constant": (scan_of_constant, (made(2, 4), made(3, 2, 4))),
    "map": (mapped, (made(3, 4), made(4))),
    "map of empty rows": (mapped, (made(3, 0), made(0))),
}


@cache
def compiled(name: str) -> CompiledProgram:
    function, args = CASES[name]
    return dlc.compile(function, args, backend="host")


def results(program: CompiledProgram, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return tree_leaves(program(*args))


AUTOCAST: dict[str, Case] = {
    "cond": (
        lambda p, x: torch.cond(
            p.sum() > 0, lambda x: x @ WEIGHT, lambda x: (2 * x) @ WEIGHT, (x,)
        ),
        (torch.ones(3), made(2, 4)),
    ),
    "scan": (scan_of_constant, (made(2, 4), made(3, 2, 4))),
    "while": (while_of_constant, (made(2, 4),)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", AUTOCAST)
def test_bodies_are_autocast(name: str, dtype: torch.dtype) -> None:
    function, args = AUTOCAST[name]
    exact = [t.double() for t in tree_leaves(function(*args))]
    with torch.no_grad(), torch.autocast("cpu", dtype):
        eager = tree_leaves(function(*args))
        found = results(dlc.compile(function, args, backend="host"), args)
    for own, known, wide in zip(found, eager, exact, strict=True):
        assert own.dtype == known.dtype
        error, allowed = (own - wide).abs().max(), (known - wide).abs().max()
        assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps * wide.abs().max()


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager(name: str) -> None:
    (function, args), program = CASES[name], compiled(name)
    variant = program.variants[0]
    bound = variant.program.tensors_of(args, {})
    assert bound is not None
    exact = evaluate(variant.program.module, bound, double=True)
    with torch.no_grad():
        eager = tree_leaves(function(*args))
    found = results(program, args)
    assert len(found) == len(exact) == len(eager)
    for own, reference, known in zip(found, exact, eager, strict=True):
        assert (verdict := compare(own, reference, known)).ok, str(verdict)
    simulated = run_module(variant.module("kernel"), [t.detach().numpy() for t in bound])
    for own, reference, known in zip(simulated, exact, eager, strict=True):
        assert compare(torch.as_tensor(own).reshape(known.shape), reference, known).ok
    assert all(str(verdict).endswith("is clean>") for verdict in program.check())


def test_a_branch_is_taken_at_each_call() -> None:
    program = compiled("true")
    for sign in (1.0, -1.0, 1.0):
        args = (sign * torch.ones(3), made(5))
        expected = tree_leaves(branch(*args))
        for own, known in zip(results(program, args), expected, strict=True):
            torch.testing.assert_close(own, known)
    assert len(program.variants) == 1


def test_a_loop_has_one_body_whatever_its_length() -> None:
    program = dlc.compile(Recurrent(4), (made(300, 3, 4), made(3, 4)), backend="host")
    module = program.variants[0].module("kernel")
    (loop,) = [op for op in module.walk() if isinstance(op, host_flow.ForOp)]
    assert loop.trips == 300
    inside = [op for op in loop.walk() if isinstance(op, host.LaunchOp)]
    assert len(inside) == 2
    assert len(program.kernels) <= 5


@pytest.mark.parametrize("mark", [torch.export.Dim("s", max=64), torch.export.Dim.AUTO])
def test_turns_may_be_a_size(mark: Any, tmp_path: Path) -> None:
    """Each call has as many, of the same kernels; each has its memory planned."""
    module, args = Recurrent(4), (made(6, 3, 4), made(3, 4))
    program = dlc.compile(module, args, "sm_90", "host", dynamic_shapes=({0: mark}, None))
    assert f"flow.for {next(iter(program.sizes.symbols))} " in program.ir("kernel")
    calls = (args, (made(9, 3, 4), made(3, 4)))
    expected = [tree_leaves(module(*given)) for given in calls]
    found = [tree_leaves(program(*given)) for given in calls]
    torch.testing.assert_close(found, expected)
    assert program.imports.count == 1
    sources = [{f.source for f in variant.executor.funcs} for variant in program.variants]
    assert sources == [sources[0]] * 2
    assert {verdict.answer for verdict in program.check()} == {"clean"}
    assert "4 kernels, launched 15 times: " in program.explain()  # as of 6 turns
    program.save(tmp_path / "saved.dlc")
    loaded = dlc.load_program(tmp_path / "saved.dlc", "host")
    torch.testing.assert_close([tree_leaves(loaded(*given)) for given in calls], expected)


@pytest.mark.parametrize("stage", ["torch", "tensor", "loop", "tile", "kernel"])
@pytest.mark.parametrize("name", ["scan", "while", "an if in a scan"])
def test_every_state_prints_parses_and_runs(name: str, stage: Any, tmp_path: Path) -> None:
    (_, args), program = CASES[name], compiled(name)
    path = tmp_path / "program.mlir"
    path.write_text(program.ir(stage))
    again = load(path, backend="host")
    assert again.ir(stage) == program.ir(stage)
    bound = program.variants[0].program.tensors_of(args, {})
    assert bound is not None
    given = tree_leaves(again(*(t.detach() for t in bound)))
    for own, known in zip(given, results(program, args), strict=True):
        assert torch.equal(own, known)


def test_a_saved_program_has_its_loops(tmp_path: Path) -> None:
    (_, args), program = CASES["an if in a scan"], compiled("an if in a scan")
    expected = results(program, args)
    program.save(tmp_path / "program.dlc")
    again = dlc.load_program(tmp_path / "program.dlc", backend="host")
    for own, known in zip(results(again, args), expected, strict=True):
        assert torch.equal(own, known)


def test_attributes_that_a_body_reads_are_followed() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 2.0

        def forward(self, x: torch.Tensor) -> Any:
            return scan(lambda h, x: (h * self.factor + x, h + 0.0), x[0].clone(), x)

    module, x = Scaled(), made(3, 4)
    program = dlc.compile(module, (x,), backend="host")
    for factor in (2.0, 3.0):
        module.factor = factor
        for own, known in zip(results(program, (x,)), tree_leaves(module(x)), strict=True):
            torch.testing.assert_close(own, known)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("scan", ["scan 5 turns 2 a turn"]),
        ("while", ["while_loop turns until data says so 3 a turn"]),
        (
            "an if in a scan",
            ["scan 6 turns 5 a turn", "cond one of two bodies, as data says 1 or 1"],
        ),
    ],
)
def test_turns_are_explained(name: str, rows: list[str]) -> None:
    lines = [" ".join(line.split()) for line in compiled(name).explain().splitlines()]
    first = lines.index("control flow turns launches") + 2
    assert lines[first : first + len(rows)] == rows


def test_launches_of_a_loop_count_each_turn() -> None:
    explained = compiled("scan").explain()
    assert "launched 13 times" in explained  # a copy before it and two after it


def test_numbers_are_not_carried() -> None:
    def count(x: torch.Tensor) -> Any:
        return while_loop(lambda n, v: n < 3, lambda n, v: (n + 1, v * 2), (0, x.clone()))

    with pytest.raises((UnsupportedError, ImportFailure), match=r"torch\.tensor\(n\)"):
        import_program(count, (made(3),))


def test_no_graph_waits_for_what_it_computes() -> None:
    program = compiled("while")
    bound = program.variants[0].program.tensors_of(CASES["while"][1], {})
    assert bound is not None
    with pytest.raises(BackendError, match="branches on that"):
        program.variants[0].capture(bound)


@pytest.mark.parametrize("name", ["true", "scan", "while"])
def test_dynamo_hands_over_control_flow(name: str) -> None:
    function, args = CASES[name]
    torch._dynamo.reset()
    options = {"backend": "host", "fallback": False}
    with torch.no_grad():
        found = tree_leaves(torch.compile(function, backend="dlc", options=options)(*args))
        for own, known in zip(found, tree_leaves(function(*args)), strict=True):
            torch.testing.assert_close(own, known)


@pytest.mark.parametrize("grad", [False, True])
def test_branches_under_dynamo_with_and_without_gradients(grad: bool) -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x * 2,))
        return y * torch.tensor([1.0, 2.0, 3.0, 4.0])

    torch._dynamo.reset()
    compiled = torch.compile(branching, backend="dlc", fullgraph=True)
    for x in (torch.full((4,), 0.3), torch.full((4,), -0.4)):
        x.requires_grad_(grad)
        torch.testing.assert_close(compiled(x), branching(x))
        if grad:
            mine, eagers = (torch.autograd.grad(f(x).sum(), x) for f in (compiled, branching))
            torch.testing.assert_close(mine, eagers)
