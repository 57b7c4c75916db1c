"""
Torch IR to Tensor IR against eager PyTorch: each program is exported, decomposed, composed and
folded, and run by a NumPy interpreter of Tensor IR after each of the three passes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.ir import Block, Region

from dlc.dialects.tensor_ir import ConstantOp, ElementwiseOp, IndexMapOp, ReduceOp
from dlc.dialects.torch import AtenOp
from dlc.frontend.fx import import_program
from dlc.registry import register
from dlc.transforms.compose_index_maps import ComposeIndexMapsPass
from dlc.transforms.decompose_torch import DecomposeTorchPass, UnsupportedOperations
from dlc.transforms.fold_constants import FoldConstantsPass

_spec = importlib.util.spec_from_file_location(
    "tensor_ir_interpreter", Path(__file__).with_name("tensor_ir_interpreter.py")
)
assert _spec is not None
assert _spec.loader is not None
interpreter = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(interpreter)

PASSES = (DecomposeTorchPass(), ComposeIndexMapsPass(), FoldConstantsPass())
Case = Callable[..., Any]


def check(cases: dict[str, Case], *inputs: torch.Tensor, **tolerance: float) -> ModuleOp:
    """Exports all cases as one program and compares each with eager, after each pass."""

    class Program(nn.Module):
        def forward(self, *args: torch.Tensor) -> dict[str, Any]:
            return {name: case(*args) for name, case in cases.items()}

    program = import_program(Program(), inputs)
    with torch.no_grad():
        expected = Program()(*inputs)
    bound = program.bind(inputs)
    for step in PASSES:
        step.apply(Context(), program.module)
        program.module.verify()
        results = interpreter.run(program.module, bound)
        found = program.unflatten(results, bound)
        wrong: list[str] = []
        for name, value in expected.items():
            try:
                compare(found[name], value, f"{name} after {step.name}", **tolerance)
            except AssertionError as error:
                wrong.append(str(error))
        assert not wrong, "\n\n".join(wrong)
    return program.module


def compare(found: Any, expected: Any, name: str, **tolerance: float) -> None:
    if isinstance(expected, torch.Tensor):
        if expected.dtype is torch.uint8:
            found = found.view(torch.uint8)
        torch.testing.assert_close(
            found, expected, equal_nan=True, msg=lambda text: f"{name}: {text}", **tolerance
        )
        return
    assert len(found) == len(expected), name
    for n, (one, other) in enumerate(zip(found, expected, strict=True)):
        compare(one, other, f"{name}[{n}]", **tolerance)


def lowered(case: Case, *inputs: torch.Tensor) -> ModuleOp:
    return check({"y": case}, *inputs)


def count(module: ModuleOp, kind: type) -> int:
    return sum(isinstance(op, kind) for op in module.walk())


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor(
    [
        [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5],
        [-2.5, 3.0, 6.5, -6.5, 20.5, 88.0, -88.0, 1e-3],
        [-1e-3, 1e-30, 1e30, -1e30, INF, -INF, NAN, 0.7],
    ]
)

UNARY: dict[str, Case] = {
    name: getattr(torch, name)
    for name in (
        "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal tanh sigmoid erf relu "
        "floor ceil round trunc sign square frac isnan isinf isfinite logical_not nan_to_num"
    ).split()
} | {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.5),
    "hardtanh": F.hardtanh,
    "hardtanh_limits": lambda x: F.hardtanh(x, -0.5, 2.0),
    "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, beta=2, threshold=5),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.5, 20.0),
    "rrelu": F.rrelu,
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp_low": lambda x: x.clamp(min=0.5),
    "clamp_high": lambda x: x.clamp(max=0.5),
    "round_decimals": lambda x: torch.round(x, decimals=2),
    "round_tens": lambda x: torch.round(x, decimals=-1),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "where_numbers": lambda x: torch.where(x > 0, 1, 0),
    "where_first": lambda x: torch.where(x > 0, 2.0, x),
    "masked_fill": lambda x: x.masked_fill(x < 1, -INF),
    "add": lambda x: x + 1,
    "radd": lambda x: torch.add(x, 2, alpha=3),
    "rsub": lambda x: 1 - x,
    "rdiv": lambda x: 3 / x,
    "floor_divide": lambda x: x // 3,
    "floor_divide_negative": lambda x: x // -0.7,
    "div_floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "div_trunc": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "remainder": lambda x: x % 2,
    "fmod": lambda x: torch.fmod(x, 0.5),
    "nan_limits": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "compare": lambda x: (x > 0, x >= 1, x < 1, x <= 1, x == 1, x != 1),
    "logical": lambda x: (x > 0) & (x < 2) | (x == -1) ^ (x < 0),
}
POWERS: dict[str, Case] = {
    f"pow {p}": lambda x, p=p: x**p for p in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.7, 5)
} | {"base": lambda x: 2.0**x, "tensors": lambda x: torch.pow(x.abs(), x)}


def test_functions_of_one_element() -> None:
    check(UNARY | POWERS, SPECIAL)


def test_functions_of_small_arguments() -> None:
    small: dict[str, Case] = {
        "sin": torch.sin,
        "cos": torch.cos,
        "tan": torch.tan,
        "mish": F.mish,
        "logsigmoid": F.logsigmoid,
    }
    check(small | UNARY, randn(5, 1, 3) * 2)


@pytest.mark.parametrize("shape", [(), (2, 0, 3)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    check(UNARY, randn(*shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_round_once(dtype: torch.dtype) -> None:
    names = "exp log sqrt tanh sigmoid relu silu gelu where add rsub compare clamp masked_fill"
    cases = {name: UNARY[name] for name in names.split()}
    x, y = randn(3, 4, dtype=dtype).abs(), randn(4, dtype=dtype)
    check(
        {k: (lambda x, y, f=f: f(x)) for k, f in cases.items()}
        | {
            "sum": lambda x, y: (x + y) * y,
            "mixed": lambda x, y: x + y.float(),
            "rank 0": lambda x, y: x * y.float()[0],
            "total": lambda x, y: x.sum(1),
            "mean": lambda x, y: x.mean(),
            "max": lambda x, y: x.amax(0),
            "softmax": lambda x, y: x.softmax(-1),
            "to": lambda x, y: (x.float(), x.int(), (x > 1).to(dtype), x.double().to(dtype)),
            "compare number": lambda x, y: x > 0.1,
        },
        x,
        y,
    )


BINARY: dict[str, Case] = {
    "add": lambda x, y: torch.add(x, y, alpha=2),
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "where": lambda x, y: torch.where(x > y, x, y),
    "compare": lambda x, y: (x < y, x == y),
    "logical": lambda x, y: (
        torch.logical_and(x, y),
        torch.logical_or(x, y),
        torch.logical_xor(x, y),
    ),
}
FLOATS: dict[str, Case] = {
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=2),
    "lerp": lambda x, y: (torch.lerp(x, x * 2, 0.3), torch.lerp(x, x * 2, 0.8)),
    "clamp": lambda x, y: torch.clamp(x, y - 1, y + 1),
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
}


@pytest.mark.parametrize(
    ("first", "second"),
    [((3, 5), (3, 5)), ((3, 5), (5,)), ((3, 1), (1, 5)), ((2, 1, 4), (3, 1)), ((), (3,)),
     ((0, 3), (1, 3)), ((1,), (1, 1))],
)  # fmt: skip
def test_broadcasting(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    check(BINARY | FLOATS, randn(*first), randn(*second, seed=1))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("int64", "int64"),
        ("int32", "int64"),
        ("uint8", "uint8"),
        ("uint8", "int8"),
        ("int16", "int32"),
        ("int64", "float32"),
        ("float32", "float64"),
        ("bool", "bool"),
        ("bool", "int32"),
        ("uint8", "float32"),
    ],
)
def test_types(first: str, second: str) -> None:
    def values(name: str, seed: int) -> torch.Tensor:
        dtype = getattr(torch, name)
        low = 0 if name in ("uint8", "bool") else -9
        high = 2 if name == "bool" else 200 if name == "uint8" else 9
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(low, high, (4, 6), generator=generator).to(dtype)

    x, y = values(first, 0), values(second, 1)
    cases = dict(BINARY)
    if "bool" in (first, second):
        del cases["sub"]
    wide = torch.result_type(x, y).is_floating_point
    if not wide and "bool" not in (first, second):
        cases |= {
            "floor": lambda x, y: torch.div(x, y | 1, rounding_mode="floor"),
            "trunc": lambda x, y: torch.div(x, y | 1, rounding_mode="trunc"),
            "remainder": lambda x, y: (x % (y | 1), torch.fmod(x, y | 1)),
            "power": lambda x, y: x**3,
            "bits": lambda x, y: (x & y, x | y, x ^ y, ~x, x << 2, x >> 1),
            "numbers": lambda x, y: (x + 3, x * 2, x // 3, x % 3, 5 - x, x > 3, x / 2),
            "neg": lambda x, y: (-x, x.abs(), x.sign(), x.relu()),
            "max number": lambda x, y: x.clamp(2, 5),
        }
    if not wide:
        cases |= {"bitwise": lambda x, y: (x & y, x | y, x ^ y, ~x)}
    cases |= {
        "mixed numbers": lambda x, y: (x + 0.5, x * 1.5, x > 0.5, torch.where(x > 0, x, y)),
        "sum": lambda x, y: (x.sum(), x.sum(1), x.prod(0)),
        "extremes": lambda x, y: (x.amax(1), x.amin(0), x.max()),
        "quantifiers": lambda x, y: (x.all(1), x.any(0), x.any()),
        "casts": lambda x, y: (x.float(), x.int(), x.bool(), x.to(torch.uint8), x.short()),
        "cat": lambda x, y: torch.cat([x, y]),
        "tril": lambda x, y: x.tril(),
    }
    if first != "bool":
        cases["arg"] = lambda x, y: (x.argmax(1), x.max(1), x.min(0), x.argmin())
    check(cases, x, y)


REDUCTIONS: dict[str, Case] = {
    "sum": lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.sum(dim=[])),
    "sum wide": lambda x: x.sum(-1, dtype=torch.float64),
    "mean": lambda x: (x.mean(), x.mean(-2, keepdim=True), x.mean((0, 1, 2))),
    "prod": lambda x: (x.prod(), x.prod(-1), x.prod(0, keepdim=True)),
    "any": lambda x: ((x > 1).any(), (x > 1).any(1), (x > 1).any(-1, keepdim=True)),
    "all": lambda x: ((x < 1).all(), (x < 1).all(0), torch.all(x > 0, (0, 2))),
    "count": lambda x: (torch.count_nonzero(x > 0), torch.count_nonzero(x, 1)),
    "nansum": lambda x: torch.nansum(x, 1),
    "norms": lambda x: tuple(torch.linalg.vector_norm(x, p, dim=1) for p in (0, 1, 2, 3, 0.5)),
    "norm": lambda x: (x.norm(), x.norm(dim=-1, keepdim=True)),
    "var": lambda x: (x.var(), x.var(1), x.var((0, 2), unbiased=False), x.var(2, correction=2)),
    "std": lambda x: (x.std(-1, keepdim=True), x.std(unbiased=False)),
    "var_mean": lambda x: torch.var_mean(x, (1, 2), keepdim=True),
    "std_mean": lambda x: torch.std_mean(x, 0),
}
EXTREMES: dict[str, Case] = {
    "amax": lambda x: (x.amax(), x.amax(1), x.amax((0, -1), keepdim=True), x.amin((0, 1))),
    "max": lambda x: (x.max(), x.min(), x.max(1), x.min(-1, keepdim=True)),
    "arg": lambda x: (x.argmax(), x.argmin(0), x.argmax(-1, keepdim=True)),
    "aminmax": lambda x: (torch.aminmax(x), torch.aminmax(x, dim=1, keepdim=True)),
    "infinity norms": lambda x: (
        torch.linalg.vector_norm(x, INF, dim=1),
        torch.linalg.vector_norm(x, -INF),
    ),
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp((0, 2), keepdim=True)),
    "softmax": lambda x: (x.softmax(-1), x.softmax(0), F.softmin(x, 1)),
    "softmax wide": lambda x: F.softmax(x, -1, dtype=torch.float64),
    "log_softmax": lambda x: (x.log_softmax(-1), x.log_softmax(0)),
}


DEGREES = pytest.mark.filterwarnings("ignore:.*degrees of freedom")


@DEGREES
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 1, 1), (4, 1, 7)])
def test_reductions(shape: tuple[int, ...]) -> None:
    check(REDUCTIONS | EXTREMES, randn(*shape))


@DEGREES
def test_reductions_of_nothing() -> None:
    check(REDUCTIONS, randn(3, 0, 2))
    check({"softmax": lambda x: x.softmax(1), "logs": lambda x: x.log_softmax(0)}, randn(3, 0))


def test_reductions_of_a_scalar() -> None:
    check(
        {
            "sum": lambda x: (x.sum(), x.mean(0), x.amax(), x.max(0), x.argmax()),
            "softmax": lambda x: (x.softmax(0), x.log_softmax(0)),
        },
        torch.tensor(0.7),
    )


def test_nan_and_infinity_in_reductions() -> None:
    x = randn(6, 5)
    x[0, 3] = x[0, 1] = NAN
    x[1] = -INF
    x[2, 2] = INF
    x[3, 1:3] = -INF
    x[4] = 1.0
    x[5, 0] = NAN
    names = "amax max arg softmax logsumexp".split()
    cases: dict[str, Case] = {
        "amax": lambda x: (x.amax(1), x.amin(1)),
        "max": lambda x: (x.max(1), x.min(1)),
        "arg": lambda x: (x.argmax(1), x.argmin(1)),
        "softmax": lambda x: (x.softmax(1), x.log_softmax(1)),
        "logsumexp": lambda x: x.logsumexp(1),
    }
    check({name: cases[name] for name in names}, x)


MATRICES: list[tuple[Sequence[int], Sequence[int]]] = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((1, 1), (1, 1)),
    ((3, 0), (0, 5)),
    ((0, 4), (4, 5)),
    ((1, 127), (127, 1)),
]


def test_matmul() -> None:
    tensors = [randn(*shape, seed=n) for n, pair in enumerate(MATRICES) for shape in pair]
    check(
        {
            f"{a} @ {b}": lambda *t, n=n: t[2 * n] @ t[2 * n + 1]
            for n, (a, b) in enumerate(MATRICES)
        },
        *tensors,
    )


def test_contractions_end_in_their_sum() -> None:
    module = lowered(lambda a, b: a @ b, randn(2, 3, 4), randn(2, 4, 5))
    (sum,) = [op for op in module.walk() if isinstance(op, ReduceOp)]
    assert list(sum.axes.get_values()) == [3]
    assert str(sum.inputs[0].type) == "tensor<2x3x5x4xf32>"


def test_products() -> None:
    check(
        {
            "addmm": lambda a, b, c, d: torch.addmm(c, a, b),
            "scaled": lambda a, b, c, d: torch.addmm(c, a, b, beta=0.5, alpha=2),
            "forgotten": lambda a, b, c, d: torch.addmm(c * NAN, a, b, beta=0),
            "baddbmm": lambda a, b, c, d: torch.baddbmm(d, d, d.mT, beta=2),
            "addbmm": lambda a, b, c, d: torch.addbmm(d[0], d, d.mT),
            "addmv": lambda a, b, c, d: torch.addmv(a[:, 0], a, b[:, 0]),
            "linear": lambda a, b, c, d: (F.linear(a, b.t()), F.linear(d, d[0], c[0, :3])),
            "row": lambda a, b, c, d: F.linear(a, b[:, 0]),
            "outer": lambda a, b, c, d: torch.outer(a[0], b[:, 0]),
            "inner": lambda a, b, c, d: (torch.inner(a, b.t()), torch.inner(a[0], b[:, 0])),
            "tensordot": lambda a, b, c, d: torch.tensordot(d, d, dims=([0, 2], [0, 1])),
            "kron": lambda a, b, c, d: torch.kron(a, c),
            "trace": lambda a, b, c, d: torch.trace(a),
            "ij,jk": lambda a, b, c, d: torch.einsum("ij,jk->ik", a, b),
            "ij,jk->": lambda a, b, c, d: torch.einsum("ij,jk", a, b),
            "diagonal": lambda a, b, c, d: torch.einsum("bii->bi", d),
            "sums": lambda a, b, c, d: torch.einsum("bij->j", d),
            "...": lambda a, b, c, d: torch.einsum("...ij,...jk->...ik", d, d[0]),
            "three": lambda a, b, c, d: torch.einsum("ij,jk,il->kl", a, b, c),
            "halves": lambda a, b, c, d: (a.half() @ b.half()).float(),
            "ints": lambda a, b, c, d: a.int() @ b.int(),
        },
        randn(3, 4),
        randn(4, 5),
        randn(3, 5),
        randn(2, 3, 3),
        rtol=2e-3,
        atol=1e-5,
    )


def normalized(name: str, *modules: nn.Module) -> dict[str, Case]:
    """Cases of modules with weights that are not all 0 or 1."""
    for module in modules:
        module.eval()
        for n, tensor in enumerate([*module.parameters(), *module.buffers()]):
            if tensor.is_floating_point():
                tensor.data = randn(*tensor.shape, seed=n).abs() + 0.1
    return {f"{name} {n}": module for n, module in enumerate(modules)}


@pytest.mark.parametrize("shape", [(3, 4, 6), (1, 4, 1), (2, 4, 0)])
def test_normalization(shape: tuple[int, ...]) -> None:
    last = shape[-1]
    cases: dict[str, Case] = {
        "normalize": lambda x: F.normalize(x, dim=1),
        "cosine": lambda x: F.cosine_similarity(x, x * 2 + 1, dim=1),
        "rms": lambda x: F.rms_norm(x, x.shape[1:]),
        "layer": lambda x: F.layer_norm(x, x.shape[-1:]),
        "batch": lambda x: F.batch_norm(x, x[0, :, 0] * 0, x[0, :, 0].abs() * 0 + 2),
    }
    if last > 1:
        cases["instance"] = lambda x: F.instance_norm(x)
    if not last:
        cases = {"rms": lambda x: F.rms_norm(x, x.shape[-1:])}
    modules = normalized(
        "norm",
        nn.RMSNorm(last),
        nn.RMSNorm(last, eps=1e-3),
        nn.LayerNorm(last),
        nn.LayerNorm((4, last)),
        nn.GroupNorm(2, 4),
        nn.BatchNorm1d(4),
    )
    for name, module in modules.items():
        if last or name in ("norm 0", "norm 1", "norm 2"):
            check({name: lambda x, m=module: m(x)}, randn(*shape))
    check(cases, randn(*shape))


def test_rms_norm_of_halves_takes_the_epsilon_of_f32() -> None:
    tiny = randn(2, 8, dtype=torch.float16) * 1e-3
    check({"rms": lambda x: F.rms_norm(x, (8,))}, tiny, rtol=2e-3, atol=1e-4)


SHAPES: dict[str, Case] = {
    "view": lambda x: (x.view(4, 18), x.view(-1), x.view(2, 2, 9, 2), x.reshape(8, 9)),
    "flatten": lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1)),
    "permute": lambda x: (x.permute(2, 0, 1), x.transpose(-1, 0), x.mT, x[0].t(), x[0].T),
    "squeeze": lambda x: (x[:1].squeeze(0), x[:, :1].squeeze(), x.squeeze(1), x.unsqueeze(-1)),
    "expand": lambda x: (x[:1].expand(5, 3, 6), x[0, 0].expand(2, 3, 6), x[0].expand(7, -1, -1)),
    "slice": lambda x: (x[1:], x[:, ::2], x[..., 1:-1], x[:, 1:3:2, 2:], x[5:], x[:, -2:]),
    "select": lambda x: (x[1], x[:, -1], x[..., 0], x[None, 1, ..., 2]),
    "cat": lambda x: (torch.cat([x, x * 2, x[:1]]), torch.cat([x, x[:, :, :1]], -1)),
    "cat empty": lambda x: (torch.cat([x[:0], x]), torch.cat([torch.zeros(0), x[0, 0]])),
    "stack": lambda x: (torch.stack([x, x * 2, x * 3]), torch.stack([x, x * 2], -1)),
    "split": lambda x: (x.split(4, 2), x.split([1, 2], 1), x.chunk(3, -1), x.unbind(1)),
    "tensor_split": lambda x: torch.tensor_split(x, 4, 2),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "flip": lambda x: (x.flip(0), x.flip(-1, 1)),
    "roll": lambda x: (x.roll(2, 1), x.roll((1, -2), (0, 2)), x.roll(5), x.roll(0, 0)),
    "repeat": lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.tile(2), x[:1].tile(3, 1)),
    "interleave": lambda x: (x.repeat_interleave(3, 1), x.repeat_interleave(2)),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 2))),
    "reflect": lambda x: (F.pad(x, (2, 1), mode="reflect"), F.pad(x, (2, 5), mode="circular")),
    "replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "triangles": lambda x: (x.tril(), x.triu(), x.tril(-1), x.triu(2)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(-1, 0, 2), x[0].diag(1)),
    "diag": lambda x: (torch.diag(x[0, 0]), torch.diag_embed(x, 1), torch.diag_embed(x, -2, 0, 2)),
    "unfold": lambda x: (x.unfold(2, 3, 2), x.unfold(0, 1, 1)),
    "rot90": lambda x: tuple(torch.rot90(x, k, (0, 2)) for k in (0, 1, 2, 3)),
    "move": lambda x: (x.movedim(0, 2), x.swapaxes(0, 1), torch.movedim(x, (0, 1), (1, 2))),
    "unflatten": lambda x: x.unflatten(2, (2, 3)),
    "meshgrid": lambda x: (
        torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
        torch.meshgrid(x[0, 0], x[0, :, 0], indexing="xy"),
    ),
    "broadcast": lambda x: torch.broadcast_tensors(x, x.sum(0), x[:1]),
    "glu": lambda x: F.glu(x, -1),
    "shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 12, 2, 3)[:, :12], 2),
    "scatter": lambda x: (
        torch.slice_scatter(x, x[:, :2] * 2, 1, 0, 2),
        torch.slice_scatter(x, x[:, :, :2] * 2, 2, 1, 5, 2),
        torch.select_scatter(x, x[0] * 2, 0, 1),
    ),
    "heads": lambda x: x.view(4, 3, 2, 3).transpose(1, 2).reshape(4, 6, 3).transpose(1, 2),
    "copies": lambda x: (x.clone(), x.contiguous(), x.detach() * 2, x.t_() if x.dim() < 3 else x),
    "assigned": lambda x: _assigned(x),
    "causal": lambda x: torch.full((6, 6), -INF).triu(1) + x[0, 0],
}


def _assigned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:3] = x[:, :2] * 2
    y[..., 0] += 1
    y[0] = 5
    return y


def test_shapes() -> None:
    check(SHAPES, randn(4, 3, 6))


@pytest.mark.parametrize("shape", [(0, 3, 6), (1, 1, 1)])
def test_shapes_of_little(shape: tuple[int, ...]) -> None:
    names = "cat stack flip roll repeat triangles flatten interleave pad broadcast"
    check({name: SHAPES[name] for name in names.split()}, randn(*shape))


def test_creation() -> None:
    check(
        {
            "full": lambda x: (torch.full((2, 3), 2.5), torch.full_like(x, 7), x.new_full((2,), 3)),
            "zeros": lambda x: (torch.zeros(3), torch.zeros_like(x), x.new_zeros(2, 2)),
            "ones": lambda x: (torch.ones(2, dtype=torch.int32), torch.ones_like(x), x.new_ones(1)),
            "arange": lambda x: (torch.arange(5), torch.arange(2, 9, 3), torch.arange(4.0)),
            "steps": lambda x: (torch.arange(0, 1, 0.3), torch.arange(5, 0, -2), torch.arange(0)),
            "linspace": lambda x: (torch.linspace(0, 1, 7), torch.linspace(2, -2, 1)),
            "eye": lambda x: (torch.eye(3), torch.eye(2, 4), torch.eye(3, dtype=torch.bool)),
            "scalar": lambda x: x * torch.tensor(3.0) + torch.tensor([1.0, 2.0, 3.0]),
            "fill": lambda x: (x.clone().fill_(2.0), x.clone().zero_()),
            "one_hot": lambda x: F.one_hot((x > 0).long(), 3),
            "half": lambda x: torch.full((2,), 0.1, dtype=torch.float16),
        },
        randn(2, 3),
    )


def test_indexing() -> None:
    table = randn(5, 4, 3)
    i, j = torch.tensor([0, 3, -1]), torch.tensor([[1], [2]])
    check(
        {
            "embedding": lambda x, i, j: F.embedding(j, x[:, 0]),
            "select": lambda x, i, j: (x.index_select(0, i.abs()), x.index_select(-1, j[:, 0])),
            "gather": lambda x, i, j: (x[0].gather(0, j), x[0].gather(1, i.abs()[None] % 3)),
            "first": lambda x, i, j: (x[i], x[j], x[i, i % 4], x[j, i % 4]),
            "middle": lambda x, i, j: (x[:, i], x[:, j, i % 3], x[..., j], x[:, :, i % 3]),
            "apart": lambda x, i, j: (x[i, :, i % 3], x[j, 1:, i % 3]),
            "with slices": lambda x, i, j: (x[None, i], x[1, i], x[2:, i, 0]),
            "along": lambda x, i, j: torch.take_along_dim(x[0], j, 1 - 1),
            "one hot": lambda x, i, j: F.one_hot(j, 4),
            "losses": lambda x, i, j: (F.mse_loss(x, x * 2), F.l1_loss(x, x * 2, reduction="sum")),
            "bytes": lambda x, i, j: x[i.int()],
            "transposed": lambda x, i, j: x.transpose(0, 1)[i],
        },
        table,
        i,
        j,
    )


def test_rarer_forms() -> None:
    x, i = randn(2, 3), torch.arange(6).reshape(2, 3)
    check(
        {
            "prelu": lambda x, i: (F.prelu(x, x[0].abs()), F.prelu(x, torch.tensor(0.1))),
            "integers": lambda x, i: (i.isinf(), i.isfinite(), i.isnan(), i.nan_to_num()),
            "shifts": lambda x, i: (i << 2, i >> 1, ~i, i & 3, 3 | i, i ^ 1),
            "moves": lambda x, i: (x.movedim(0, 1), x.moveaxis((0, 1), (1, 0)), x.swapaxes(0, 1)),
            "parts": lambda x, i: (x.narrow(1, -2, 1), x.unfold(1, 2, 1), x[0, 0].unfold(0, 1, 1)),
            "scalars": lambda x, i: (x[0, 0].gather(0, i[0, 0]), x[0, 0].index_select(0, i[0, :1])),
            "along": lambda x, i: (x.take_along_dim(i[:, :1]), x.take_along_dim(i[:1] % 2, 0)),
            "products": lambda x, i: (torch.kron(x, x), i.trace(), torch.inner(x[0, 0], x)),
            "losses": lambda x, i: (F.l1_loss(x, 2 * x, reduction="none"), F.mse_loss(x, x + 1)),
            "slices": lambda x, i: (x.slice_scatter(x[:, :2] * 2, 1, 0, 3, 2), x.clamp(x[0], x[1])),
            "nothing": lambda x, i: (x.slice_scatter(x[:, :0], 1, 0, 0), F.dropout(x, 0.5, False)),
            "row": lambda x, i: (x.select_scatter(x[0] * 3, 0, 1), x.clamp_max(x[0])),
        },
        x,
        i,
    )


def attention(length: int, keys: int, heads: int = 2, width: int = 4) -> tuple[torch.Tensor, ...]:
    return (
        randn(2, heads, length, width),
        randn(2, heads, keys, width, seed=1),
        randn(2, heads, keys, 3, seed=2),
    )


@pytest.mark.parametrize(("length", "keys"), [(4, 4), (3, 7), (7, 3), (1, 5), (3, 0)])
def test_attention(length: int, keys: int) -> None:
    allowed = torch.rand(length, keys, generator=torch.Generator().manual_seed(0)) > 0.4
    allowed[0] = False
    bias = randn(2, 1, length, keys, seed=3)
    if keys:
        bias[0, :, -1] = -INF
    sdpa = F.scaled_dot_product_attention
    check(
        {
            "plain": lambda q, k, v, m, b: sdpa(q, k, v),
            "causal": lambda q, k, v, m, b: sdpa(q, k, v, is_causal=True),
            "masked": lambda q, k, v, m, b: sdpa(q, k, v, attn_mask=m),
            "biased": lambda q, k, v, m, b: sdpa(q, k, v, attn_mask=b),
            "scaled": lambda q, k, v, m, b: sdpa(q, k, v, scale=0.3),
            "rank 3": lambda q, k, v, m, b: sdpa(q[0], k[0], v[0]),
            "grouped": lambda q, k, v, m, b: sdpa(
                q.repeat(1, 3, 1, 1), k, v, enable_gqa=True, attn_mask=m
            ),
        },
        *attention(length, keys),
        allowed,
        bias,
    )


def test_modules() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = randn(2, 5, 8)
    check({"attention": lambda x: attention(x, x, x)}, x)
    check({"encoder": encoder, "mlp": nn.Sequential(nn.Linear(8, 3), nn.SiLU(), nn.Dropout())
           .eval()}, x)  # fmt: skip


def test_mutation() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache[1:3] = x
            return self.cache.sum(0)

    ours, eager = Counter(), Counter()
    x = randn(2, 3)
    program = import_program(ours, (x,))
    for step in PASSES:
        step.apply(Context(), program.module)
    bound = program.bind((x,))
    compare(program.unflatten(interpreter.run(program.module, bound), bound), eager(x), "result")
    compare(ours.cache, eager.cache, "cache")


def chained(x: torch.Tensor) -> torch.Tensor:
    return x.view(4, 3, 2, 4).transpose(1, 2).transpose(2, 1).reshape(4, 3, 8)


@pytest.mark.parametrize(
    "case",
    [
        chained,
        lambda x: x.permute(2, 0, 1).permute(1, 2, 0),
        lambda x: x.flatten().view(4, 3, 8),
        lambda x: x.flip(1).flip(1),
        lambda x: F.pad(x, (1, 2))[..., 1:9],
        lambda x: torch.cat([x[:2], x[:1]])[:2].expand(2, 3, 8),
        lambda x: torch.cat([x, x * 2], 1)[:, :3],
        lambda x: x[None].expand(5, 4, 3, 8)[2],
    ],
)
def test_what_cancels_vanishes(case: Case) -> None:
    module = lowered(lambda x: case(x) + 0 * x[: case(x).shape[0]], randn(4, 3, 8))
    maps = [op for op in module.walk() if isinstance(op, IndexMapOp)]
    assert all("floordiv" not in str(op) and "mod " not in str(op) for op in maps)
    assert all("else" not in str(op) for op in maps)


def test_heads_are_read_without_division() -> None:
    module = lowered(
        lambda x: x.view(2, 5, 3, 4).transpose(1, 2).reshape(6, 5, 4).transpose(0, 1) * 2,
        randn(2, 5, 12),
    )
    (index_map,) = [op for op in module.walk() if isinstance(op, IndexMapOp)]
    assert len(index_map.sources) == 1


def test_constants_fold() -> None:
    module = lowered(lambda x: x * (torch.ones(3) * 2 + torch.full((3,), 0.5)).sqrt(), randn(2, 3))
    assert count(module, ConstantOp) == 0
    assert count(module, IndexMapOp) == 0
    (body,) = [op for op in module.walk() if isinstance(op, ElementwiseOp)]
    assert len(body.body.block.ops) == 3
    x = randn(2, 3)
    module = lowered(lambda x: x + torch.ones(5).sum() + torch.full((2, 3), 7.0).amax(0), x)
    assert count(module, ReduceOp) == 0
    module = lowered(lambda x: x + torch.full((3,), 0.1).sum(), x)
    assert count(module, ReduceOp) == 1


def test_names_and_places_survive() -> None:
    program = import_program(lambda x: torch.tanh(x).softmax(-1), (randn(2, 3),))
    places = {op.location for op in program.module.walk() if isinstance(op, AtenOp)}
    for step in PASSES:
        step.apply(Context(), program.module)
    lines = str(program.module)
    for name in ("%tanh = ", "%max = ", "%exp = ", "%sum = ", "%softmax = "):
        assert name in lines
    for op in program.module.walk():
        if isinstance(op, ElementwiseOp | ReduceOp | IndexMapOp):
            assert op.location in places
            assert isinstance(op.location, FileLineColLoc)


def test_every_unsupported_operation_is_listed() -> None:
    kind = TensorType(f32, [4])
    block = Block(arg_types=[kind])
    (x,) = block.args
    for line, (name, arguments) in enumerate(
        [("cumsum.default", {"dim": 0}), ("neg.default", {}), ("remainder.Scalar", {"other": 3})], 7
    ):
        op = AtenOp(name, {"self": x}, arguments, [kind])
        op.location = FileLineColLoc(StringAttr("script.py"), IntAttr(line), IntAttr(1))
        block.add_op(op)
        x = op.results[0]
    block.add_op(func.ReturnOp(x))
    module = ModuleOp([func.FuncOp("main", ([kind], [kind]), Region(block))])
    with pytest.raises(UnsupportedOperations) as error:
        DecomposeTorchPass().apply(Context(), module)
    assert str(error.value) == (
        "2 operations are not supported: aten.cumsum.default (script.py:7), "
        "aten.remainder.Scalar (script.py:9: the remainder of floats is exact for a divisor that "
        "is a power of two only)"
    )


def test_every_stage_parses_back() -> None:
    from xdsl.parser import Parser

    program = import_program(
        lambda x, i: (F.layer_norm(x, (6,)).roll(1, 0).triu(1)[i], x.argmax(1), F.pad(x, (1, 1))),
        (randn(4, 6), torch.tensor([1, -1])),
    )
    for step in PASSES:
        step.apply(Context(), program.module)
        text = str(program.module)
        assert str(Parser(register(Context()), text).parse_module()) == text
