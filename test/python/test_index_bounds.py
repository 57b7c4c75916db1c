"""Arguments that hold indices say so, and are checked where values may be looked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, IndexType, i32, i64
from xdsl.ir import Block

import dlc
from dlc.backend import LaunchError
from dlc.dialects.main_function import attributes_of, main_of
from dlc.frontend.export.fx import import_program
from dlc.ir.expr import range_of
from dlc.judge.random_inputs import random_arguments
from dlc.transforms.tensor.decompose_torch import UnsupportedOperations
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

X = torch.randn(5, 6)
INDEX, J = torch.tensor([0, 3]), torch.tensor([[1, 4], [2, 0]])

CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...] | None]] = {
    "embedding": (lambda x, i: F.embedding(i, x), (0, 4)),
    "index_select": (lambda x, i: x.index_select(-1, i), (0, 5)),
    "gather": (lambda x, i: x.gather(1, i.expand(5, 2)), (0, 5)),
    "scatter": (lambda x, i: x.scatter(0, i[None], 1.0), (0, 4)),
    "scatter_add": (lambda x, i: x.scatter_add(1, i[None], x), (0, 5)),
    "index_reduce": (lambda x, i: x.index_reduce(0, i, x[:2], "amax"), (0, 4)),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2], alpha=2), (0, 4)),
    "index_copy": (lambda x, i: x.index_copy(-1, i, x[:, :2]), (0, 5)),
    "put": (lambda x, i: x.put(i, x[0, :2]), (-30, 29)),
    "one_hot": (lambda x, i: x.sum() + F.one_hot(i, 7), (0, 6)),
    "classes": (lambda x, i: F.cross_entropy(x[:2], i), (0, 5, -100)),
    "two losses": (
        lambda x, i: F.nll_loss(x[:2], i, ignore_index=9) + F.cross_entropy(x[:2, :4], i),
        (0, 3, 9, -100),
    ),
    "another where": (lambda x, i: x[torch.where(i != 3, i + 1, 0)], None),
    "index": (lambda x, i: x[i], (-5, 4)),
    "two dimensions": (lambda x, i: x[i.view(2, 1), i], (-5, 4)),
    "index_put": (lambda x, i: x.index_put((i,), x[0]), (-5, 4)),
    "take": (lambda x, i: x.take(i), (-30, 29)),
    "the narrowest of several": (lambda x, i: x[i, 0].sum() + x.index_select(1, i), (0, 4)),
    "narrower integers": (lambda x, i: x[i.int().long().reshape(1, 2).mT], None),
    "views": (lambda x, i: x[i.reshape(1, 2).mT.unsqueeze(0)], (-5, 4)),
    "composed views": (
        lambda x, i: x[
            i.unflatten(0, (1, 2))
            .swapaxes(0, 1)
            .movedim(0, 1)
            .ravel()
            .view_as(i)
            .reshape_as(i)
            .expand_as(i[None])
            .adjoint()
            .flatten()
        ],
        (-5, 4),
    ),
    "casts": (lambda x, i: x[i.to(torch.int64)], (-5, 4)),
    "computed": (lambda x, i: x[(i + 100) % 5], None),
    "only a part": (lambda x, i: x[i[:1]], None),
    "none of the elements": (lambda x, i: x.index_put((i[:, None].expand(2, 0),), x[:0, 0]), None),
    "bytes in pairs": (lambda x, i: x[i.view(torch.int32)], None),
    "a mask, too": (lambda x, i: x[None].index_put((x[None] > 0, i[:0]), x[0, 0]), None),
    "no index": (lambda x, i: x[:2, :2] * i, None),
}


@pytest.mark.parametrize("name", CASES)
def test_bounds(name: str) -> None:
    function, expected = CASES[name]
    module = import_program(function, (X, INDEX), whole=DECOMPOSITIONS).module
    x, i = attributes_of(main_of(module))
    assert "dlc.bounds" not in x
    found = i.get("dlc.bounds")
    assert (tuple(found.get_values()) if isinstance(found, DenseArrayBase) else None) == expected


@pytest.mark.parametrize("value", [-6, 5, 2**40])
def test_what_is_out_of_range_is_refused(value: int) -> None:
    compiled = dlc.compile(lambda x, i: x[i], (X, J), backend="host")
    assert torch.equal(compiled(X, J - 1), X[J - 1])
    wrong = torch.where(J == 2, value, J)
    with pytest.raises(LaunchError, match=rf"indices from -5 to 4, found {value} at \[1, 0\]"):
        compiled(X, wrong)


def test_classes_of_a_loss_are_checked_but_for_what_it_ignores() -> None:
    def loss(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x[:2], i, reduction="none", ignore_index=-1)

    compiled = dlc.compile(loss, (X, INDEX), backend="host")
    ignored = torch.tensor([5, -1])
    torch.testing.assert_close(compiled(X, ignored), loss(X, ignored))
    with pytest.raises(LaunchError, match=r"indices from 0 to 5 or -1, found 6 at \[0\]"):
        compiled(X, INDEX + 6)


def test_indices_into_rows_of_any_number_are_checked() -> None:
    rows = Dim("rows", max=100)
    compiled = dlc.compile(
        lambda x, i: F.embedding(i, x),
        (X, INDEX),
        "sm_90",
        "host",
        dynamic_shapes=({0: rows}, None),
    )
    for number in (4, 7):
        x = torch.randn(number, 6)
        assert torch.equal(compiled(x, INDEX), x[INDEX])
        with pytest.raises(LaunchError):
            compiled(x, INDEX + number - 3)


def test_no_index_is_never_out_of_range() -> None:
    compiled = dlc.compile(lambda x, i: x[i], (X, J[:0]), backend="host")
    assert compiled(X, J[:0]).shape == (0, 2, 6)


def test_random_arguments_are_within_their_type() -> None:
    rows = torch.randn(300, 2)
    program = import_program(lambda x, i: x[i.long()], (rows, torch.tensor([3, -100]).char()))
    _, indices = random_arguments(program.module, seed=0)
    assert indices.dtype == torch.int8


@pytest.mark.parametrize("shape", [(3, 1, 5), (2, 2, 6), (1, 1, 2, 6)])
def test_values_that_do_not_fit_their_places_are_refused(shape: tuple[int, ...]) -> None:
    def program(x: torch.Tensor, i: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.index_put(x, (i,), values)

    with pytest.raises(UnsupportedOperations, match="cannot be broadcast to"):
        dlc.compile(program, (X, INDEX, torch.randn(shape)), backend="host")


def test_clamped_numbers_have_bounds() -> None:
    (x,) = Block(arg_types=[i32]).args
    zero, nine, most = (arith.ConstantOp.from_int_and_width(n, 32) for n in (0, 9, 2**31 - 1))
    low = arith.MaxSIOp(x, zero)
    both = arith.MinSIOp(nine, low)
    more = arith.AddiOp(both, nine)
    ends = [arith.IndexCastOp(op, IndexType()) for op in (x, low, both, more)]
    wide = arith.IndexCastOp(arith.ExtSIOp(more, i64), IndexType())
    unknown, infinite = (float("-inf"), float("inf")), float("inf")
    found = [range_of(op.result) for op in (*ends, wide)]
    assert found == [unknown, (0, infinite), (0, 9), (9, 18), (9, 18)]
    assert range_of(arith.AddiOp(both, most).result) == unknown  # it may wrap
