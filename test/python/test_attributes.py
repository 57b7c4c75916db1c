"""Numbers, strings and flags that modules hold are those of the call."""

from __future__ import annotations

import collections
import enum
import math
import operator
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.source import ImportFailure


class Mode(enum.Enum):
    SUM = "sum"
    PRODUCT = "product"


class Inner(nn.Module):
    unit = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.mode = Mode.SUM
        self.axes = (0, 1)
        self.label: str | None = None
        self.unread = 7

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale if self.mode is Mode.SUM else x**self.scale
        x = x.permute(*self.axes) + self.unit
        return x if self.label is None else x * len(self.label)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.unregistered = [Inner()]
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.inner(x)) + self.unregistered[0](x)


X = torch.arange(1.0, 10.0).view(3, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("scale", 3.0), ("mode", Mode.PRODUCT), ("axes", (1, 0)), ("label", "abc"), ("unit", 5)],
)
@pytest.mark.parametrize("registered", [True, False])
def test_changes_are_followed(name: str, value: Any, registered: bool) -> None:
    m = Outer().eval()
    inner = m.inner if registered else m.unregistered[0]
    f = dlc.compile(m, (X,), backend="host")
    before = m(X)
    own = getattr(inner, name)
    setattr(inner, name, value)
    torch.testing.assert_close(f(X), m(X))
    assert not torch.equal(m(X), before)
    setattr(inner, name, own)
    torch.testing.assert_close(f(X), before)
    assert len(f.variants) == 2
    inner.unread = 8
    torch.testing.assert_close(f(X), before)
    assert len(f.variants) == 2


def test_modules_of_a_function_are_followed() -> None:
    m = Inner()
    f = dlc.compile(lambda x: m(x).relu(), (X,), backend="host")
    m.scale = -1.0
    torch.testing.assert_close(f(X), m(X).relu())


def test_a_type_is_a_change() -> None:
    """`x * 2` and `x * 2.0` differ where x holds integers."""
    m, i = Inner(), torch.arange(9).view(3, 3)
    m.scale, m.unit = 2, 0
    f = dlc.compile(m, (i,), backend="host")
    m.scale = 2.0
    assert f(i).dtype == m(i).dtype == torch.float32


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x + self.n


def test_a_count_in_an_attribute_is_refused() -> None:
    with pytest.raises(ImportFailure, match=r"changes the attribute 'n' of a Counter, .* 0 to 1"):
        dlc.compile(Counter(), (X,), backend="host")


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.roots = SimpleNamespace(of={})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known = self.roots.of
        if x.shape[0] not in known:
            known[x.shape[0]] = math.sqrt(x.shape[0])
        return x / known[x.shape[0]]


def test_what_a_program_remembers_is_there_after_a_call_in_pytorch() -> None:
    model = Remembers()
    with pytest.raises(ImportFailure, match="changes the variable 'of'") as refused:
        dlc.compile(model, (X,), backend="host")
    assert "is there after a call in PyTorch" in refused.value.__notes__[0]
    wanted = model(X)
    torch.testing.assert_close(dlc.compile(model, (X,), backend="host")(X), wanted)
    again = Remembers()
    compiled = torch.compile(again, backend="dlc")
    torch.testing.assert_close((compiled(X), compiled(X)), (wanted, wanted))
    assert again.roots.of == model.roots.of


def test_a_count_under_torch_compile_counts() -> None:
    m, eager = Counter(), Counter()
    f = torch.compile(m, backend="dlc")
    for _ in range(3):
        torch.testing.assert_close(f(X), eager(X))
    assert m.n == eager.n


def test_modules_are_left_as_they_were() -> None:
    dlc.compile(nn.Softmax(-1), (X,), backend="host")
    assert "__getattribute__" not in vars(nn.Module)


def test_what_every_module_has_is_not_guarded() -> None:
    f = dlc.compile(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), (X,), backend="host")
    program: ImportedProgram = f.variants[0].program
    names = {name for _, name in program.attributes.read}
    assert names - {"training"} == {"normalized_shape", "eps"}


class Table(nn.Module):
    """Attributes that are containers, objects and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.long = [float(n) for n in range(40)]
        self.nested = {"a": [(1.0, {"b": 2.0})], "dtype": torch.float32}
        self.act: Any = torch.relu
        self.bias = None
        self.sub = nn.Sequential(nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.sub(self.act(x)) * sum(self.long) + self.nested["a"][0][1]["b"]
        if self.bias is not None:
            x = x + self.bias
        return (x * getattr(self, "extra", 1.0)).to(self.nested["dtype"])


def _set(name: str, value: object) -> Callable[[Table], None]:
    return lambda m: setattr(m, name, value)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.long.__setitem__(30, -7.0),
        lambda m: m.long.append(1.0),
        lambda m: m.nested["a"][0][1].update(b=5.0),
        lambda m: m.nested.update(dtype=torch.float64),
        _set("act", torch.sin),
        _set("extra", 3.0),
        _set("bias", nn.Parameter(torch.ones(3), False)),
        _set("sub", nn.Tanh()),
        lambda m: m.sub.append(nn.Tanh()),
        lambda m: m.sub.register_forward_hook(lambda m, a, out: out * 2),
    ],
    ids="item append nested dtype function extra bias module inner hook".split(),
)
def test_changes_inside_of_attributes_are_followed(change: Callable[[Table], object]) -> None:
    m = Table()
    f = dlc.compile(m, (X,), backend="host")
    before = m(X)
    change(m)
    for _ in range(2):
        torch.testing.assert_close(f(X), m(X))
    assert m(X).dtype != before.dtype or not torch.equal(m(X), before)
    assert len(f.variants) == 2


def test_weights_that_are_tied_no_more() -> None:
    m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).requires_grad_(False)
    m[1].weight = m[0].weight
    f = dlc.compile(m, (X,), backend="host")
    m[1].weight = nn.Parameter(torch.ones(3, 3), False)
    torch.testing.assert_close(f(X), m(X))


@pytest.mark.parametrize(
    ("first", "second"),
    [(0.0, -0.0), (1, True), (1, 1.0), ((1,), (True,)), ([2], [2.0]), ({"k": 0.0}, {"k": -0.0})],
)
def test_equal_values_of_two_kinds_are_two_constants(first: Any, second: Any) -> None:
    m = Inner()
    m.label = first
    m.forward = lambda x: x if m.label is None else x + 1  # type: ignore[method-assign]
    f = dlc.compile(m, (X,), backend="host")
    for value, count in ((first, 1), (second, 2), (first, 2), (math.nan, 3), (-math.nan, 3)):
        m.label = value  # pyright: ignore[reportAttributeAccessIssue]
        f(X)
        assert len(f.variants) == count


def test_what_a_program_gathers_in_an_attribute() -> None:
    """A list that it makes itself is no state; one that it finds is."""

    class Gathers(nn.Module):
        def __init__(self, own: bool) -> None:
            super().__init__()
            self.own, self.found = own, []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.own:
                self.found = []
            self.found.append(x.shape[0])
            return x + self.found[-1]

    f = dlc.compile(Gathers(True), (X,), backend="host")
    f(X)
    assert len(f.variants) == 1
    with pytest.raises(ImportFailure, match="changes the attribute 'found' of a Gathers"):
        dlc.compile(Gathers(False), (X,), backend="host")


def test_a_compilation_inside_of_one() -> None:
    inner = dlc.compile(nn.Linear(3, 3), (X,), backend="host")
    ones, made = torch.ones(2, 2), []

    def program(x: torch.Tensor) -> torch.Tensor:
        made.append(dlc.compile(nn.Softmax(-1), (ones,), backend="host"))
        return inner(x) + made[-1](ones).sum()

    f = dlc.compile(program, (X,), backend="host")
    torch.testing.assert_close(f(X), inner(X) + 2)
    names = {"x", "inner.weight", "inner.bias", "ones"}
    assert {a.name for a in f.variants[0].program.arguments} == names
    assert made[0](ones).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert "__getattribute__" not in vars(nn.Module)


def test_compilations_in_threads() -> None:
    models, found = [Inner() for _ in range(4)], dict[int, torch.Tensor]()

    def run(n: int) -> None:
        models[n].scale = n + 1.0
        found[n] = dlc.compile(models[n], (X,), backend="host")(X)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, m in enumerate(models):
        torch.testing.assert_close(found[n], m(X))
    assert "__getattribute__" not in vars(nn.Module)


class Slotted:
    __slots__ = ("model", "scale")

    def __init__(self, scale: float, model: nn.Module | None) -> None:
        self.scale, self.model = scale, model


class Plain:
    scale = 0.5

    def __init__(self, scale: float, model: nn.Module | None) -> None:
        self._factor, self.model = scale, model

    def __getitem__(self, i: int) -> float:
        return self._factor * i


def held_by_objects() -> Iterator[tuple[Any, Callable[[torch.Tensor], torch.Tensor]]]:
    """Objects, each with a program that reads two numbers of them and a module."""
    slotted = Slotted(2.0, nn.Linear(3, 3))
    yield slotted, lambda x: slotted.model(x) * slotted.scale  # pyright: ignore
    plain = Plain(2.0, nn.Linear(3, 3))
    yield plain, lambda x: plain.model(x) * plain[2] * plain.scale  # pyright: ignore
    space = SimpleNamespace(model=nn.Linear(3, 3), scale=2.0)
    around = [SimpleNamespace(inner=space)]
    yield space, lambda x: around[0].inner.model(x) * getattr(space, "scale")

    class Configured(nn.Module):
        def __init__(self, config: Any) -> None:
            super().__init__()
            self.config = config

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.config.model(x) * self.config.scale

    config = Slotted(2.0, nn.Linear(3, 3))
    yield config, Configured(config)


@pytest.mark.parametrize("which", range(4))
def test_what_objects_hold_is_followed(which: int) -> None:
    held, program = list(held_by_objects())[which]
    compiled = dlc.compile(program, (X,), backend="host", target="sm_90")

    def compare() -> None:
        found, wanted = compiled(X), program(X)
        assert torch.allclose(found, wanted, atol=1e-5)
        parameters = list(held.model.parameters())
        for one, other in zip(
            torch.autograd.grad(found.sum(), parameters),
            torch.autograd.grad(wanted.sum(), parameters),
            strict=True,
        ):
            assert torch.allclose(one, other, atol=1e-4)

    compare()
    for parameter in held.model.parameters():
        parameter.data = parameter.data * 2
    compare()
    assert len(compiled.variants) == 1
    held.model = nn.Linear(3, 3)
    compare()
    held.scale = 5.0
    compare()
    if isinstance(held, Plain):
        held._factor = 7.0
        compare()


def test_what_is_asked_for_by_texts_is_compared() -> None:
    space = SimpleNamespace(eps=2.0, inner=SimpleNamespace(scale=3.0), bias=1.0)

    def program(x: torch.Tensor) -> torch.Tensor:
        scale = operator.attrgetter("inner.scale")(space)
        return x * vars(space)["eps"] * scale + space.__dict__["bias"]

    compiled = dlc.compile(program, (X,), backend="host", target="sm_90")
    for held, name in ((space, "eps"), (space.inner, "scale"), (space, "bias")):
        setattr(held, name, 5.0)
        assert torch.allclose(compiled(X), program(X))


def test_tensors_of_objects_are_arguments() -> None:
    one, other = (SimpleNamespace(w=torch.randn(3, requires_grad=True)) for _ in range(2))
    compiled = dlc.compile(lambda x: x * one.w + other.w, (X,), backend="host", target="sm_90")
    other.w = torch.randn(3, requires_grad=True)
    one.w.data += 1
    assert torch.allclose(compiled(X), X * one.w + other.w)
    (gradient,) = torch.autograd.grad(compiled(X).sum(), (other.w,))
    assert torch.equal(gradient, torch.full((3,), 3.0))
    assert len(compiled.variants) == 1


@dataclass
class Progress:
    scale: float
    step: int = 0
    mean: float = 0.0

    def times(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale


class Guarded:
    __slots__ = ("scale", "shift")

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __getattr__(self, name: str) -> float:
        raise KeyError(name)


def test_fields_of_objects_that_code_does_not_name_make_no_variants() -> None:
    progress, guarded = Progress(2.0), Guarded(3.0)
    space = SimpleNamespace(
        progress=progress, guarded=guarded, around=weakref.proxy(Plain(1, None))
    )

    def program(x: torch.Tensor) -> torch.Tensor:
        around = space.around if x.dim() == 7 else None
        x = x if around is None else x + around
        x = x - x.mean() * 0
        return x * space.progress.scale * space.guarded.scale * getattr(space, "more", 1.0)

    compiled = dlc.compile(program, (X,), backend="host", target="sm_90")
    progress.step, guarded.shift, progress.mean = 1, 2.0, 3.0
    assert torch.equal(compiled(X), X * 6)
    assert len(compiled.variants) == 1
    space.more = 5.0
    assert torch.equal(compiled(X), X * 30)


class Called(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.progress, self.beside = Progress(2.0), Progress(1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match self.progress:
            case Progress(scale, mean=shift):
                return self.progress.times(x, scale) + shift


def test_methods_and_objects_that_are_replaced_and_patterns_make_variants() -> None:
    model = Called()
    compiled = dlc.compile(model, (X,), backend="host", target="sm_90")

    def change(of: Any, name: str, value: Any) -> int:
        setattr(of, name, value)
        assert torch.equal(compiled(X), model(X))
        return len(compiled.variants)

    assert change(model, "beside", Progress(3.0)) == 1
    assert change(model.progress, "scale", 3.0) == 2
    assert change(model.progress, "mean", 1.0) == 3
    assert change(model.progress, "times", lambda x, scale: x - scale) == 4
    assert change(model, "progress", Progress(5.0)) == 5


KEPT: dict[str, list[torch.Tensor]] = {"sums": []}
LAST = SimpleNamespace(sum=None, calls=0, counts=collections.Counter("ab"))


def keeps_in_a_list(x: torch.Tensor) -> torch.Tensor:
    KEPT["sums"].append(x.sum())
    return x * 2


def keeps_in_an_object(x: torch.Tensor) -> torch.Tensor:
    LAST.sum = x.sum() if LAST.sum is None else LAST.sum + x.sum()
    return x * 2


def counts_in_an_object(x: torch.Tensor) -> torch.Tensor:
    LAST.calls += 1
    return x * LAST.calls


def counts_in_a_counter(x: torch.Tensor) -> torch.Tensor:
    LAST.counts["a"] += 1
    return x * 2


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (counts_in_a_counter, "changes the variable 'counts', which it reads"),
        (keeps_in_a_list, "puts a tensor that it computes into the variable 'KEPT'"),
        (keeps_in_an_object, "puts a tensor that it computes into the variable 'sum'"),
        (counts_in_an_object, "changes the variable 'calls', which it reads, from 0 to 1"),
    ],
)
def test_what_a_refused_program_has_changed_is_put_back(program: Any, why: str) -> None:
    with pytest.raises(ImportFailure, match=why):
        dlc.compile(program, (X,), backend="host", target="sm_90")
    assert KEPT == {"sums": []}
    assert (LAST.sum, LAST.calls, LAST.counts) == (None, 0, collections.Counter("ab"))


@lru_cache
def table(n: int) -> torch.Tensor:
    return torch.arange(n) * 0.5


class Cached(nn.Module):
    @lru_cache
    def own(self, n: int) -> torch.Tensor:
        return torch.arange(n) * 0.25

    @cached_property
    def pair(self) -> tuple[float, torch.Tensor]:
        return 2.0, torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale, shift = self.pair
        return x * scale + shift + table(x.shape[0]) * self.own(x.shape[1])


def test_caches_keep_nothing_of_a_trace() -> None:
    module = Cached()
    compiled = dlc.compile(module, (X,), backend="host")
    for x in (X, X[:1]):
        torch.testing.assert_close(compiled(x), module(x))
    assert type(module.pair[1]) is type(table(3)) is type(module.own(3)) is torch.Tensor
