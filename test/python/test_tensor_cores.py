"""Products on tensor cores: every step of their schedules, on the host and in the simulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import loop_cases
import numpy as np
import pytest
import tensor_cores
import torch
import torch.nn.functional as F
from bank_meter import BankMeter, Measured, run_measured
from harness import STEPS, apply, interpret, lowered, on_host, scheduled
from mutants import NEVER_EQUIVALENT, Subject, judge, mutations
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.diagnostics import TextError
from dlc.dialects import kernel
from dlc.judge.accuracy import compare
from dlc.simulator import run_module

Array = np.ndarray


def product(
    m: int, n: int, k: int, *, batch: int = 0, x_turned: bool = False, w_turned: bool = False
) -> loop_cases.Case:
    """relu(x @ w + bias): x and w in f16, the latter as (N, K) or x as (K, M) if turned."""
    rng = np.random.default_rng(0)
    outer = (batch,) if batch else ()
    x = rng.standard_normal((*outer, *((k, m) if x_turned else (m, k)))).astype(np.float16)
    w = rng.standard_normal((*outer, *((n, k) if w_turned else (k, n)))).astype(np.float16)
    bias = rng.standard_normal(n).astype(np.float32)
    at, axes = ("%b, ", f"%b in {batch}, ") if batch else ("", "")
    types = {name: "x".join(map(str, a.shape)) + "xf16" for name, a in (("x", x), ("w", w))}
    types |= {"bias": f"{n}xf32", "y": "x".join(map(str, (*outer, m, n))) + "xf32"}
    memref = {name: f"memref<{type}>" for name, type in types.items()}
    tensor = {name: f"tensor<{type}>" for name, type in types.items()}
    given = ", ".join(f"%{name}: {memref[name]} = %{name}" for name in ("x", "w", "bias"))
    parameters = ", ".join(f"%{name}: {tensor[name]}" for name in ("x", "w", "bias"))
    text = f"""
func.func @main({parameters}) -> {tensor["y"]} {{
  %y = loop.kernel @mm({given}) -> (%y: {memref["y"]}) {{
    %zero = arith.constant 0.0 : f32
    loop.for {axes}%i in {m}, %j in {n} {{
      %acc = loop.reduce add %k in {k} -> f32 {{
        %a = loop.load %x[{at}{"%k, %i" if x_turned else "%i, %k"}] : {memref["x"]}
        %c = loop.load %w[{at}{"%j, %k" if w_turned else "%k, %j"}] : {memref["w"]}
        %ae = arith.extf %a : f16 to f32
        %ce = arith.extf %c : f16 to f32
        %p = arith.mulf %ae, %ce : f32
        loop.yield %p : f32
      }}
      %d = loop.load %bias[%j] : {memref["bias"]}
      %s = arith.addf %acc, %d : f32
      %r = arith.maximumf %s, %zero : f32
      loop.store %r, %y[{at}%i, %j] : {memref["y"]}
    }}
  }}
  func.return %y : {tensor["y"]}
}}"""

    def expected(x: Array, w: Array, bias: Array) -> list[Array]:
        left = np.swapaxes(x, -1, -2) if x_turned else x
        right = np.swapaxes(w, -1, -2) if w_turned else w
        return [np.maximum(left @ right + bias, 0)]

    turned = f"{'_xt' if x_turned else ''}{'_wt' if w_turned else ''}"
    name = f"product_{'x'.join(map(str, (*outer, m, n, k)))}{turned}"
    return loop_cases.Case(name, text, (x, w, bias), expected, k)


def schedule(
    block: tuple[int, int], warp: tuple[int, int], bk: int = 32, depth: int = 3, more: str = ""
) -> str:
    """Blocks of so many points, in warps of so many."""
    threads = ",".join(str(b // w) for b, w in zip(block, warp, strict=True))
    points, held = (",".join(map(str, n)) for n in (block, warp))
    return (
        f"tileify,chunk-matmul-k{{bk={bk} vector=16}}{more},"
        f"blockify-launch{{block={points} thread={threads}}},stage-inputs{{budget=65536}},"
        f"register-tile{{extents={held} mma=m16n8k16}},double-buffer{{depth={depth}}},async-copy,"
        "pipeline-k-outer,mark-unroll{limit=64}"
    )


SMALL = schedule((32, 32), (16, 16))
SWIZZLED = SMALL.replace("async-copy", "split-inner-for-swizzle,async-copy")
PADDED = SMALL.replace("async-copy", "async-copy,pad-smem")
SPLIT = ',split-matmul-k{splits=2 then="tileify,blockify-launch{block=8,8 thread=8,8}"}'
CASES: dict[str, tuple[loop_cases.Case, str]] = {
    "whole": (product(64, 64, 64), schedule((64, 64), (32, 32))),
    "tall tiles": (product(64, 40, 64), schedule((64, 8), (32, 8))),
    "linear": (product(48, 40, 96, w_turned=True), SMALL),
    "three warps, 48 rows": (product(50, 100, 40, w_turned=True), schedule((48, 96), (48, 32))),
    "both turned": (product(40, 48, 64, x_turned=True, w_turned=True), SMALL),
    "80 columns, chunks of 128": (product(40, 84, 136), schedule((32, 80), (32, 80), 128, 2)),
    "x turned": (product(40, 24, 64, x_turned=True), SMALL),
    "ragged by 8": (product(24, 40, 72), SMALL),
    "ragged": (product(17, 19, 100), SMALL),
    "ragged, turned": (product(33, 7, 35, w_turned=True), SMALL),
    "one row and column": (product(17, 8, 16), schedule((32, 8), (16, 8), bk=16)),
    "batched": (product(20, 24, 40, batch=3), SMALL),
    "batched, turned": (product(9, 33, 64, batch=2, w_turned=True), SMALL),
    "one chunk": (product(16, 16, 32), SMALL),
    "seven chunks": (product(16, 16, 104), schedule((16, 16), (16, 8), bk=16, depth=4)),
    "swizzled": (product(24, 64, 72), SWIZZLED),
    "swizzled, turned": (product(40, 20, 96, x_turned=True, w_turned=True), SWIZZLED),
    "padded": (product(24, 64, 72), PADDED),
    "padded, turned": (product(40, 20, 96, x_turned=True, w_turned=True), PADDED),
    "split K": (product(20, 24, 128), schedule((32, 32), (16, 16), more=SPLIT)),
    "not staged": (product(19, 24, 40), re.sub(r"stage-inputs{[^}]*},", "", SMALL)),
    "not asynchronous": (product(19, 24, 40), SMALL.replace("async-copy,", "")),
    "one slot": (product(19, 24, 72), re.sub(r"double-buffer.*?,pipeline-k-outer,", "", SMALL)),
}


def steps(case: loop_cases.Case, text: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, "sm_80")
    apply(module, ",".join(STEPS[:count]))
    return lowered(module)


def multiplies_matrices(module: ModuleOp) -> bool:
    return any(isinstance(op, kernel.MmaOp) for op in module.walk())


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    case, text = CASES[name]
    module = steps(case, text)
    assert multiplies_matrices(module)
    interpret(case, module, name)
    orders = [{"order": order, "async_mode": mode} for order, mode in MODES]
    on_host(case, module, name, orders)


MODES = (("forward", "late"), ("reverse", "early"), ("random", "late"))


@pytest.mark.parametrize(
    "case", [product(17, 9, 35), product(16, 8, 48, w_turned=True)], ids=lambda c: c.name
)
def test_every_prefix(case: loop_cases.Case) -> None:
    text, held = schedule((32, 16), (16, 8), bk=16), STEPS.index("register-tile")
    for count in range(held, len(STEPS) + 1):
        module = steps(case, text, count)
        assert multiplies_matrices(module) == (count > held)
        interpret(case, module, f"{count} steps")


PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], str]] = {
    "gate and up": (
        lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u),
        [(64, 256), (120, 256), (120, 256)],
        SMALL,
    ),
    "residual": (
        lambda x, w, z: F.linear(x, w) + z, [(64, 256), (120, 256), (64, 120)], SMALL,
    ),
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1),
        [(2, 16, 14, 14), (32, 16, 3, 3)],
        SMALL.replace("block=32,32 thread=2,2", "block=32,1,16 thread=2,1,2").replace(
            "extents=16,16", "extents=16,8"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_bf16(name: str) -> None:
    f, shapes, text = PROGRAMS[name]
    torch.manual_seed(0)
    inputs = tuple(torch.randn(shape).bfloat16() for shape in shapes)
    plain = dlc.compile(f, inputs, target="sm_80", backend="host")
    kernel_name = plain.kernels[0].name.removesuffix("_product")
    made = dlc.compile(f, inputs, target="sm_80", backend="host", schedules={kernel_name: text})
    assert "mma_m16n8k16_f32_bf16" in made.kernels[0].ir("cuda")
    exact = f(*(x.double() for x in inputs))
    error = (made(*inputs).double() - exact).abs().max() / exact.abs().max()
    assert error <= torch.finfo(torch.bfloat16).eps


def test_infinities_and_nan() -> None:
    case, text = CASES["ragged"]
    x, w, bias = (a.copy() for a in case.inputs)
    x[3, 7], w[5, 2], bias[4] = np.inf, np.nan, -np.inf
    module = steps(case, text)
    (found,) = run_module(module, (x, w, bias))
    with np.errstate(invalid="ignore"):
        (exact,) = case.expected(*(a.astype(np.float64) for a in (x, w, bias)))
    finite = np.isfinite(exact)
    assert not finite.all()
    np.testing.assert_array_equal(found[~finite], exact[~finite])
    np.testing.assert_allclose(found[finite], exact[finite], atol=1e-4)


def test_rows_are_loaded_whole() -> None:
    """Where a factor lies in runs of 16 bytes, no element of it is read alone."""
    for name in ("whole", "linear", "both turned", "ragged by 8", "batched"):
        funcs = [op for op in steps(*CASES[name]).walk() if isinstance(op, kernel.FuncOp)]
        loads = [op for op in funcs[0].walk() if isinstance(op, kernel.LdmatrixOp)]
        assert loads, name
        scalar = [op for op in funcs[0].walk() if isinstance(op, kernel.LoadOp)]
        assert not [op for op in scalar if str(op.ref.type).endswith("kernel.shared>")], name


@pytest.mark.parametrize("name", [name for name in CASES if re.match("swizzled|padded", name)])
def test_rows_lie_in_distinct_banks(name: str) -> None:
    case, text = CASES[name]
    _, meters = run_measured(steps(case, text), case.inputs, {})
    ways = [m.ways for meter in meters.values() for m in loaded(meter)]
    assert ways
    assert max(ways) == 1
    _, meters = run_measured(steps(case, SMALL), case.inputs, {})
    assert max(m.ways for meter in meters.values() for m in loaded(meter)) > 1


def loaded(meter: BankMeter) -> list[Measured]:
    return [m for op, m in meter.measured.items() if isinstance(op, kernel.LdmatrixOp)]


REFUSED = {
    "f32": ("f32", SMALL, "expected sums in f32 or i32 of products of two loaded elements"),
    "extents": ("f16", SMALL.replace("16,16 mma", "8,16 mma"), "a multiple of 16 and of 8 points"),
    "runs": ("f16", SMALL.replace("vector=16", "vector=8"), "expected K in runs of 16"),
    "no runs": ("f16", SMALL.replace(" vector=16", ""), "it has no contraction along K in runs"),
    "warps": (
        "f16",
        schedule((128, 128), (16, 8)),
        "128 warps are more than a block can have",
    ),
    "rows": ("f16 where (%i - %k >= 0)", SMALL, "conditions that vary along neither of %ei and"),
    "columns": ("f16 where (%j - %k >= 0)", SMALL, "conditions that vary along neither of %ei and"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    element, text, message = REFUSED[name]
    case = product(128, 128, 64)
    if element == "f32":
        body = re.sub(r"arith.extf (%.) : f16 to f32", r"arith.negf \1 : f32", case.text)
        case = replace(case, text=body.replace("f16", "f32"))
    if "where" in element:
        body = case.text.replace("loop.yield %p", f"loop.yield %p{element.removeprefix('f16')}")
        case = replace(case, text=body)
    with pytest.raises(TextError, match=message):
        apply(scheduled(case, text, "sm_80"), ",".join(STEPS[: STEPS.index("register-tile") + 1]))


def test_conditions_along_k_are_kept() -> None:
    """Points of K that a condition leaves out count as 0, though a factor is not finite there."""
    case = product(19, 24, 40)
    text = case.text.replace("loop.yield %p", "loop.yield %p where (%k - 5 >= 0)")
    x, w, bias = (a.copy() for a in case.inputs)
    expected = np.maximum(x[:, 5:].astype(float) @ w[5:] + bias, 0)
    x[:, :5] = np.inf
    for schedule in (SMALL, CASES["not staged"][1]):
        module = steps(replace(case, text=text), schedule)
        assert multiplies_matrices(module)
        (found,) = run_module(module, [x, w, bias])
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_every_mutant_is_found() -> None:
    case, text = CASES["seven chunks"]
    subject = Subject.of(case, "sm_80", text)
    assert subject.ordinary
    survivors = []
    for mutation in mutations(subject.module):
        op = list(subject.module.walk())[mutation.at]
        if isinstance(op, (*NEVER_EQUIVALENT, kernel.LdmatrixOp)):
            verdict = judge(subject, mutation)
            if not verdict.by:
                survivors.append(mutation.kind)
    assert not survivors


Program = tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], int]


def defaults(dtype: torch.dtype) -> dict[str, Program]:
    """Functions, their inputs and the length of their sums: what dlc does for tensor cores."""
    torch.manual_seed(0)

    def half(*shape: int) -> torch.Tensor:
        return torch.randn(shape).to(dtype)

    return {
        "ragged": (lambda x, w: x @ w, (half(100, 100), half(100, 100)), 100),
        "linear": (
            lambda x, w, b: F.relu(F.linear(x, w, b)), (half(33, 72), half(40, 72), half(40)), 72,
        ),
        "batched": (lambda x, w: x @ w, (half(3, 17, 50), half(3, 50, 31)), 50),
        "turned": (
            lambda x, w: x.mT @ w.mT, (half(3, 50, 17), half(3, 31, 50)), 50,
        ),
        "at odd addresses": (
            lambda x, w: x @ w, (half(33 * 64 + 1)[1:].view(33, 64), half(70, 41)[6:, 8:]), 64,
        ),
        "every second": (
            lambda x, w: F.linear(x, w), (half(33, 128)[:, ::2], half(64, 40).t()), 64,
        ),
        "computed": (
            lambda x, g, w: F.linear(F.silu(x) * g, w), (half(40, 72), half(40, 72), half(48, 72)),
            72,
        ),
        "gate and up": (
            lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u),
            (half(33, 256), half(120, 256), half(120, 256)), 256,
        ),
        "convolution": (
            lambda x, w: F.conv2d(x, w, padding=1), (half(2, 16, 14, 14), half(32, 16, 3, 3)), 144,
        ),
        "attention": (
            lambda q, k, v: torch.softmax((q @ k.mT).float(), -1).to(v.dtype) @ v,
            (half(4, 129, 64), half(4, 129, 64), half(4, 129, 64)), 129,
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "target"), [(torch.bfloat16, "sm_80"), (torch.float16, "sm_120")]
)
def test_default_schedules(dtype: torch.dtype, target: str) -> None:
    programs = defaults(dtype)
    inputs = [x for _, given, _ in programs.values() for x in given]

    def together(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = iter(inputs)
        return tuple(f(*(next(left) for _ in given)) for f, given, _ in programs.values())

    made = dlc.compile(together, tuple(inputs), target=target, backend="host")
    schedules = {name: s for k in made.kernels for name, s in k.schedules.items()}.values()
    products = [schedule for schedule in schedules if "mma=m16n8k16" in schedule]
    assert len(products) >= len(programs), "attention may be one kernel or several"
    assert any(f"type={ELEMENT[dtype]}" in schedule for schedule in schedules)
    for found, (name, (f, given, length)) in zip(made(*inputs), programs.items(), strict=True):
        exact = f(*(x.double() for x in given))
        verdict = compare(found, exact, f(*given), length)
        assert verdict.ok, f"{name}: {verdict}"


ELEMENT = {torch.bfloat16: "bf16", torch.float16: "f16"}


def test_what_is_no_number_stays_so_by_default() -> None:
    x, w = torch.randn(40, 50).half(), torch.randn(50, 33).half()
    x[3, 7], w[5, 2], x[8], w[:, 30] = torch.inf, torch.nan, -0.0, 0.0
    made = dlc.compile(torch.matmul, (x, w), target="sm_90", backend="host")
    assert "mma=m16n8k16" in made.kernels[0].schedule
    found, exact = made(x, w), x.double() @ w.double()
    assert compare(found, exact, x @ w, 50).ok
    assert not exact.isfinite().all()


def test_few_points_of_k_are_no_products_of_matrices() -> None:
    x, w = torch.zeros(1024, 8).half(), torch.zeros(8, 1024).half()
    made = dlc.compile(torch.matmul, (x, w), target="sm_90", backend="host")
    assert "mma" not in made.kernels[0].schedule


def test_rows_at_places_that_are_data_are_no_matrix() -> None:
    torch.manual_seed(0)
    places, rows, w = torch.randint(0, 11, (40,)), torch.randn(11, 32).half(), torch.randn(24, 32)
    inputs = (places, rows, w.half())

    def program(places: torch.Tensor, rows: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(F.embedding(places, rows), w)

    made = dlc.compile(program, inputs, target="sm_90", backend="host")
    exact = program(places, rows.double(), w.half().double())
    assert compare(made(*inputs), exact, program(*inputs), 32).ok
    asked = {made.kernels[0].name.removesuffix("_product"): SMALL}
    with pytest.raises(TextError, match="at places that axes alone number"):
        dlc.compile(program, inputs, target="sm_90", backend="host", schedules=asked)


@pytest.mark.parametrize("size", [(40, 300, 200), (130, 70, 100)], ids=str)
@pytest.mark.parametrize("rung", [*tensor_cores.RUNGS, *tensor_cores.HOPPER], ids=lambda r: r.title)
def test_rungs_of_the_ladder(rung: tensor_cores.Rung, size: tuple[int, int, int]) -> None:
    """
    The schedules of docs/tensor-cores.md, at ragged sizes; a producer takes rows of 16 bytes, and
    so does what stores results.
    """
    rows, columns, k = size
    k += -k % 8 if "producer" in rung.steps else 0
    columns += -columns % 8 if "store" in rung.steps else 0
    torch.manual_seed(0)
    x, w = (torch.randn(n, k).to(rung.dtype) for n in (rows, columns))
    made = rung.compiled(rows, columns, k)
    assert ("tma_store" in made.kernels[0].source) == ("store" in rung.steps)
    exact, eager = F.linear(x.double(), w.double()), F.linear(x, w)
    verdict = compare(made(x, w), exact, eager, k, precision=rung.precision)
    assert verdict.ok, verdict
