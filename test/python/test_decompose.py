"""
Torch IR to Tensor IR against PyTorch's operations in fp64: each program is exported, decomposed,
composed and folded, and run by a NumPy interpreter of Tensor IR after each of the three passes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from expected import rounded
from torch import nn
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.ir import Block, Region

from dlc.dialects.tensor_ir import ConstantOp, ElementwiseOp, IndexMapOp, ReduceOp
from dlc.dialects.torch import AtenOp
from dlc.frontend.export.fx import import_program
from dlc.registry import register
from dlc.transforms.tensor.compose_index_maps import ComposeIndexMapsPass
from dlc.transforms.tensor.decompose_torch import DecomposeTorchPass, UnsupportedOperations
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc.transforms.tensor.fold_constants import FoldConstantsPass

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
    """Exports all cases as one program and compares each with fp64, after each pass."""

    class Program(nn.Module):
        def forward(self, *args: torch.Tensor) -> dict[str, Any]:
            return {name: case(*args) for name, case in cases.items()}

    program = import_program(Program(), inputs, whole=DECOMPOSITIONS)
    expected = rounded(Program(), *inputs)
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


def test_functions_of_one_element() -> None:
    check(UNARY, SPECIAL)


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
    "add": lambda x, y: (torch.add(x, y, alpha=2), torch.add(x, y, alpha=-1)),
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


def test_contractions_end_in_their_sum() -> None:
    module = lowered(lambda a, b: a @ b, randn(2, 3, 4), randn(2, 4, 5))
    (sum,) = [op for op in module.walk() if isinstance(op, ReduceOp)]
    assert list(sum.axes.get_values()) == [3]
    assert str(sum.inputs[0].type) == "tensor<2x3x5x4xf32>"


def test_rms_norm_of_halves_takes_the_epsilon_of_f32() -> None:
    tiny = randn(2, 8, dtype=torch.float16) * 1e-3
    check({"rms": lambda x: F.rms_norm(x, (8,))}, tiny, rtol=2e-3, atol=1e-4)


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
        [("made_up.default", {}), ("neg.default", {}), ("dropout.default", {"p": 0.5})], 7
    ):
        op = AtenOp(name, {"input" if "p" in arguments else "self": x}, arguments, [kind])
        op.location = FileLineColLoc(StringAttr("script.py"), IntAttr(line), IntAttr(1))
        block.add_op(op)
        x = op.results[0]
    block.add_op(func.ReturnOp(x))
    module = ModuleOp([func.FuncOp("main", ([kind], [kind]), Region(block))])
    with pytest.raises(UnsupportedOperations) as error:
        DecomposeTorchPass().apply(Context(), module)
    assert str(error.value) == (
        "2 operations are not supported: aten.made_up.default (script.py:7: "
        "nobody has written it yet), "
        "aten.dropout.default (script.py:9: it draws random numbers; call the module's "
        "eval() first)"
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
