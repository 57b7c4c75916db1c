"""Complex tensors, pairs of reals to the kernels: operations, and the rim of a program."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves, tree_map_only

import dlc
from dlc.frontend.source import ImportFailure
from dlc.judge.accuracy import as_real, compare
from dlc.judge.reference import widened

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR)


def number(*shape: int) -> torch.Tensor:
    return torch.complex(normal(*shape), normal(*shape))


def check(f: Callable[..., Any], *args: Any, longest: int = 64) -> list[torch.Tensor]:
    """The results of a program on the host, which are those of PyTorch and as accurate."""
    exact = tree_leaves(f(*tree_map_only(torch.Tensor, widened, args)))
    eager = tree_leaves(f(*args))
    found = tree_leaves(dlc.compile(f, args, backend="host")(*args))
    for ours, own, reference in zip(found, eager, exact, strict=True):
        if not isinstance(own, torch.Tensor):
            assert ours == own
            continue
        assert (ours.dtype, ours.shape) == (own.dtype, own.shape)
        accuracy = compare(ours, reference, own, longest)
        assert accuracy.ok, f"{accuracy}\n{ours}\n{own}"
    return found


X, Y, R = number(3, 5), number(3, 5), normal(3, 5)
ROWS = torch.tensor([2, 0])

CALCULATING: list[Callable[..., Any]] = [
    lambda x, y, r: (x + y, x - y, x * y, x / y, -x, x * r, r * x, x + r, r - x, x / r, r / x),
    lambda x, y, r: (x * 2.5, x + 1, 3 - x, x / 4, 1 / x, x * 2j, x + (1 - 2j), (1 + 1j) / x),
    lambda x, y, r: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=1 + 2j), torch.rsub(x, y)),
    lambda x, y, r: (x.abs(), x.angle(), x.conj(), x.real, x.imag, x.conj().imag, x.sgn()),
    lambda x, y, r: (x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.reciprocal(), x.square()),
    lambda x, y, r: (x.sin(), x.cos(), x.sinh(), x.cosh(), x**2, x**3, x**0.5, x**-1, x**0),
    lambda x, y, r: (x.sum(), x.sum(1), x.mean(0), x.mean(), x.cumsum(1), torch.addcmul(x, y, x)),
    lambda x, y, r: (x == y, x == x, x != y, x.isnan(), x.isfinite(), x.isinf(), x == 1j),
    lambda x, y, r: (torch.linalg.vector_norm(x), x.abs().sum(), x.any(), x.all(1), ~x.bool()),
    lambda x, y, r: (torch.polar(r, r), torch.complex(r, r[:1]), r.to(torch.complex64), r * 1j),
    lambda x, y, r: (torch.exp(1j * r), torch.view_as_real(x), torch.view_as_complex(r[:, :2] + 0)),
    lambda x, y, r: (
        x.mul(y.conj()),
        (x.conj() * 2).conj(),
        x.conj().real,
        x.conj().resolve_conj(),
    ),
    lambda x, y, r: (torch.zeros_like(x) + x, torch.ones_like(x), torch.full_like(x, 1 + 2j)),
    lambda x, y, r: (
        x + torch.zeros(5, dtype=torch.complex64),
        torch.eye(3, dtype=x.dtype) @ x,
        x.to(torch.complex128),
    ),
]
MOVING: list[Callable[..., Any]] = [
    lambda x, y, r: (x.T, x.reshape(5, 3), x[1], x[:, 2:], x[..., None], x.flatten(), x.flip(0)),
    lambda x, y, r: (torch.cat([x, y], 1), torch.stack([x, y]), torch.cat([x, r]), x.roll(2, 1)),
    lambda x, y, r: (torch.where(r > 0, x, y), torch.where(r > 0, x, 0.0)),
    lambda x, y, r: (x.expand(2, 3, 5), x.repeat(2, 1), x.unbind(1), x.split(2, 1), x.tril()),
    lambda x, y, r: (F.pad(x, (1, 2)), x[ROWS], x.index_select(1, ROWS), x.masked_fill(r > 0, 2j)),
    lambda x, y, r: (x.diagonal(), x.gather(1, ROWS[None]), x.mH, x.adjoint()),
]
PRODUCTS: list[Callable[..., Any]] = [
    lambda x, y, r: (x @ y.T, x @ y.mH, torch.mm(x.T, y), x @ y[0], torch.dot(x[0], y[0])),
    lambda x, y, r: (torch.vdot(x[0], y[0]), torch.einsum("ij,kj->ik", x, y), r @ y.real.T),
    lambda x, y, r: (torch.bmm(x[None], y.T[None]), F.linear(x, y), F.linear(x, y, y[:, 0])),
    lambda x, y, r: (torch.addmm(x[:, :3], x, y.T, alpha=2, beta=1j), torch.outer(x[0], y[0])),
]


@pytest.mark.parametrize("function", CALCULATING + MOVING + PRODUCTS)
def test_operations(function: Callable[..., Any]) -> None:
    check(function, X, Y, R)


@pytest.mark.parametrize("function", CALCULATING[:8] + MOVING[:4])
def test_strides_and_conjugates_as_arguments(function: Callable[..., Any]) -> None:
    check(function, number(5, 6).T[::2].conj(), number(3, 10)[:, ::2], normal(3, 10)[:, ::2])


def rotated(q: torch.Tensor, k: torch.Tensor, table: torch.Tensor) -> Any:
    """The rotary embedding of Llama's reference."""
    pairs = [torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (q, k)]
    table = table.view(1, table.shape[0], 1, table.shape[1])
    return [
        torch.view_as_real(x * table).flatten(3).type_as(y)
        for x, y in zip(pairs, (q, k), strict=True)
    ]


def test_rotary_embeddings_are_one_kernel_each() -> None:
    angles = torch.outer(torch.arange(7.0), 1.0 / 100.0 ** (torch.arange(0, 8, 2) / 8))
    table = torch.polar(torch.ones_like(angles), angles)
    args = normal(2, 7, 3, 8), normal(2, 7, 1, 8), table
    check(rotated, *args)
    assert len(dlc.compile(rotated, args, backend="host").kernels) == 2


SPECIAL = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 1e30, -1e-30])


def test_products_of_what_is_not_finite_are_those_of_eager() -> None:
    parts = torch.complex(SPECIAL.repeat(9), SPECIAL.repeat_interleave(9))
    x, y = parts[:, None], parts[None]
    mine = dlc.compile(lambda x, y: x * y, (x, y), backend="host")(x, y)
    (a, b), (c, d) = ((z.real.clone(), z.imag.clone()) for z in (x, y))
    torch.testing.assert_close(mine.real, a * c - b * d, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(mine.imag, a * d + b * c, equal_nan=True, rtol=0, atol=0)


def test_functions_at_the_limits() -> None:
    re = [3e38, 3e38, 0.0, -0.0, 90.0, inf, -inf, 1e-30, -4.0]
    im = [3e38, -1.0, 0.0, 2.0, 1.5, 0.0, 1.0, -1e-30, -0.0]
    x = torch.complex(*torch.tensor([re, im]))

    def f(x: torch.Tensor) -> Any:
        return x.abs(), x.angle(), x.exp(), x.sqrt(), x.isinf()

    mine = dlc.compile(f, (x,), backend="host")(x)
    for ours, reference in zip(mine, f(x.to(torch.complex128)), strict=True):
        torch.testing.assert_close(
            as_real(ours), as_real(reference).to(as_real(ours).dtype), equal_nan=True
        )
    assert mine[3].imag.signbit().tolist() == x.imag.signbit().tolist()


def test_quotients_do_not_overflow() -> None:
    x = torch.complex(torch.tensor([1e30, 1.0, 2e-30, 1.0]), torch.tensor([1e30, 2.0, 1e-30, 1.0]))
    y = torch.complex(
        torch.tensor([2e30, 3e-20, 1e-30, 0.0]), torch.tensor([1e30, 0.0, -1e-30, 5.0])
    )
    mine = dlc.compile(lambda x, y: (x / y, 1 / y), (x, y), backend="host")(x, y)
    wide_x, wide_y = widened(x), widened(y)
    for ours, reference in zip(mine, (wide_x / wide_y, 1 / wide_y), strict=True):
        torch.testing.assert_close(ours, reference.to(ours.dtype), rtol=1e-6, atol=0)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (1, 1, 1)])
def test_extents_of_0_and_1(shape: tuple[int, ...]) -> None:
    check(lambda x: (x * x.conj(), x.abs(), x.sum(), x.real, x), number(*shape))


def test_double_precision() -> None:
    x, y = number(4).to(torch.complex128), number(4)
    found = check(lambda x, y: (x * x, x.exp(), x + y), x, y)
    assert {t.dtype for t in found} == {torch.complex128}


# The rim


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_halves() -> None:
    def f(x: torch.Tensor, r: torch.Tensor) -> Any:
        z = torch.complex(r.half(), r.half() + 1)
        return x * z, r.chalf(), x.abs(), x.cfloat(), torch.view_as_real(x - 2j), (x + 1).conj()

    x, r = number(3, 4).chalf(), normal(3, 4)
    for compiled in (dlc.compile(f, (x, r), backend="host"),
                     torch.compile(f, backend="dlc", options={"backend": "host"})):  # fmt: skip
        for ours, own in zip(compiled(x, r), f(x, r), strict=True):
            assert (ours.dtype, ours.stride()) == (own.dtype, own.stride())
            torch.testing.assert_close(
                ours.to(torch.cfloat), own.to(torch.cfloat), rtol=2e-3, atol=2e-3
            )


def test_what_memory_is_shared_is_that_of_eager() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return x, x[1:], x.conj(), y, y[:, 1:], y.conj(), 3, x.imag

    x = number(3, 4)
    mine = dlc.compile(f, (x,), backend="host")(x)
    for ours, own in zip(tree_leaves(mine), tree_leaves(f(x)), strict=True):
        if isinstance(own, torch.Tensor):
            torch.testing.assert_close(ours, own)
    assert mine[0].data_ptr() == x.data_ptr()
    assert mine[1].data_ptr() == x[1:].data_ptr()


def test_arguments_are_written_to() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(1j)
        y[1:] += x.conj()
        return x + 1

    args = number(3, 4).T, number(5, 3)
    own = [t.clone() for t in args]
    compiled = dlc.compile(f, args, backend="host")
    torch.testing.assert_close(compiled(*args), f(*own))
    torch.testing.assert_close(list(args), own)
    with pytest.raises(ImportFailure, match="its conjugates"):
        compiled(args[0].T.conj().T, args[1])


def test_the_layout_of_a_result_is_that_of_eager() -> None:
    x = number(3, 4)
    (mine,) = dlc.compile(lambda x: (x.T * 2,), (x,), backend="host")(x)
    assert mine.stride() == (x.T * 2).stride()


class Turned(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(number(4))
        self.table = torch.nn.Buffer(torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.table


def test_parameters_and_saved_programs(tmp_path: Path) -> None:
    module, x = Turned(), number(3, 4)
    with torch.no_grad():
        compiled = dlc.compile(module, (x,), backend="host")
        torch.testing.assert_close(compiled(x), module(x))
        compiled.save(tmp_path / "p.dlc")
        torch.testing.assert_close(dlc.load_program(tmp_path / "p.dlc")(x), module(x))
        module.weight.mul_(2)
        torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize("stage", ["torch", "tensor", "loop", "kernel"])
def test_files_take_complex_tensors(tmp_path: Path, stage: Any) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x * y
        return z[1:], z, y.abs(), x[0]

    args = number(3, 4), number(4)
    path = tmp_path / "f.mlir"
    path.write_text(dlc.compile(f, args, backend="host").ir(stage))
    loaded = dlc.load(path, backend="host")
    for ours, own in zip(loaded(*args), f(*args), strict=True):
        torch.testing.assert_close(ours, own)
    with pytest.raises(TypeError, match=r"expected y to be torch.complex64 \[4\]"):
        loaded(args[0], normal(4))


def test_gradients() -> None:
    module, x = Turned(), number(3, 4).requires_grad_()
    compiled = dlc.compile(module, (x,), backend="host")
    inputs = (x, module.weight)
    mine, own = (torch.autograd.grad(f(x).abs().sum(), inputs) for f in (compiled, module))
    torch.testing.assert_close(mine, own)


def test_under_torch_compile() -> None:
    compiled = torch.compile(
        lambda x, y: (x * y.conj()).abs(), backend="dlc",
        options={"fallback": False, "backend": "host"},
    )  # fmt: skip
    torch.testing.assert_close(compiled(X, Y), (X * Y.conj()).abs())


def test_what_has_no_form_is_named() -> None:
    with pytest.raises(Exception, match=r"aten.tanh.default .*not compiled for complex numbers"):
        dlc.compile(lambda x: x.tanh() * 2, (X,), backend="host")
    with pytest.raises(Exception, match=r"not to 2\.5"):
        dlc.compile(lambda x: x**2.5, (X,), backend="host")


def test_the_simulator_runs_them() -> None:
    compiled = dlc.compile(lambda x, y: x @ y.mH, (X, Y), backend="host")
    assert all(verdict.answer == "clean" for verdict in compiled.check())
