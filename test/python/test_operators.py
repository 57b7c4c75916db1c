"""
Every family of operators against eager PyTorch and fp64.

A family is exported as one program and its Tensor IR interpreted after each pass; the last family
runs on the host too. Each case is met again with other arguments: in other dtypes, with strides,
with what is not finite, with extents of 0 and 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf, nan, prod
from pathlib import Path
from typing import Any

import operators
import pytest
import tensor_ir_interpreter as interpreter
import torch
import torch.nn.functional as F
from expected import rounded
from families import FAMILIES, Case, Program, arguments, normal, put
from made_up import MADE_UP
from torch.utils._pytree import tree_leaves
from verified import verify
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.dialects.layouts import shape_of
from dlc.dialects.tensor_ir import ReduceOp
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.accuracy import compare
from dlc.transforms.tensor.compose_index_maps import ComposeIndexMapsPass
from dlc.transforms.tensor.decompose_torch import DecomposeTorchPass, UnsupportedOperations
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc.transforms.tensor.fold_constants import FoldConstantsPass

WHOLE = bool(os.environ.get("DLC_PREFIX"))
PASSES = (DecomposeTorchPass(), ComposeIndexMapsPass(), FoldConstantsPass())


def judged(program: Program, found: list[Any], args: list[torch.Tensor], longest: int) -> list[str]:
    """What is wrong with the results, by the accuracy rule."""
    eager = rounded(program, *args)
    with torch.no_grad():
        exact = program(*(t.double() if t.is_floating_point() else t for t in args))
    wrong: list[str] = []
    for case, *results in zip(program.cases, found, eager, exact, strict=True):
        for ours, own, wide in zip(*map(tree_leaves, results), strict=True):
            if own.dtype is torch.uint8:
                ours = ours.view(torch.uint8)
            if ours.dtype != own.dtype or ours.shape != own.shape:
                wrong.append(f"{case.name}: {ours.dtype} {ours.shape}, eager {own.dtype}")
                continue
            known = None if own.dtype is torch.float64 else own
            accuracy = compare(ours, wide, known, longest)
            if not accuracy.ok:
                wrong.append(f"{case.name}: {accuracy}\n{ours}\n{own}")
    return wrong


def longest_reduction(module: ModuleOp) -> int:
    return max(
        (
            prod(shape_of(op.inputs[0])[int(a)] for a in op.axes.get_values())
            for op in module.walk()
            if isinstance(op, ReduceOp)
        ),
        default=1,
    )


def interpreted(
    function: Callable[..., Any], args: list[torch.Tensor], *, at_end: bool = False
) -> tuple[list[Any], int]:
    """The results of a program in Tensor IR as decomposed (unless they are of the `at_end` alone),
    and after its last pass; and its longest reduction."""
    program = import_program(function, args, whole=DECOMPOSITIONS)
    bound = program.bind(args)
    found: list[Any] = []
    for step in PASSES:
        step.apply(Context(), program.module)
        verify(program.module)
        if step is PASSES[-1] or (step is PASSES[0] and not at_end):
            results = interpreter.run(program.module, bound)
            found.append(program.unflatten(results, bound))
    return found, longest_reduction(program.module)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom", "ignore:.*deprecated", "ignore:.*size")
@pytest.mark.parametrize("name", FAMILIES)
def test_operators_agree_with_eager(name: str) -> None:
    program, args = Program(FAMILIES[name]), arguments(FAMILIES[name])
    found, longest = interpreted(program, args)
    for results in found:
        wrong = judged(program, results, args, longest)
        assert not wrong, "\n\n".join(wrong)


def test_operators_run_on_the_host() -> None:
    program, args = Program(FAMILIES["on the host"]), arguments(FAMILIES["on the host"])
    compiled = dlc.compile(program, tuple(args), backend="host")
    wrong = judged(program, compiled(*args), args, compiled.variants[0].longest_reduction)
    assert not wrong, "\n\n".join(wrong)


def test_a_quotient_beyond_its_type_has_a_remainder() -> None:
    x, y = torch.tensor([1e30, -1e30, 1e30]), torch.tensor([1e-30, 1e-30, 0.75])

    def remainders(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.fmod(x, y), torch.remainder(x, y)])

    for found in (
        interpreted(remainders, [x, y])[0][-1],
        dlc.compile(remainders, (x, y), backend="host")(x, y),
    ):
        assert torch.equal(found, remainders(x, y))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_numbers_are_rounded_to_halves_before_a_remainder(half: torch.dtype) -> None:
    x = torch.tensor([60.0, -57.0, 0.1, -0.1, 1 / 3, 3e4, 5e-3, 0.0]).to(half)
    number = x[4].double()

    def remainders(x: torch.Tensor, number: torch.Tensor) -> list[torch.Tensor]:
        n = number.item()
        return [x % 0.1, x.fmod(-0.1), 0.1 % x, 0.1 // x, x // 0.1, x % 1e-40, x % n, x.fmod(n)]

    (found,), _ = interpreted(remainders, [x, number], at_end=True)
    for ours, own in zip(found, remainders(x, number), strict=True):
        torch.testing.assert_close(ours, own, rtol=0, atol=0, equal_nan=True)


# The same cases with other arguments.


def cast(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda t: t.to(dtype) if t.dtype is torch.float32 else t


def whole_numbers(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Up to 27 in magnitude, of which bytes have no negative ones."""

    def change(t: torch.Tensor) -> torch.Tensor:
        if t.dtype is not torch.float32:
            return t
        whole = (t.nan_to_num().clamp(-9, 9) * 3).round().long()
        return (whole.abs() if dtype is torch.uint8 else whole).to(dtype)

    return change


def every_other(t: torch.Tensor) -> torch.Tensor:
    """At odd addresses of a tensor twice as large along each dimension."""
    inside = t.new_zeros([2 * n + 1 for n in t.shape])[(slice(1, None, 2),) * t.dim()]
    return inside.copy_(t)


def backwards(t: torch.Tensor) -> torch.Tensor:
    """The first dimension is the contiguous one."""
    order = tuple(reversed(range(t.dim())))
    return t.permute(order).contiguous().permute(order)


def not_finite(t: torch.Tensor) -> torch.Tensor:
    flat = t.flatten().clone()
    if flat.dtype is torch.float32 and len(flat) > 3:
        flat[0], flat[len(flat) // 2], flat[-1] = nan, inf, -inf
    return flat.view(t.shape)


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "f16": cast(torch.float16),
    "i32": whole_numbers(torch.int32),
    "every other": every_other,
    "bf16": cast(torch.bfloat16),
    "u8": whole_numbers(torch.uint8),
    "not finite": not_finite,
    "f64": cast(torch.float64),
    "bool": lambda t: t > 0 if t.dtype is torch.float32 else t,
    "backwards": backwards,
    "empty": lambda t: t[:0] if t.dim() else t,
    "of one": lambda t: t[..., :1] if t.dim() else t,
}
"""What becomes of each argument of a case; a variant that eager does not take is none."""

INTEGERS = ("i32", "u8", "bool")
EXCEPTIONS = {
    "order/topk": INTEGERS,  # which of several equal elements come first is not specified
    "order/routing": ("not finite", "bf16"),
    "on the host/routing": ("not finite", "bf16"),
    "training/rounded to a scale": ("not finite",),  # eager makes NaN an integer: undefined in C
    "training/distances": ("not finite",),  # eager's largest difference is never NaN
    "order/kthvalue": INTEGERS,  # nor are the indices of equal elements
    "order/medians": INTEGERS,
    "binary/pow": INTEGERS,  # refused: exponents that are tensors of integers
    "binary/broadcasting": INTEGERS,
    "reductions/moments": ("not finite",),  # eager's mean of infinities is NaN there
    "pooling/linear": ("not finite", "u8"),  # the decomposition by PyTorch differs from its kernel
    "on the host/resampling": ("not finite", "u8"),
    # PyTorch's loop ends at NaN before it has a result, and gives what is in memory.
    "special/laguerre_polynomial_l": ("not finite",),
    "special/legendre_polynomial_p": ("not finite",),
    "special/incomplete gamma": ("f64",),  # PyTorch's have ten digits; test_special.py has all
    # Of integers alone there is no f64 to compare with.
    "special/laguerre_polynomial_l of 0.3": INTEGERS,
    "special/legendre_polynomial_p of 0.3": INTEGERS,
    "pooling/shuffle": ("empty",),  # eager does not shuffle
}
"""Where results may differ from eager's."""


def accepted(case: Case, variant: str) -> Case | None:
    """The case with other arguments, if eager takes them and the variant is no exception."""
    name = f"{case.family}/{case.name}"
    # Eager reads keys that are masked, and takes masks of any width where nothing is to be done.
    if variant in EXCEPTIONS.get(name, ()) or (
        case.family == "attention" and variant in ("not finite", "empty", *INTEGERS)
    ):
        return None
    first, change = variant == "not finite", VARIANTS[variant]
    args = [t if first and n else change(t) for n, t in enumerate(case.args)]
    if all(a is b for a, b in zip(args, case.args, strict=True)):
        return None
    try:
        with torch.no_grad():
            case.function(*args)
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
        return None
    return Case(case.family, f"{case.name}, {variant}", case.function, tuple(args))


def changed(family: str, variant: str | None) -> list[Case]:
    """The cases of a family in a variant, or every second in one, all variants in turn."""
    names, step = (list(VARIANTS), 2) if variant is None else ([variant], 1)
    found: list[Case] = []
    for number, case in enumerate(FAMILIES[family][::step]):
        turns = names[number % len(names) :] + names[: number % len(names)]
        of_case = (accepted(case, name) for name in turns)
        found += [c for c in [next((c for c in of_case if c), None)] if c]
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", VARIANTS if WHOLE else [None])
@pytest.mark.parametrize("name", FAMILIES)
def test_operators_take_other_arguments(name: str, variant: str | None) -> None:
    """With DLC_PREFIX=1 all of them in every variant, and on the host too."""
    cases = changed(name, variant)
    if not cases:
        pytest.skip("eager takes none of them")
    program, args = Program(cases), arguments(cases)
    found, longest = interpreted(program, args)
    if WHOLE:
        compiled = dlc.compile(program, tuple(args), backend="host")
        found.append(compiled(*args))
        longest = max(longest, compiled.variants[0].longest_reduction)
    for results in found:
        wrong = judged(program, results, args, longest)
        assert not wrong, "\n\n".join(wrong)


REFUSALS: dict[str, tuple[Callable[..., Any], str]] = {
    "an unknown one": (lambda x: torch.ops.aten.made_up(x), f"{MADE_UP} (test_operators"),
    "a mask that reads": (lambda x: x[x > 0], "depends on data"),
    "a mask that writes many": (lambda x: put(x, x[0], x > 0), "a boolean mask takes a value for"),
    "as_strided": (lambda x: x.t().as_strided((3,), (1,)), "as_strided is given a view"),
    "random numbers": (lambda x: torch.poisson(x), "it draws random numbers"),
    "shapes from data": (lambda x: x.nonzero(), "depends on data"),
    "several from data": (lambda x: torch.ops.aten.linalg_lstsq(x, x), "depends on its values"),
    "a branch within": (
        lambda x: x + 1 if torch.allclose(x, x) else x,
        "branches on values of a tensor",
    ),
    "eigenvalues": (
        lambda x: torch.linalg.eigvals(x[:, :3]),
        "of general matrices there are no eigenvalues",
    ),
    "own generators": (
        lambda x: x + torch.randn(4, generator=torch.Generator()),
        "random numbers of a generator of its own",
    ),
    "attention of two widths": (
        lambda x: F.scaled_dot_product_attention(x[:, :0], *[x[None, :0]] * 2),
        "torch.export cannot trace the program: RuntimeError: Expected size"
        if torch.__version__.startswith("2.11.")
        else "expected keys of width 0 and 0 values, found 4 and 0",
    ),
    "products of integers": (
        lambda x: F.scaled_dot_product_attention(x.long(), x.long()[:0], x.long()[:0]),
        "expected queries of floats",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_is_named(name: str) -> None:
    function, sentence = REFUSALS[name]
    with pytest.raises((UnsupportedOperations, ImportFailure, UnsupportedError)) as error:
        dlc.compile(function, (normal(3, 4),), backend="host")
    said = str(error.value).replace(str(Path(__file__).parent) + "/", "").splitlines()
    quoted = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert any(sentence in line for line in said if line not in quoted)


def test_the_table_of_operations_is_that_of_the_code() -> None:
    written = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    made = operators.table()
    if made.splitlines()[2] == written.splitlines()[2]:  # by the same version of PyTorch
        assert made == written, "run python docs/operators.py > docs/operators.md"
