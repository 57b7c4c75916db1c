"""Programs that are imported once for all sizes of their calls."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, ShapesCollection

import dlc
from dlc.compiler import CompiledProgram
from dlc.frontend.export.fx import import_program, import_sized
from dlc.frontend.export.imported import ImportedProgram
from dlc.frontend.export.sized_program import SizedProgram
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.importing import specialized
from dlc.pipeline import run_pipeline, text_of
from dlc.stages import compiler_context
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

AUTO = Dim.AUTO
Make = Callable[[int], tuple[Any, ...]]


OPS = re.compile(r" \{ops = \[[^]]*\](, values = \[[^]]*\])?\}")
"""Where operations of Tensor IR come from."""


def sized(f: Callable[..., Any], args: Sequence[Any], shapes: Any) -> SizedProgram:
    program = import_sized(f, args, None, shapes, DECOMPOSITIONS)
    assert isinstance(program, SizedProgram)
    return program


class Attention(nn.Module):
    """Queries, keys and values of eight channels a head, masked where a row is shorter."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mask = torch.arange(s)[None, None, None, :] < lengths[:, None, None, None]
        y = F.scaled_dot_product_attention(q, k, v, mask)
        return self.out(y.transpose(1, 2).reshape(b, s, 16))


class Embedded(nn.Module):
    """Words and their places, normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(32, 8), nn.Embedding(64, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))


class Counting(nn.Module):
    """Keeps how many rows it has seen, and writes to a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.shape[0]
        return x / self.seen


def pictures(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = F.conv2d(x, w, stride=2, padding=1)
    return F.max_pool2d(y, 2), F.pad(y, (1, 2))


def pieces(x: torch.Tensor) -> dict[str, Any]:
    left, right = x.chunk(2, 1)
    return {"views": (left, right[1:], x.t()), "rows": x.shape[0], "of": (x.numel() // 4, None)}


def spectra(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x.reshape(-1, 4, 2)).conj() * 2j


def drawn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand_like(x) + x, torch.randn(x.shape[0] * 2)


def looked_up(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table.index_select(0, index) + table[index]


def per_row(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(1) / x.shape[0] + x.mean(0, keepdim=True) + x.flip(0)


def rows(n: int) -> tuple[torch.Tensor]:
    return (torch.randn(n, 8),)


PROGRAMS: dict[str, tuple[Callable[..., Any], Make, Any]] = {
    "rows": (per_row, rows, ({0: AUTO},)),
    "columns": (
        lambda x: torch.softmax(x, -1) @ x.t(),
        lambda n: (torch.randn(8, n),),
        [(None, AUTO)],
    ),
    "attention": (
        Attention(),
        lambda n: (torch.randn(n // 4 + 2, n, 16), torch.arange(n // 4 + 2)),
        {"x": {0: Dim("b"), 1: Dim("s", max=512)}, "lengths": {0: Dim("b")}},
    ),
    "words": (Embedded(), lambda n: (torch.randint(32, (2, n)),), {"ids": {1: AUTO}}),
    "counting": (Counting(), rows, ({0: AUTO},)),
    "pictures": (
        pictures,
        lambda n: (torch.randn(2, 3, n + 4, 8), torch.randn(4, 3, 3, 3)),
        ({2: AUTO}, None),
    ),
    "pieces": (pieces, rows, ({0: AUTO},)),
    "complex": (spectra, lambda n: (torch.randn(4 * n, 8),), ({0: 4 * Dim("n")},)),
    "transposed": (lambda x: x + 1, lambda n: (torch.randn(8, n).t(),), ({0: AUTO},)),
    "apart": (lambda x: x * 2, lambda n: (torch.randn(n, 16)[:, ::2],), ({0: AUTO},)),
    "drawn": (drawn, rows, ({0: AUTO},)),
    "looked up": (
        looked_up,
        lambda n: (torch.randn(n, 3), torch.arange(4) % n),
        ({0: AUTO}, None),
    ),
    "nested": (
        lambda d, k: (d["x"][0] + d["y"]) * k,
        lambda n: ({"x": [torch.randn(n, 2)], "y": torch.randn(n, 1)}, n),
        {"d": {"x": [{0: AUTO}], "y": {0: AUTO}}, "k": AUTO},
    ),
    "number": (lambda x, n: x[:n] * n, lambda n: (torch.randn(256), n), (None, AUTO)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_specialized_is_what_is_imported_for_the_size(name: str) -> None:
    f, make, shapes = PROGRAMS[name]
    program = sized(f, make(24), shapes)
    program.module.verify()
    for n in (24, 2, 3, 7, 64, 65):
        args = make(n)
        sizes = program.sizes_of(args)
        if sizes is None:
            assert n == 2, f"{n}: {program.facts}"  # where something is of one element
            continue
        ours, static = specialized(program, sizes), import_program(f, args, whole=DECOMPOSITIONS)
        if name in ("attention", "number"):  # of slices PyTorch says more where sizes are symbols
            for imported in (ours, static):
                run_pipeline(compiler_context(), imported.module, "tensor")
        texts = [OPS.sub("", text_of(imported.module)) for imported in (ours, static)]
        assert texts[0] == texts[1]
        assert ours.guards == static.guards
        assert ours.outputs == static.outputs
        assert ours.constants == static.constants
        assert ours.matches(args)


@pytest.mark.parametrize("name", ["attention", "pieces", "nested", "number", "counting"])
def test_one_import_is_for_all_sizes(name: str) -> None:
    f, make, shapes = PROGRAMS[name]
    program = dlc.compile(copy.deepcopy(f), make(24), backend="host", dynamic_shapes=shapes)
    for n in (24, 7, 5):
        args = make(n)
        with torch.no_grad():
            torch.testing.assert_close(program(*args), copy.deepcopy(f)(*args))
        if name == "counting":
            break
    assert program.imports.count == 1


def test_sizes_of_0_and_1_are_programs_of_their_own() -> None:
    program = dlc.compile(per_row, rows(4), backend="host", dynamic_shapes=({0: Dim("s")},))
    for n in (1, 0, 1, 5, 0, 6):
        x = rows(n)
        torch.testing.assert_close(program(*x), per_row(*x), equal_nan=True)
    assert program.imports.count == 3
    assert str(program.sizes) == "s from 2"


def test_ranges_and_facts_are_told_and_kept() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.view(-1, 4) if x.shape[0] < 100 and x.shape[0] % 4 == 0 else x.view(-1, 1)
        return y * 2

    program = dlc.compile(
        f, (torch.randn(8),), backend="host", dynamic_shapes=({0: Dim("s", min=4, max=4096)},)
    )
    assert str(program.sizes) == "s from 4 to 99; s mod 4 == 0, not s floordiv 4 == 1"
    for n, count in ((12, 1), (13, 2), (14, 2), (100, 3), (104, 3), (4, 4), (5000, 5), (5001, 6)):
        x = torch.randn(n)
        torch.testing.assert_close(program(x), f(x))
        assert program.imports.count == count, n


def test_a_dim_that_is_twice_is_one_size() -> None:
    s = Dim("s")
    program = sized(
        lambda x, y: (x + 1, y * 2), (torch.randn(4), torch.randn(4, 3)), ({0: s}, {0: s})
    )
    assert [*program.symbols] == ["s"]
    assert program.sizes_of((torch.randn(5), torch.randn(5, 3))) == {"s": 5}
    assert program.sizes_of((torch.randn(5), torch.randn(6, 3))) is None
    own = sized(
        lambda x, y: (x + 1, y * 2), (torch.randn(4), torch.randn(4, 3)), ({0: AUTO}, {0: AUTO})
    )
    assert own.sizes_of((torch.randn(5), torch.randn(6, 3))) == {"x_0": 5, "y_0": 6}


def test_a_dim_may_be_derived() -> None:
    s = Dim("s")
    program = sized(
        lambda x, y: (x + 1, y * 2), (torch.randn(4), torch.randn(9)), ({0: s}, {0: 2 * s + 1})
    )
    assert program.sizes_of((torch.randn(5), torch.randn(11))) == {"s": 5}
    assert program.sizes_of((torch.randn(5), torch.randn(12))) is None


def test_what_takes_any_arguments_has_an_entry_for_each() -> None:
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    program = sized(torch.maximum, (x, y), ({0: AUTO}, {0: AUTO}))
    assert program.sizes_of((torch.randn(7, 2), torch.randn(7, 2))) == {"args_0_0": 7}
    program = sized(lambda *xs: xs[0] + xs[1], (x, y), (({0: AUTO}, {0: AUTO}),))
    assert program.sizes_of((torch.randn(7, 2), torch.randn(7, 2))) is not None


def test_tensors_without_elements_have_sizes_as_well() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y + (x.sum(1, keepdim=True) + x.shape[0])

    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(n, 0), torch.randn(0, n)

    program = dlc.compile(f, make(4), backend="host", dynamic_shapes=({0: AUTO}, {1: AUTO}))
    for n in (4, 7):
        torch.testing.assert_close(program(*make(n)), f(*make(n)))
    assert program.imports.count == 1


def test_of_two_ways_a_fact_is_the_one_of_the_example() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w)

    marks = {2: AUTO, 3: AUTO}
    program = sized(f, (torch.randn(1, 2, 9, 8), torch.randn(3, 2, 3, 2)), (marks, marks))
    other = torch.randn(1, 2, 7, 12), torch.randn(3, 2, 2, 4)
    assert program.sizes_of(other) == {"x_2": 7, "x_3": 12, "w_2": 2, "w_3": 4}
    assert program.sizes_of((other[0], torch.randn(3, 2, 8, 4))) is None


def test_shapes_may_be_collected() -> None:
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    shapes = ShapesCollection()
    shapes[y] = {0: AUTO}
    program = dlc.compile(lambda x, y: (x, y + 1), (x, y), dynamic_shapes=shapes)
    assert str(program.sizes) == "y_0 from 2"
    assert program.imports.sized[0].sizes_of((x, torch.randn(7, 2))) == {"y_0": 7}


def split(x: torch.Tensor) -> torch.Tensor:
    return x.view(4, 32)


def by_number(x: torch.Tensor) -> torch.Tensor:
    return x * x.shape[0] ** -0.5


def test_a_size_that_the_program_fixes_is_an_error_at_its_line() -> None:
    x = torch.randn(128)
    with pytest.raises(ImportFailure, match=r"`s`, dimension 0 of 'x', is 128 for") as failure:
        dlc.compile(split, (x,), dynamic_shapes=({0: Dim("s")},))
    assert failure.value.place is not None
    assert failure.value.place.line == split.__code__.co_firstlineno + 1
    with pytest.raises(ImportFailure, match=r"dimension 0 of 'x' is 128 for"):
        dlc.compile(split, (x,), dynamic_shapes=({0: Dim.DYNAMIC},))
    program = dlc.compile(split, (x,), backend="host", dynamic_shapes=({0: AUTO},))
    torch.testing.assert_close(program(x), split(x))
    assert str(program.sizes) == "none"


def test_what_has_no_sizes_is_imported_for_each(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnsupportedError, match="computed from the size s that is no integer"):
        dlc.compile(by_number, rows(4), dynamic_shapes=({0: Dim("s")},))
    with caplog.at_level(logging.WARNING, "dlc"):
        program = dlc.compile(by_number, rows(4), backend="host", dynamic_shapes=({0: AUTO},))
    assert "imported for each size anew" in caplog.text
    for n in (4, 9):
        x = rows(n)
        torch.testing.assert_close(program(*x), by_number(*x))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": {0: AUTO}}, "dynamic_shapes: the program takes no argument 'y'"),
        (({0: AUTO}, None), "dynamic_shapes: expected an entry for each of x, found"),
        (({2: AUTO},), "dynamic_shapes of 'x': expected one of 2 dimensions, found 2"),
        (({0: "s"},), "dynamic_shapes of 'x': expected a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC"),
        (((AUTO,),), "dynamic_shapes of 'x': expected an entry for each of 2 dimensions, found"),
        ((7,), "dynamic_shapes of 'x': expected dimensions, as in {0: Dim.AUTO}, found 7"),
    ],
)
def test_marks_that_mean_nothing_are_errors(shapes: Any, message: str) -> None:
    with pytest.raises(ImportFailure) as failure:
        dlc.compile(per_row, rows(4), dynamic_shapes=shapes)
    assert message in str(failure.value)
    if "no argument" in message:
        assert failure.value.__notes__ == ["hint: its arguments are x"]


def test_a_program_with_sizes_is_saved_as_its_variants(tmp_path: Any) -> None:
    program = dlc.compile(per_row, rows(4), backend="host", dynamic_shapes=({0: AUTO},))
    inputs = [rows(n) for n in (4, 9)]
    wanted = [program(*x) for x in inputs]
    program.save(tmp_path / "saved")
    loaded = dlc.load_program(tmp_path / "saved")
    for x, y in zip(inputs, wanted, strict=True):
        torch.testing.assert_close(loaded(*x), y, rtol=0, atol=0)
    with pytest.raises(dlc.BackendError if hasattr(dlc, "BackendError") else Exception):
        loaded(*rows(5))


def test_a_copy_imports_for_sizes_as_well() -> None:
    program = dlc.compile(per_row, rows(4), backend="host", dynamic_shapes=({0: AUTO},))
    again = copy.copy(program)
    assert isinstance(again, CompiledProgram)
    for n in (4, 5):
        x = rows(n)
        torch.testing.assert_close(again(*x), per_row(*x))
    assert again.imports.count == 1


def test_a_static_program_has_no_sizes() -> None:
    program = dlc.compile(per_row, rows(4), backend="host")
    assert str(program.sizes) == "none"
    assert isinstance(import_sized(per_row, rows(1), None, ({0: AUTO},)), ImportedProgram)
