"""Sorting by merges, and what is found by order, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensor_ir_interpreter as interpreter
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves
from xdsl.context import Context

import dlc
from dlc.cli import dlc_cli
from dlc.frontend.export.fx import import_program
from dlc.judge.reference import evaluate
from dlc.schedule import orders
from dlc.schedule.orders import Order
from dlc.schedule.rows import power_of_two
from dlc.target import get_target
from dlc.transforms.tensor.decompose_torch import DecomposeTorchPass
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

LEAST, MOST = -(2**63), 2**63 - 1


def in_runs(n: int, count: int) -> Order:
    length = max(4, power_of_two(2 * count))
    return (
        at_once(n)
        if n <= length
        else Order("runs", 0, length, then=in_runs(-(-n // length) * count, count))
    )


def in_groups(n: int, count: int) -> Order:
    if n < 2 * count:
        return at_once(n)
    return Order("groups", 0, 2, in_groups(-(-n // 2), count), in_runs(2 * count, count))


def in_merged_groups(n: int, count: int) -> Order:
    if n < 2 * count:
        return Order("merges", 0, 4)
    return Order("groups", 0, 2, in_merged_groups(-(-n // 2), count), Order("merges", 0, 4))


def at_once(n: int) -> Order:
    return Order("at once", 0, n)


WAYS: dict[str, Callable[[int, int], Order]] = {
    "counted": lambda n, count: Order("counted", 0),
    "at-once": lambda n, count: at_once(n),
    "merges": lambda n, count: Order("merges", 0, 4),
    "runs": in_runs,
    "groups": in_groups,
    "merged-groups": in_merged_groups,
}


@pytest.fixture(params=WAYS)
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are ordered in each way, whatever is fastest."""
    way = WAYS[request.param]
    monkeypatch.setattr(orders, "fastest_order", lambda n, count, *_: way(n, count))


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are ordered wherever they can be, and searched."""
    monkeypatch.setattr(orders, "ordering_pays", lambda n, *_, **_k: n > 1)
    monkeypatch.setattr(orders, "searching_pays", lambda n, *_: n > 0)


def check(function: Callable[..., Any], *args: Tensor) -> None:
    """The Tensor IR of a program gives what eager PyTorch does, bit for bit but for NaN."""
    program = import_program(function, args, whole=DECOMPOSITIONS)
    DecomposeTorchPass().apply(Context(), program.module)
    found = interpreter.run(program.module, program.bind(args))
    for ours, own in zip(found, tree_leaves(function(*args)), strict=True):
        ours = ours.view(own.dtype) if own.dtype is torch.uint8 else ours
        torch.testing.assert_close(ours, own, rtol=0, atol=0, equal_nan=True)


def draw(n: int, dtype: torch.dtype, rows: int = 3) -> Tensor:
    """Few different numbers, and the unusual ones of the type."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randint(0, 5, (rows, n), generator=generator)
    if dtype.is_floating_point:
        unusual = [torch.nan, torch.inf, -torch.inf, -0.0, 0.0, -torch.nan]
    elif dtype is torch.int64:
        unusual = [LEAST, MOST, LEAST + 1, MOST - 1, 2**31, -(2**31)]
    else:
        unusual = [0, 1]
    kind = torch.randint(0, 3 * len(unusual), (rows, n), generator=generator)
    x = (x - 2).to(dtype)
    for number, value in enumerate(unusual):
        x = torch.where(kind == number, torch.tensor(value, dtype=dtype), x)
    return x


TYPES = {
    torch.float32: 100, torch.bfloat16: 13, torch.float64: 64, torch.int64: 129, torch.int32: 7,
    torch.uint8: 65, torch.bool: 24, torch.float16: 31,
}  # fmt: skip


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("dtype", TYPES)
def test_sort(dtype: torch.dtype) -> None:
    x = draw(TYPES[dtype], dtype)
    check(
        lambda x: (
            torch.sort(x, dim=1, stable=True),
            torch.sort(x, dim=1, descending=True, stable=True),
            torch.sort(x[:, :5].clone(), dim=0, stable=True),
        ),
        x,
    )


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 63, 127, 1000])
def test_sort_of_lines(n: int) -> None:
    """Sorted, reversed, and all equal lines."""
    rising = torch.arange(float(n))
    check(lambda x: torch.sort(x, stable=True), torch.stack([rising, -rising, rising * 0]))


@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_all_halves(descending: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randperm(2**16, generator=generator).to(torch.int16).view(torch.float16)
    check(lambda x: torch.sort(x, stable=True, descending=descending), x)


@pytest.mark.usefixtures("ways")
def test_first_in_order() -> None:
    x = torch.randperm(200, generator=torch.Generator().manual_seed(0)).view(2, 100).float()
    check(lambda x: (x.topk(1), x.topk(7, largest=False), x.topk(64), x.t().topk(1, 0)), x)
    check(lambda x: (x.kthvalue(1), x.kthvalue(33), x.median(1), x.nanmedian(1), x.median()), x)
    check(lambda x: torch.quantile(x, torch.tensor([0.0, 0.5, 1.0]), 1), x)
    check(lambda x: (x.median(1), x.kthvalue(2, 1)), x[:0])
    unknown = x.masked_fill(x % 3 == 0, torch.nan)
    check(lambda x: (x.median(1), x.nanmedian(1), x.nanmedian(0)), unknown[:, 1:])


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.float32])
@pytest.mark.parametrize("largest", [False, True])
def test_equal_elements_stand_as_they_did(dtype: torch.dtype, largest: bool) -> None:
    """Also where the first are found in groups, which stand by their least elements."""
    x = torch.randint(0, 5, (3, 101), generator=torch.Generator().manual_seed(0)).to(dtype)
    program = import_program(lambda x: x.topk(20, largest=largest), (x,), whole=DECOMPOSITIONS)
    DecomposeTorchPass().apply(Context(), program.module)
    value, index = interpreter.run(program.module, program.bind((x,)))
    own, place = torch.sort(x, dim=1, descending=largest, stable=True)
    assert torch.equal(index, place[:, :20])
    assert torch.equal(value, own[:, :20])


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_searches(n: int) -> None:
    sequence = draw(n, torch.float32).nan_to_num(4, torch.inf, -torch.inf).sort(1)[0].clone()
    values = torch.cat([draw(9, torch.float32), sequence[:, :1]], 1)
    whole = draw(n, torch.int64)
    check(
        lambda s, v: (
            torch.searchsorted(s, v),
            torch.searchsorted(s, v, right=True, out_int32=True),
            torch.bucketize(v, s[0].clone(), right=True),
            torch.isin(v, s),
            torch.isin(s, v),
            torch.isin(v, s, invert=True),
        ),
        sequence,
        values,
    )
    check(lambda s: (torch.isin(s[1:], s[0]), torch.isin(s[0].int(), 1)), whole)


@pytest.mark.usefixtures("many")
def test_sums_of_bytes_are_bytes() -> None:
    x = draw(12, torch.uint8) + 250
    index = torch.arange(12).expand(3, 12) % 4
    check(lambda x, i: [x[:, :4].scatter_reduce(1, i, x, r) for r in ("sum", "mean")], x, index)


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("updates", [1, 2, 9, 70])
def test_scatter(updates: int, dtype: torch.dtype) -> None:
    """Whole numbers, whose sums are exact in any order; places that nothing hits, or all."""
    generator = torch.Generator().manual_seed(updates)
    x, source = (torch.randint(-3, 4, s, generator=generator).to(dtype) for s in ((5, 6), (5, 99)))
    index = torch.randint(0, 6, (5, updates), generator=generator)
    index[1], index[2] = 5, index[2].sort()[0]
    few = torch.where(source.abs() > 1, 1, source)  # products that are exact
    check(
        lambda x, i, v, few: (
            x.scatter_add(1, i, v),
            x.t().clone().scatter_add(0, i.t(), v.t()),
            x.scatter_add(1, i[:2], v),
            x.scatter(1, i, v),
            x.scatter(1, i[:3], 2),
            [
                x.scatter_reduce(1, i, few, r, include_self=s)
                for r in REDUCTIONS
                for s in (True, False)
            ],
        ),
        x,
        index,
        source,
        few,
    )


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_index_put(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x, v = (torch.randint(-9, 9, s, generator=generator).to(dtype) for s in ((4, 5, 6), (30, 5)))
    i, j = (torch.randint(-n, n, (30,), generator=generator) for n in (4, 6))

    def function(x: Tensor, v: Tensor, i: Tensor, j: Tensor) -> list[Tensor]:
        i, j = i % 4, j % 6 - 6
        put = torch.ops.aten.index_put
        flat = i * 30 + j % 6
        return [
            put(x, [i, None, j], v, True),
            put(x, [i[:, None], torch.arange(5), j[:, None]], v, True),
            put(x, [None, None, j], v[:, 0].clone(), True),
            x.index_add(0, i, x[:1].expand(30, 5, 6), alpha=2),
            x.index_add(1, i, v[:4, None, :1] + x[:, :1].expand(4, 30, 6)),
            x[:, 0, 0].index_add(0, i[0], v[:1, 0]),
            x.index_add(1, i[0] % 5, x[:, :1]),
            x[0, 0, 0].index_add(0, i[:1] * 0, v[0, 0]),
            x.index_copy(2, j[:2] % 6, x[:, :, :2] + 1),
            x.put(flat, v[:, 0].clone(), True),
            x.put(flat[:1].repeat(9), v[:9, 0].clone()),
            put(x, [i % 1, None, j % 1], v[:1].expand(30, 5)),
            *(x.index_reduce(2, j % 6, x[:, :, :1].expand(4, 5, 30), r) for r in ("amax", "mean")),
        ]

    check(function, x, v, i, j)


def test_segments() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-9, 9, (20, 3), generator=generator).float()
    index = torch.randint(0, 20, (150,), generator=generator)
    offsets = torch.tensor([0, 0, 3, 8, 8, 9, 90, 149, 150])

    def bags(w: Tensor, i: Tensor, o: Tensor) -> list[Any]:
        kinds = [dict(mode=m, padding_idx=p) for m in ("sum", "mean", "max") for p in (None, 3)]
        return [
            *(F.embedding_bag(i, w, o, **kind) for kind in kinds),
            torch.segment_reduce(w[i], "max", offsets=o[1:], unsafe=True, initial=2),
            torch.segment_reduce(
                w[i].T.clone(), "mean", lengths=i[:3, None] + 1, axis=1, unsafe=True
            ),
        ]

    check(bags, weight, index, offsets)
    # Alone, as a program that needs nothing taken apart.
    lengths = torch.tensor([0, 7, 0, 13])
    check(lambda w, n: torch.segment_reduce(w, "sum", lengths=n, unsafe=True), weight, lengths)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ("b=x:0", "torch.randn(8, 300).topk(2)"),
        ("n=x:1", "torch.randn(8, 300).sort(1)"),
        ("n=x:0,y:0", "torch.zeros(4, 3).index_add(0, torch.randint(4, (8,)), torch.randn(8, 3))"),
        (
            "n=x:0,y:0,z:0",
            "torch.randn(8, 4).scatter_add(1, torch.randint(4, (8, 9)), torch.randn(8, 9))"
            ".T.diag_embed(1).nanmedian(1)[0].median(1)",
        ),
        (
            "n=x:0",
            "torch.segment_reduce(torch.randn(8, 3), 'max', offsets=torch.tensor([0, 5, 8]), "
            "unsafe=True)",
        ),
    ],
)
def test_lines_of_any_size(sizes: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One program is made for all sizes, and none for each."""
    options = ("--target", "sm_90", "--ir", "tensor", "--dynamic", sizes)
    assert dlc_cli.main(["compile", *options, "-c", text]) == 0
    found = capfd.readouterr()
    assert "size.symbol" in found.out
    assert "for each size" not in found.err


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.sort(1),
        lambda x: x.sort(0, descending=True),
        lambda x: x.argsort(1),
        lambda x: x.topk(20, 1),
        lambda x: x.topk(3, 0, largest=False),
    ],
)
def test_the_reference_keeps_the_order_of_equal_elements(program: Callable[[Tensor], Any]) -> None:
    """PyTorch leaves it open, and `dlc run` would call another order wrong."""
    x = torch.randint(0, 9, (40, 300), generator=torch.Generator().manual_seed(0)).float()
    traced = import_program(program, (x,))
    expected = evaluate(traced.module, [x], double=True)
    found = tree_leaves(dlc.compile(program, (x,), target="sm_90", backend="host")(x))
    for ours, own in zip(found, expected, strict=True):
        assert torch.equal(ours.to(own.dtype), own)


def test_what_comes_first_is_stored_where_it_is_sorted(capfd: pytest.CaptureFixture[str]) -> None:
    """Also where less is stored than is sorted: indices and values leave no launch of their own."""
    options = ("--target", "sm_90", "--ir", "loop", "-c", "torch.randn(8, 300).topk(5)")
    assert dlc_cli.main(["compile", *options]) == 0
    found = capfd.readouterr().out
    assert found.count("loop.kernel @") == 1
    assert found.count("loop.store") == 2


@pytest.mark.parametrize(
    ("n", "count"), [(4095, 4095), (4096, 8), (8191, 50), (12289, 256), (8191, 2100)]
)
def test_lines_as_long_as_blocks_sort(n: int, count: int) -> None:
    """As they are shipped, around what a block sorts at once: NaN first, zeros as they stand."""
    x = draw(n, torch.bfloat16, 2)
    program = dlc.compile(lambda x: x.topk(count), (x,), target="sm_90", backend="host")
    value, index = program(x)
    own, place = torch.sort(x, dim=1, descending=True, stable=True)
    assert torch.equal(index, place[:, :count])
    torch.testing.assert_close(value, own[:, :count], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("n", [4096, 4097])
def test_runs_are_as_long_as_shared_memory_has_room_for(dtype: torch.dtype, n: int) -> None:
    """A block of sm_75 has 64 KiB: too few for keys and numbers of 4096, each of 64 bits."""
    assert orders.longest_run(4, get_target("sm_75")) == 2048
    assert orders.longest_run(4, get_target("sm_80")) == 4096
    x = draw(n, dtype, 1)
    program = dlc.compile(
        lambda x: torch.sort(x, stable=True), (x,), target="sm_75", backend="host"
    )
    for ours, own in zip(program(x), torch.sort(x, stable=True), strict=True):
        torch.testing.assert_close(ours, own, rtol=0, atol=0, equal_nan=True)
    assert "sort_run" in program.ir("cuda")


@pytest.mark.parametrize("dimension", [0, 1])
def test_first_of_lines_of_any_size(dimension: int) -> None:
    x = draw(20, torch.float32, 20)
    sizes = {"x": {dimension: torch.export.Dim("n", min=3, max=64)}}

    def first(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.topk(3)

    program = dlc.compile(first, (x,), target="sm_90", backend="host", dynamic_shapes=sizes)
    for n in (3, 17, 64):
        x = draw(n if dimension else 20, torch.float32, 20 if dimension else n)
        value, index = program(x)
        own, place = torch.sort(x, dim=1, descending=True, stable=True)
        assert torch.equal(index, place[:, :3])
        torch.testing.assert_close(value, own[:, :3], rtol=0, atol=0, equal_nan=True)
