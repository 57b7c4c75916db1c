"""Gradients of what `dlc.compile` gives: those of eager PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F

import dlc
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.function_module import root_of


class Tied(nn.Module):
    """Two linears of one weight, a buffer, and results of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(4, 4), nn.Linear(4, 4)
        self.up.weight = self.down.weight
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: torch.Tensor, n: int) -> dict[str, Any]:
        y = self.up(F.gelu(self.down(x))) * self.scale
        most, turned = y.argmax(-1), y.t()
        return {"y": y, "most": most, "again": y, "n": n, "view": x.view(-1), "turned": turned}


def check(program: Callable[..., torch.Tensor], *args: torch.Tensor) -> None:
    """The gradients of the sum of squares of a result are eager's."""
    wanted = [a for a in {id(a): a for a in args}.values() if a.requires_grad]
    compiled = dlc.compile(program, args, backend="host")
    for _ in range(2):
        found, expected = (
            torch.autograd.grad(f(*args).pow(2).sum(), wanted) for f in (compiled, program)
        )
        torch.testing.assert_close(found, expected)


def test_of_arguments():
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    check(lambda x, w: F.softmax(x @ w, -1), x, w)
    check(lambda x, w: F.softmax(x @ w, -1), x.detach(), w * 2 + w)


def test_of_one_tensor_twice_and_of_its_view():
    x = torch.randn(4, requires_grad=True)
    check(lambda a, b: a * b.exp(), x, x)
    check(lambda a, b: a[1:] * b.exp(), x, x[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_of_gradients(dtype: torch.dtype) -> None:
    """A penalty on the gradient of an input has gradients in the weight, those again."""
    weight, x = (torch.randn(s, dtype=dtype, requires_grad=True) for s in ((4, 3), (2, 4)))

    def program(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).sin().abs().sum()

    derivatives: list[tuple[torch.Tensor, ...]] = []
    for f in (program, dlc.compile(program, (x,), backend="host")):
        (first,) = torch.autograd.grad(f(x), x, create_graph=True)
        penalty = first.abs().pow(2).sum()
        second = torch.autograd.grad(penalty, [x, weight], create_graph=True)
        third = torch.autograd.grad(second[0].abs().sum(), [x, weight])
        derivatives.append((first, *second, *third))
    torch.testing.assert_close(derivatives[1], derivatives[0])


@pytest.mark.parametrize(
    "held",
    [
        partial,
        lambda m: partial(lambda inner, x: inner(x), m),
        lambda m: (lambda layers: lambda x: layers[0](x))([m]),
        lambda m: (lambda layers: lambda x: layers["m"](x))({"m": m}),
        lambda m: Around(m),
        lambda m: (lambda around: lambda x: around.m(x))(Around(m)),
        lambda m: Beside([Around(m)]),
        lambda m: Beside({"a": (m,)}),
    ],
)
def test_of_a_module_that_something_holds(held: Any) -> None:
    module, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    compiled = dlc.compile(held(module), (x,), backend="host")
    compiled(x).sum().backward()
    assert module.weight.grad is not None
    torch.testing.assert_close(module.weight.grad, x.sum(0).expand(3, 4))
    module.weight.data = torch.ones(3, 4)
    torch.testing.assert_close(compiled(x), module(x))


def test_of_parameters_that_code_reads_by_name() -> None:
    w, layer, x = torch.nn.Parameter(torch.randn(4)), torch.nn.Linear(4, 4), torch.randn(3, 4)

    class Reads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.v = w, torch.nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * w + self.w * self.v

    reads = Reads()
    programs = lambda x: layer(x) * w + layer.bias, reads
    compiled = [dlc.compile(program, (x,), backend="host") for program in programs]
    for values in (None, torch.ones(4), torch.arange(4.0)):
        if values is not None:
            w.data = values
        for wanted, program, own in zip((layer.bias, reads.v), programs, compiled, strict=True):
            found, expected = (
                torch.autograd.grad(f(x).pow(2).sum(), [w, wanted]) for f in (own, program)
            )
            torch.testing.assert_close(found, expected)


def test_objects_of_installed_packages_give_the_modules_that_code_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ModuleType("pipelines")
    package.__file__ = str(tmp_path / "site-packages" / "pipelines.py")
    monkeypatch.setitem(sys.modules, "pipelines", package)
    pipeline = type("Pipeline", (), {"__module__": "pipelines"})()
    pipeline.net, pipeline.registry = nn.Linear(4, 3), [Around(nn.Linear(2, 2))]
    x = torch.randn(2, 4)

    def program(x: torch.Tensor) -> torch.Tensor:
        return pipeline.net(x)

    root = root_of(program)
    assert [name for name, _ in root.named_parameters()] == ["linear.weight", "linear.bias"]
    compiled = dlc.compile(program, (x,), backend="host")
    compiled(x).sum().backward()
    torch.testing.assert_close(pipeline.net.weight.grad, x.sum(0).expand(3, 4))


class Beside(torch.nn.Module):
    """A module that has others in containers, which PyTorch does not count as its own."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.held["a"][0](x) if isinstance(self.held, dict) else self.held[0](x)


class Around:
    """An object that holds a module."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.m = module

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.m(x)


def test_of_a_module():
    torch.manual_seed(0)
    model, x = Tied(), torch.randn(3, 4, requires_grad=True)
    compiled = dlc.compile(model, (x, 2), backend="host")
    gradients: list[Any] = []
    for call in (model, compiled):
        out = call(x, 2)
        assert out["y"].requires_grad
        assert not out["most"].requires_grad
        total = (out["y"] * out["again"]).sum() + out["view"].sum() + out["turned"][0].sum()
        gradients.append(torch.autograd.grad(total, [x, *model.parameters()]))
    torch.testing.assert_close(*gradients)
    with torch.no_grad():
        assert not compiled(x, 2)["y"].requires_grad


class Counted(nn.Module):
    """Statistics of a norm in training, another buffer and an argument, which are written to."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(x) + self.calls.add_(1)[:, None]
        with torch.no_grad():
            total += y.sum(0)
        return y, total.sqrt()


def test_of_a_program_that_writes_what_has_none() -> None:
    """Both forwards come first: each backward is of what was there before its own."""
    torch.manual_seed(0)
    eager, given = Counted(), torch.randn(2, 2, 3, 4)
    ours = deepcopy(eager)
    compiled = dlc.compile(ours, (given[0], torch.zeros(3, 4)), backend="host")
    totals, grads = torch.zeros(2, 3, 4), list[Any]()
    for call, model, total in zip((eager, compiled), (eager, ours), totals, strict=True):
        xs = [x.clone().requires_grad_() for x in given]
        losses = [call(x, total)[0].pow(3).sum() for x in xs]
        wanted = list(model.parameters())
        for x, loss in zip(xs, losses, strict=True):
            for _ in range(2):
                grads.append(torch.autograd.grad(loss, [x, *wanted], retain_graph=True))
    torch.testing.assert_close(grads[4:], grads[:4])
    torch.testing.assert_close(totals[1], totals[0])
    torch.testing.assert_close(dict(ours.state_dict()), dict(eager.state_dict()))
    assert ours.calls.tolist() == [2, 2, 2]


def test_a_program_that_writes_what_has_gradients_has_none() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * y

    class Keeps(Counted):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.calls = self.norm.bias.sum() + x + y
            return self.calls * 1

    kept = Keeps()
    kept.calls = torch.zeros(2)
    kept.norm.requires_grad_(False)
    for program, given in (
        (step, (True, False)),
        (torch.Tensor.add_, (False, True)),
        (kept, (False, True)),
    ):
        x, y = (torch.zeros(2).requires_grad_(requires) for requires in given)
        compiled = dlc.compile(program, (x, y), backend="host")
        with pytest.raises(ImportFailure, match=r"writes to '.*' what requires a gradient"):
            compiled(x, y)
        assert x.tolist() == [0, 0]
        with torch.no_grad():
            assert compiled(x, y).tolist() == program(torch.zeros(2), y).tolist()
    assert not kept.calls.requires_grad


def test_a_change_before_the_backward_is_an_error():
    x = torch.randn(3, requires_grad=True)
    y = x * 1
    result = dlc.compile(torch.square, (y,), backend="host")(y)
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("whole", [True, False])
def test_results_that_share_memory_share_gradients(whole: bool) -> None:
    """They are views of one result of `@main`, which need not be the user's."""

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = x @ x
        return [y[0], y[1:], y.t(), x.t()] + [y] * whole

    given = torch.randn(4, 4)
    gradients: list[torch.Tensor] = []
    for f in (program, dlc.compile(program, (given,), backend="host")):
        x = given.clone().requires_grad_()
        sum((n + 1) * (r * r).sum() for n, r in enumerate(f(x))).backward()  # pyright: ignore
        assert x.grad is not None
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.norm, self.linear = 2.0, nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.linear.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.linear(self.norm(x))) * self.scale


def _retie(m: Scaled) -> None:
    m.linear.weight = m.tied.weight = nn.Parameter(torch.ones(4, 4))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "scale", 7.0),
        lambda m: m.train(),
        lambda m: setattr(m, "linear", nn.Linear(4, 4)),
        lambda m: setattr(m.linear, "weight", nn.Parameter(torch.ones(4, 4))),
        _retie,
        lambda m: m.norm.register_forward_hook(lambda m, a, out: out * 2),
        lambda m: torch.set_default_dtype(torch.float64),
    ],
    ids="attribute mode module parameter tied hook default".split(),
)
def test_a_backward_is_that_of_its_forward(change: Callable[[Scaled], object]) -> None:
    """Whatever changes between the two; and it moves nothing."""
    torch.manual_seed(0)
    m, x = Scaled().eval(), torch.randn(3, 4, requires_grad=True)
    wanted = [x, *m.parameters()]
    expected = torch.autograd.grad(m(x).pow(2).sum(), wanted)
    loss = dlc.compile(m, (x,), backend="host")(x).pow(2).sum()
    try:
        change(m)
        state = {name: tensor.clone() for name, tensor in m.state_dict().items()}
        kept = m.scale, m.training, m.linear, m.linear.weight, m.tied.weight
        found = torch.autograd.grad(loss, wanted)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(m.state_dict(), state)
    now = m.scale, m.training, m.linear, m.linear.weight, m.tied.weight
    assert all(a is b for a, b in zip(kept, now, strict=True))


def test_a_changed_list_of_arguments() -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    given = [x, y]
    result = dlc.compile(lambda pair: pair[0] * pair[1], (given,), backend="host")(given)
    given.reverse()
    given.append(x)
    torch.testing.assert_close(torch.autograd.grad(result.sum(), [x, y]), (y, x))


def test_results_require_gradients_as_in_eager() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        with torch.no_grad():
            z = x + 1
        p = x * 3
        return x.detach() * 2, p, x.detach(), x, y.exp(), z, p.detach(), z * y, p.argmax()

    flags: list[list[bool]] = []
    for first, second in ((True, False), (False, True), (True, True), (False, False)):
        x, y = torch.ones(3, requires_grad=first), torch.ones(3, requires_grad=second)
        for f in (program, dlc.compile(program, (x, y), backend="host")):
            flags.append([tensor.requires_grad for tensor in f(x, y)])
        assert flags[-1] == flags[-2]


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (torch.vmap, r"dlc\.compile\(torch\.vmap\(f\), args\)"),
        (torch.func.grad, r"make_fx\(torch\.func\.grad\(f\)\)"),
        (lambda f: lambda x: torch.func.jvp(f, (x,), (x,)), "jvp"),
    ],
)
def test_transforms_are_refused(transform: Callable[..., Any], words: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    x = torch.randn(2, 3)
    compiled = dlc.compile(program, (x[0],), backend="host")
    with pytest.raises(ImportFailure, match=words):
        transform(compiled)(x)
    mapped = dlc.compile(torch.vmap(program), (x,), backend="host")
    torch.testing.assert_close(mapped(x), (x * x).sum(1))


def test_tangents_are_not_lost() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    x = torch.randn(2, 3)
    compiled = dlc.compile(program, (x,), backend="host")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(ImportFailure, match="a tangent of forward-mode"):
            compiled(dual)
        torch.testing.assert_close(compiled(x), x.sin())
        found = torch.compile(program, backend="dlc")(dual)
        torch.testing.assert_close(forward_ad.unpack_dual(found).tangent, x.cos())
