"""
Factorizations of matrices, and what is solved by them, against fp64: loops over columns.

Sizes of 0, 1, a prime and more than a block; batches, matrices that lie otherwise in memory, NaN.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from exported import as_array, build, run
from test_operators import interpreted as interpreted_in_turn
from torch import Tensor, linalg

import dlc
from dlc.backend.export import export_program
from dlc.diagnostics import OpError
from dlc.dialects.host_flow import ForOp
from dlc.frontend.aten.factorizations import jacobi
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.accuracy import compare

Program = Callable[..., Any]
Case = TypeVar("Case")
WHOLE = bool(os.environ.get("DLC_PREFIX"))


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def interpreted(function: Program, args: list[Tensor]) -> Any:
    """The result of a program in Tensor IR after its last pass."""
    return interpreted_in_turn(function, args, at_end=True)[0][-1]


def general(*shape: int) -> Tensor:
    return torch.randn(*shape)


def positive(*shape: int) -> Tensor:
    half = torch.randn(*shape)
    return half @ half.mT + shape[-1] * torch.eye(shape[-1])


def triangle(*shape: int) -> Tensor:
    return torch.randn(*shape) / shape[-1] ** 0.5 + 2 * torch.eye(shape[-1])


def symmetric(*shape: int) -> Tensor:
    half = torch.randn(*shape)
    return half + half.mT


SQUARE: dict[str, tuple[Program, Callable[..., Tensor]]] = {
    "cholesky": (linalg.cholesky, positive),
    "cholesky, upper": (lambda a: linalg.cholesky(a, upper=True), positive),
    "cholesky_ex": (linalg.cholesky_ex, positive),
    "cholesky_inverse": (torch.cholesky_inverse, triangle),
    "lu_factor": (linalg.lu_factor, general),
    "lu": (linalg.lu, general),
    "ldl_factor": (linalg.ldl_factor, symmetric),
    "inv": (linalg.inv, triangle),
    "inv_ex": (linalg.inv_ex, triangle),
    "det": (linalg.det, triangle),
    "slogdet": (linalg.slogdet, triangle),
    "logdet": (torch.logdet, positive),
    "qr": (linalg.qr, general),
    "R alone": (lambda a: linalg.qr(a, mode="r"), general),
    "exponential": (linalg.matrix_exp, general),
    "a negative power": (lambda a: linalg.matrix_power(a, -3), triangle),
}
SOLVING: dict[str, tuple[Program, Callable[..., Tensor]]] = {
    "solve": (linalg.solve, triangle),
    "solve, from the right": (lambda a, b: linalg.solve(a, b.mT, left=False), triangle),
    "lower": (lambda a, b: linalg.solve_triangular(a, b, upper=False), triangle),
    "upper, of ones": (
        lambda a, b: linalg.solve_triangular(a, b, upper=True, unitriangular=True),
        triangle,
    ),
    "from the right": (
        lambda a, b: linalg.solve_triangular(a, b.mT, upper=True, left=False),
        triangle,
    ),
    "triangular_solve": (lambda a, b: torch.triangular_solve(b, a, transpose=True), triangle),
    "cholesky_solve": (lambda a, b: torch.cholesky_solve(b, a), triangle),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), triangle),
    "lu_solve, adjoint": (
        lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, adjoint=True),
        triangle,
    ),
    "ldl_solve": (lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(a), b), symmetric),
}
SHAPES = ((0, 0), (1, 1), (7, 7), (0, 3, 3), (2, 1, 5, 5))


def of_shape(cases: Mapping[str, Case], shape: tuple[int, ...]) -> list[Case]:
    """
    What is tried with matrices of a shape: all with the last of `SHAPES`, and of the others each
    with one, unless DLC_PREFIX is set.
    """
    number, found = SHAPES.index(shape), list(cases.values())
    return found if WHOLE or shape == SHAPES[-1] else found[number :: len(SHAPES) - 1]


def judge(function: Program, args: tuple[Tensor, ...], found: Any, *, lies: bool = False) -> None:
    """
    Shapes and dtypes are eager's, with `lies` strides too; floats are as near to fp64, integers are
    the same.
    """
    eager, exact = function(*args), function(*(a.double() for a in args))
    results = [
        [r] if isinstance(r, Tensor) else list(r) for r in (found, eager, exact)
    ]  # named tuples
    for ours, theirs, wide in zip(*results, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if lies:
            assert ours.stride() == theirs.stride()
        if not ours.is_floating_point():
            assert torch.equal(ours, theirs)
        elif ours.numel():
            terms = 2 * args[0].shape[-1]  # each of n turns adds to an element a sum of n terms
            verdict = compare(ours, wide, theirs, terms)
            assert verdict.ok, verdict


def check(function: Program, *args: Tensor) -> None:
    judge(function, args, interpreted(function, list(args)))


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*torch.t")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_square_matrices(shape: tuple[int, ...]) -> None:
    for function, made in of_shape(SQUARE, shape):
        check(function, made(*shape))
    laid = {"inv": linalg.inv, "det": linalg.det}  # column after column in memory
    for function in of_shape(laid, shape):
        check(function, triangle(*shape).mT.contiguous().mT)


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*torch.t")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_systems(shape: tuple[int, ...]) -> None:
    for function, made in of_shape(SOLVING, shape):
        check(function, made(*shape), torch.randn(*shape[:-1], 3))
    rights = {"none": (*shape[:-1], 0), "one": (*shape[:-1], 1), "a vector": shape[:-1]}
    for right in of_shape(rights, shape):
        check(linalg.solve, triangle(*shape), torch.randn(right))


@pytest.mark.parametrize("name", ["solve, from the right", "from the right"])
def test_a_row_solved_from_the_right(name: str) -> None:
    """Transposed, it is a column whose stride is not that of rows."""
    check(SOLVING[name][0], triangle(3, 3), torch.randn(3, 1))
    check(SOLVING[name][0], triangle(2, 3, 3), torch.randn(2, 3, 1))


def test_batches_are_broadcast() -> None:
    a, b = triangle(2, 1, 4, 4), torch.randn(3, 4, 2)
    check(lambda a, b: linalg.solve_triangular(a, b, upper=True), a, b)
    check(linalg.solve, a, b)
    check(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), a, b)
    check(lambda a, b: torch.cholesky_solve(b, a, upper=True), a, b)


def test_pivots_of_two_rows() -> None:
    for size in (2, 3, 17):
        a = symmetric(3, size, size)
        a -= torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))
        a[1] = positive(size, size)  # each matrix has pivots of its own
        a[2, : size - 1, : size - 1] *= 1e-3
        check(linalg.ldl_factor_ex, a)
        check(lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(a), b), a, torch.randn(3, size, 2))
    check(linalg.ldl_factor_ex, torch.zeros(3, 3))
    check(linalg.ldl_factor_ex, torch.ones(2, 3, 3))


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelss", "gelsd"])
def test_least_squares(driver: str | None) -> None:
    shapes = [((7, 3), (7, 2)), ((3, 7), (3, 2)), ((1, 1), (1,)), ((4, 4), (4,)),
              ((2, 5, 3), (2, 5)), ((2, 5, 3), (2, 5, 1))]  # fmt: skip
    if driver != "gels":  # eager leaves the residuals of no columns as they come
        shapes.append(((3, 0), (3, 2)))
    if driver is None and not WHOLE:
        shapes = shapes[::2]
    if driver in ("gelsy", "gelss", "gelsd"):  # these differ in what they tell, not in how
        shapes = [shapes[1], *(shapes[-2:] if WHOLE or driver == "gelsy" else [])]
    for matrix, right in shapes:
        a, b = torch.randn(matrix), torch.randn(right)
        check(lambda a, b: linalg.lstsq(a, b, driver=driver), a, b)
    if driver == "gels":
        return  # takes the rank to be full
    a = torch.randn(2, 6, 4)
    a[1, :, 3] = a[1, :, 0] - a[1, :, 2]
    b = torch.randn(2, 6, 2)
    check(lambda a, b: linalg.lstsq(a, b, rcond=1e-4, driver=driver)[::2], a, b)
    check(lambda a, b: linalg.lstsq(a, b, rcond=1e-4, driver=driver).rank, a, b)
    if driver is not None and not WHOLE:
        return
    residuals = interpreted(lambda a, b: linalg.lstsq(a, b, driver=driver)[1], [a, b])
    assert residuals.isnan().all()  # eager has none


def test_least_squares_that_eager_refuses() -> None:
    a = torch.randn(4, 3)
    for b, driver, said in (
        (torch.randn(5, 2), None, "input.size"),
        (torch.randn(4, 2), "qr", "driver"),
        (torch.randn(4, 2).double(), "gels", "same dtype"),
    ):
        with pytest.raises(ImportFailure, match=said):
            import_program(lambda a, b, d=driver: linalg.lstsq(a, b, driver=d), (a, b))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 1), (0, 5), (5, 0)], ids=str)
def test_matrices_that_are_not_square(shape: tuple[int, ...]) -> None:
    check(linalg.lu, torch.randn(shape))
    check(linalg.lu_factor, torch.randn(shape))
    check(lambda a: torch.lu_unpack(*linalg.lu_factor(a)), torch.randn(shape))
    for mode in ("reduced", "complete", "r"):
        check(lambda a, mode=mode: linalg.qr(a, mode=mode), torch.randn(shape))
    check(torch.geqrf, torch.randn(shape))
    check(lambda a: torch.lu_unpack(*linalg.lu_factor(a), unpack_data=False), torch.randn(shape))


def test_fp64_is_computed_in_fp64() -> None:
    a = triangle(9, 9).double()
    (found,) = dlc.compile(lambda a: (linalg.inv(a),), (a,), backend="host")(a)
    assert (found @ a - torch.eye(9)).abs().max() < 1e-14


@pytest.mark.parametrize("name", ["cholesky", "lu_factor", "lu", "inv", "slogdet", "qr"])
def test_on_the_host_and_under_torch_compile(name: str) -> None:
    function, made = SQUARE[name]
    a = (triangle if made is general else made)(2, 67, 67)
    judge(function, (a,), dlc.compile(function, (a,), backend="host")(a), lies=True)
    if name not in ("lu", "slogdet") and not WHOLE:
        return
    torch._dynamo.reset()
    dynamo = torch.compile(lambda a: function(a), backend="dlc", options={"backend": "host"})
    judge(function, (a,), dynamo(a), lies=True)


@pytest.mark.parametrize("name", ["solve", "from the right", "cholesky_solve"])
def test_systems_on_the_host(name: str) -> None:
    function, made = SOLVING[name]
    args = made(2, 37, 37), torch.randn(2, 37, 3)
    judge(function, args, dlc.compile(function, args, backend="host")(*args), lies=True)


def test_solutions_in_an_exported_program(tmp_path: Path, scheduler: Path) -> None:
    args = triangle(5, 5), torch.randn(5, 2)
    compiled = dlc.compile(linalg.solve, args, backend="host")
    export_program(compiled.variants[0].module("kernel"), tmp_path)
    build(tmp_path, scheduler)
    for argument, tensor in zip(compiled.variants[0].program.arguments, args, strict=True):
        np.save(tmp_path / argument.name, as_array(tensor))
    assert run(tmp_path).stderr == ""
    np.testing.assert_allclose(
        np.load(tmp_path / "out" / "0.npy"), linalg.solve(*args), rtol=1e-5, atol=1e-6
    )


def test_a_loop_takes_the_columns_however_many_there_are() -> None:
    kernels = set[int]()
    for size in (5, 50):
        compiled = dlc.compile(linalg.lu_factor, (general(size, size),), backend="host")
        loops = [o for o in compiled.variants[0].module("kernel").walk() if isinstance(o, ForOp)]
        assert [loop.trips for loop in loops] == [size]
        kernels.add(len(compiled.kernels))
    assert len(kernels) == 1


def test_matrices_without_factors() -> None:
    a = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0], [1.0, 2.0, 1.0]])  # singular
    for function in (linalg.inv_ex, linalg.lu_factor_ex, lambda a: linalg.solve_ex(a, a)):
        found, eager = interpreted(function, [a]), function(a)
        assert torch.equal(found[-1], eager[-1])  # the pivot that is 0
    assert interpreted(linalg.det, [a]) == 0
    sign, log = interpreted(lambda a: tuple(linalg.slogdet(a)), [a])
    assert (sign, log) == (0, -math.inf)
    assert not interpreted(linalg.inv, [a]).isfinite().all()
    b = torch.tensor([[4.0, 2.0, 0.0], [2.0, 1.0, 3.0], [0.0, 3.0, 5.0]])  # not positive definite
    factor, failed = interpreted(linalg.cholesky_ex, [b])
    assert failed == linalg.cholesky_ex(b).info == 2
    assert torch.equal(factor[:, 0], torch.tensor([2.0, 1.0, 0.0]))
    assert factor[2, 2].isnan()


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (2, 5, 5)], ids=str)
def test_products_of_reflections(shape: tuple[int, ...]) -> None:
    factors, taus = torch.geqrf(torch.randn(shape))
    other = torch.randn(*shape[:-1], 2)
    for transpose in (False, True):
        check(lambda f, t, o, s=transpose: torch.ormqr(f, t, o, transpose=s), factors, taus, other)
        check(
            lambda f, t, o, s=transpose: torch.ormqr(f, t, o.mT, left=False, transpose=s),
            factors,
            taus,
            other,
        )
    if shape[-2] >= shape[-1]:
        check(linalg.householder_product, factors, taus)


def orthonormal(columns: Tensor) -> bool:
    one = torch.eye(columns.shape[-1], dtype=columns.dtype)
    return bool(((columns.mT @ columns - one).abs() < 2e-6).all())


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (4, 4), (2, 5, 5)], ids=str)
def test_eigenvalues_of_symmetric_matrices(shape: tuple[int, ...]) -> None:
    half = torch.randn(shape)
    a = half + half.mT
    check(linalg.eigvalsh, a)
    values, vectors = interpreted(linalg.eigh, [a])
    assert orthonormal(vectors)
    assert torch.allclose(vectors * values[..., None, :] @ vectors.mT, a, atol=1e-5)
    spoilt = a.tril() + torch.full(shape, math.nan).triu(1)
    assert torch.equal(interpreted(linalg.eigvalsh, [spoilt]), values)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 3), (3, 4), (2, 4, 4)], ids=str)
def test_singular_values(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape)
    check(linalg.svdvals, a)
    for full in (False, True) if WHOLE or shape[-1] != shape[-2] else (False,):
        left, values, right = interpreted(lambda a, f=full: linalg.svd(a, f), [a])
        assert [left.shape, right.shape] == [p.shape for p in linalg.svd(a, full)[::2]]
        size = values.shape[-1]
        product = left[..., :size] * values[..., None, :] @ right[..., :size, :]
        assert torch.allclose(product, a, atol=1e-5)
        assert orthonormal(left)
        assert orthonormal(right.mT)


def test_singular_values_of_zero() -> None:
    a = torch.randn(5, 2) @ torch.randn(2, 4)
    scales = torch.tensor([1, 1e-30, 1e30])[:, None, None]
    left, values, right = interpreted(linalg.svd, [torch.cat([scales * a, 0 * a[None]])])
    assert orthonormal(left)
    assert orthonormal(right.mT)
    assert (values[0, 2:] < 1e-6 * values[0, 0]).all()
    assert torch.allclose(values[:3] / scales[..., 0], values[0], atol=1e-5)
    assert not values[3].any()
    pinv = interpreted(linalg.pinv, [a])
    assert torch.allclose(pinv, linalg.pinv(a), atol=1e-5)
    assert interpreted(linalg.matrix_rank, [a]) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_values_that_are_equal(dtype: torch.dtype) -> None:
    near = 16 * torch.finfo(dtype).eps
    for size in (2, 5, 6, 8, 9) * 4:
        turn, other = (linalg.qr(torch.randn(n, size).double())[0] for n in (size, size + 3))
        values = torch.randint(-2, 3, (size,)).double()
        a, b = ((q * values @ turn.mT).to(dtype) for q in (turn, other))
        found, vectors = jacobi.eigh(a)
        assert torch.allclose(found.double(), values.sort()[0], atol=3 * near)
        assert torch.allclose(vectors * found @ vectors.mT, (a + a.mT) / 2, atol=3 * near)
        for matrix in (a, b, b.mT):
            left, found, right = jacobi.svd(matrix)
            expected = values.abs().sort(descending=True)[0]
            assert torch.allclose(found.double(), expected, atol=3 * near)
            assert torch.allclose(left * found @ right, matrix, atol=3 * near)


def test_equal_values_as_they_are_compiled() -> None:
    turn = linalg.qr(torch.randn(6, 6).double())[0]
    values = torch.tensor([1.0, 1, 1, 2, 2, -3]).double()
    for dtype in (torch.float32, torch.float64):
        a = (turn * values @ turn.mT).to(dtype)
        left, found, right = interpreted(linalg.svd, [a])
        near = 16 * torch.finfo(dtype).eps
        assert torch.allclose(found.double(), values.abs().sort(descending=True)[0], atol=near)
        assert torch.allclose(left * found @ right, a, atol=near)


def test_singular_values_and_eigenvalues_of_nan() -> None:
    spoilt = torch.stack([torch.full((3, 3), math.nan), torch.eye(3)])
    for values in (jacobi.eigh(spoilt)[0], jacobi.svd(spoilt)[1], jacobi.pseudoinverse(spoilt)):
        assert values[0].isnan().all()
        assert values[1].isfinite().all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_reflections_of_numbers_whose_squares_are_none(scale: float) -> None:
    a = torch.randn(5, 4) * scale
    q, r = interpreted(linalg.qr, [a])
    assert torch.allclose(q.mT @ q, torch.eye(4), atol=1e-6)
    assert torch.allclose(q @ (r / scale), a / scale, atol=1e-5)


def test_exponentials_of_any_size_of_matrix() -> None:
    a = torch.randn(3, 4, 4)
    check(linalg.matrix_exp, torch.cat([a * 1e-4, a, a * 12, -a @ a.mT * 3]))
    compiled = dlc.compile(linalg.matrix_exp, (a,), backend="host")
    judge(linalg.matrix_exp, (a,), compiled(a), lies=True)
    spoilt = a.clone()
    spoilt[0, 1, 1] = math.nan
    found = compiled(spoilt)
    assert found[0].isnan().any()
    assert torch.equal(found[1:], compiled(a)[1:])


def test_nan_stays() -> None:
    a = triangle(4, 4)
    a[2, 1] = math.nan
    for function in (linalg.inv, linalg.det, linalg.cholesky):
        assert interpreted(function, [a]).isnan().any()


def test_the_other_half_is_not_read() -> None:
    a = positive(4, 4)
    spoilt = a.tril() + torch.full((4, 4), math.nan).triu(1)
    assert torch.equal(*(interpreted(linalg.cholesky, [m]) for m in (a, spoilt)))
    solve = lambda a: linalg.solve_triangular(a, torch.ones(4, 2), upper=False)  # noqa: E731
    assert torch.equal(*(interpreted(solve, [m]) for m in (a, spoilt)))


def test_complex_matrices_are_refused() -> None:
    with pytest.raises((UnsupportedError, OpError), match="complex numbers are not factored"):
        dlc.compile(linalg.inv, (torch.eye(2) + 0j,), backend="host")


def test_gradients_are_eagers() -> None:
    x, own = (triangle(3, 3).requires_grad_() for _ in range(2))
    own.data.copy_(x.data)
    dlc.compile(lambda a: linalg.inv(a).sum(), (x,), backend="host")(x).backward()
    linalg.inv(own).sum().backward()
    assert x.grad is not None
    assert own.grad is not None
    assert torch.allclose(x.grad, own.grad, atol=1e-5)
    assert import_program(linalg.inv, (x.detach(),)).arguments


def test_factors_of_f64() -> None:
    a = torch.randn(2, 5, 3, dtype=torch.float64)
    square = a @ a.mT
    for program, matrix in ((linalg.eigvalsh, square), (linalg.svdvals, a), (linalg.pinv, a)):
        found = interpreted(program, [matrix])
        assert torch.allclose(found, program(matrix), rtol=1e-12, atol=1e-12)
