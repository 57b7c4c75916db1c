"""Outputs that lie in the memory of an input: in all IRs from loops on, run and checked."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import build
from harness import STEPS as SCHEDULING
from harness import apply, lowered, parse
from test_mutants import ending_in_one, ending_in_two
from xdsl.utils.exceptions import VerifyException

import dlc
from dlc.backend.export.directory import export_program
from dlc.diagnostics import OpError
from dlc.dialects.loop import KernelOp
from dlc.judge.accuracy import compare
from dlc.passes import STEPS
from dlc.simulator import Hazard, run_module
from dlc.transforms.loop import update_in_place
from dlc.transforms.loop.fusion.inline import inline_producer

ROWS, COLUMNS = 19, 13
LIFTING = next(step for step in STEPS if step.pass_name == "lift-to-loops")
SHAPE = f"{ROWS}x{COLUMNS}xf32"
TEXT = f"""
builtin.module attributes {{dlc.target = "sm_90"}} {{
  func.func @main(%cache: tensor<{SHAPE}> {{dlc.name = "cache"}}, %v: tensor<{COLUMNS}xf32>,
      %g: tensor<{SHAPE}>)
      -> (tensor<{SHAPE}> {{dlc.mutates = 0 : i64}}, tensor<{SHAPE}>) {{
    %a = loop.kernel @put(%c: memref<{SHAPE}> = %cache, %v: memref<{COLUMNS}xf32> = %v)
        -> (%y: memref<{SHAPE}> updates %c) {{
      loop.for %j in {COLUMNS} {{
        %e = loop.load %v[%j] : memref<{COLUMNS}xf32>
        loop.store %e, %y[3, %j] : memref<{SHAPE}>
      }}
    }}
    %b = loop.kernel @step(%c: memref<{SHAPE}> = %a, %g: memref<{SHAPE}> = %g)
        -> (%y: memref<{SHAPE}> updates %c) {{
      loop.for %i in {ROWS}, %j in {COLUMNS} {{
        %old = loop.load %c[%i, %j] : memref<{SHAPE}>
        %e = loop.load %g[%i, %j] : memref<{SHAPE}>
        %new = math.fma %e, %e, %old : f32
        loop.store %new, %y[%i, %j] : memref<{SHAPE}>
      }}
    }}
    %d = loop.kernel @twice(%c: memref<{SHAPE}> = %b) -> (%y: memref<{SHAPE}>) {{
      loop.for %i in {ROWS}, %j in {COLUMNS} {{
        %e = loop.load %c[%i, %j] : memref<{SHAPE}>
        %s = arith.addf %e, %e : f32
        loop.store %s, %y[%i, %j] : memref<{SHAPE}>
      }}
    }}
    func.return %b, %d : tensor<{SHAPE}>, tensor<{SHAPE}>
  }}
}}
"""


def given() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS), torch.randn(ROWS, COLUMNS)


def expected() -> torch.Tensor:
    cache, v, g = (tensor.double() for tensor in given())
    cache[3] = v
    return cache + g * g


def check(cache: torch.Tensor, twice: torch.Tensor) -> None:
    torch.testing.assert_close(cache.double(), expected(), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(twice.double(), 2 * expected(), atol=2e-6, rtol=1e-6)


def load(path: Path, text: str) -> dlc.LoadedProgram:
    path.write_text(text)
    return dlc.load(path, backend="host")


def test_every_state_computes_the_same(tmp_path: Path) -> None:
    module = parse(TEXT)
    for step in STEPS[STEPS.index(LIFTING) + 1 :]:
        apply(module, step.pass_name)
        cache, v, g = given()
        twice = load(tmp_path / "state.mlir", str(module))(cache, v, g)
        check(cache, twice)
    arrays = [tensor.numpy() for tensor in given()]
    check(*(torch.from_numpy(np.array(a)) for a in run_module(module, arrays)))
    np.testing.assert_array_equal(arrays[0], given()[0])


def test_the_argument_itself_is_written(tmp_path: Path) -> None:
    f = load(tmp_path / "k.mlir", TEXT)
    text = f.ir("kernel")
    assert "host.launch @put(%cache, %v) -> (%cache)" in text
    assert "func.return %cache," in text
    assert "put(const float* c, const float* __restrict__ v, float* y)" in f.ir("cuda")


def test_an_export_writes_the_argument(tmp_path: Path, scheduler: Path) -> None:
    module = parse(load(tmp_path / "k.mlir", TEXT).ir("kernel"))
    tmp_path /= "exported"
    export_program(module, tmp_path)
    build(tmp_path, scheduler)
    for name, tensor in zip(("cache", "v", "g"), given(), strict=True):
        np.save(tmp_path / name, tensor.numpy())
    (tmp_path / "out").mkdir()
    command = [tmp_path / "run", tmp_path, tmp_path / "out"]
    subprocess.run(command, check=True, capture_output=True)
    check(*(torch.from_numpy(np.load(tmp_path / "out" / f"{n}.npy")) for n in ("cache", "0")))


def test_what_one_thread_writes_and_another_reads_is_a_race() -> None:
    """By the verifier in loops; in Kernel IR, where subscripts are anything, by the checker."""
    crossed = TEXT.replace("loop.load %c[%i, %j]", f"loop.load %c[{ROWS - 1} - %i, %j]", 1)
    with pytest.raises((VerifyException, OpError), match="the element that is stored after it"):
        parse(crossed)
    module = parse(TEXT)
    apply(module, "schedule-kernels")
    apply(module, ",".join(SCHEDULING))
    text = str(lowered(module))
    found = "%c[%ti, %tj"
    assert text.count(found) >= 1, text
    crossed_module = parse(text.replace(found, f"%c[{ROWS - 1} - %ti, %tj", 1))
    with pytest.raises(Hazard, match=r"written|read"):
        run_module(crossed_module, [tensor.numpy() for tensor in given()])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (" {dlc.mutates = 0 : i64}", "", "an argument that no result is written back to"),
        ("= %b) -> (%y", "= %a) -> (%y", "expected nothing to use %a once it is updated in place"),
        ("updates %c", "updates %z", "expected an input of the kernel, found %z"),
        ("updates %c", "updates %v", "to be of the type of %v"),
        ("%i in 19, %j in 13", "%i in 19, %j in 13, %k in 2", "tell the points of %k apart"),
    ],
)
def test_what_cannot_be_updated_is_a_sentence(old: str, new: str, sentence: str) -> None:
    assert old in TEXT
    with pytest.raises(Exception, match=sentence):
        parse(TEXT.replace(old, new, 1)).verify()


@pytest.mark.parametrize("subscript", ["%i floordiv 2", "%i mod 5", "(%i + %j) mod 19", "0"])
def test_points_that_meet_at_an_element_are_refused(subscript: str) -> None:
    text = TEXT.replace("%c[%i, %j]", f"%c[{subscript}, %j]", 1)
    with pytest.raises(Exception, match="tell the points of %i apart"):
        parse(
            text.replace("loop.store %new, %y[%i, ", f"loop.store %new, %y[{subscript}, ")
        ).verify()


ROWS_OF_CACHE, HEADS, WIDTH = 17, 3, 5


class Cached(torch.nn.Module):
    """Writes a row of two caches, in a way that a test gives, and reads all of them."""

    def __init__(self, write: Any) -> None:
        super().__init__()
        self.register_buffer("keys", torch.randn(2, HEADS, ROWS_OF_CACHE, WIDTH))
        self.register_buffer("values", torch.randn(2, HEADS, ROWS_OF_CACHE, WIDTH))
        self.write = write

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        self.write(self.keys, x * 2, pos)
        self.write(self.values, x + 1, pos)
        return (x @ self.keys.transpose(-1, -2)).softmax(-1) @ self.values


def _index(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache[:, :, pos] = x


def _slice(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache[:, :, 4:5] = x


def _rows(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache[:, :, 3:9:2] = x


def _twice(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache[:, 1, pos] = x[:, 0]
    cache.mul_(0.5)
    cache[0, :, -2] = x[0, :, 0]


def _rotate(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache.copy_(cache.roll(1, 2))
    cache[:, :, 0:1] = x


def _scatter(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache.scatter_(2, pos.view(1, 1, 1, 1).expand(x.shape), x)


def _each(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache[torch.arange(2), :, pos.expand(2)] = x[:, :, 0]


def _index_copy(cache: torch.Tensor, x: torch.Tensor, pos: torch.Tensor) -> None:
    cache.index_copy_(2, pos, x)


WRITES = [_index, _slice, _rows, _twice, _rotate, _scatter, _each, _index_copy]
IN_PLACE = {_index, _slice, _rows, _scatter, _each, _index_copy}


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", ["compile", "dynamo"])
def test_caches_are_written_where_they_change(write: Any, how: str) -> None:
    torch.manual_seed(0)
    ours = Cached(write)
    eager, exact = copy.deepcopy(ours), copy.deepcopy(ours).double()
    positions = [torch.tensor([p]) for p in (3, 4, 0, ROWS_OF_CACHE - 1)]
    inputs = [torch.randn(2, HEADS, 1, WIDTH) for _ in positions]
    places = ours.keys.data_ptr()
    if how == "compile":
        f: Any = dlc.compile(ours, (inputs[0], positions[0]), backend="host")
        assert ("updates %keys" in f.ir("loop")) == (write in IN_PLACE)
        assert ("updates %values" in f.ir("loop")) == (write in IN_PLACE)
    else:
        f = torch.compile(ours, backend="dlc", options={"backend": "host"})
    with torch.no_grad():
        for x, pos in zip(inputs, positions, strict=True):
            accuracy = compare(f(x, pos), exact(x.double(), pos), eager(x, pos))
            assert accuracy.ok, accuracy
            for name, cache in ours.named_buffers():
                assert torch.equal(cache, eager.get_buffer(name))
    assert ours.keys.data_ptr() == places


def test_a_cache_that_lies_otherwise_is_written_back() -> None:
    ours = Cached(_slice)
    ours.keys = torch.randn(ROWS_OF_CACHE, 2, HEADS, WIDTH).permute(1, 2, 0, 3)
    f = dlc.compile(ours, (torch.randn(2, HEADS, 1, WIDTH), torch.tensor([0])), backend="host")
    x = torch.randn(2, HEADS, 1, WIDTH)
    expected = ours.keys.clone()
    expected[:, :, 4:5] = x * 2
    f(x, torch.tensor([0]))
    torch.testing.assert_close(ours.keys, expected, atol=0, rtol=0)


def test_arguments_stay_where_a_program_is_only_tried() -> None:
    """What compares, times or explains a program runs it on the same tensors again and again."""

    def f(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return cache.add_(x)

    cache, x = torch.zeros(5, 7), torch.ones(5, 7)
    compiled = dlc.compile(f, (cache.clone(), x), backend="host")
    variant = compiled.variant((cache, x))
    for _ in range(3):
        (made, *_) = variant.executor([cache, x])
        assert torch.equal(made, x)
    assert torch.equal(cache, torch.zeros(5, 7))
    compiled(cache, x)
    assert torch.equal(cache, x)


def _sum(s: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return s.add_(x.sum(0))


def _total(s: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    s.add_(x.sum(0))
    t.copy_((x * x).sum(0))
    return s * 2


def _totals(s: torch.Tensor, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A kernel for each of two states; what both have in common would be one of its own."""
    s.add_(x.sum(0))
    t.add_((x * 3).sum(0))
    return s - t


@pytest.mark.parametrize("f", [_sum, _total, _totals], ids=lambda f: f.__name__)
@pytest.mark.parametrize("columns", [(), (3,)], ids=str)
@pytest.mark.parametrize("combine", ["workspace", "last"])
def test_splits_of_what_updates_its_input(f: Any, columns: tuple[int, ...], combine: str) -> None:
    """
    Blocks share the sum; the kernel that combines their parts does the update, or the last block,
    after all that share its parts have read.
    """
    torch.manual_seed(0)
    x = torch.randn(100_003, *columns)
    states = [torch.ones(columns), torch.zeros(columns)]
    exact = [state.double() for state in states]
    compiled = dlc.compile(f, (*(s.clone() for s in states), x), backend="host")
    given = [pair for k in compiled.kernels for pair in k.schedules.items()]
    split = {name: schedule for name, schedule in given if "split-matmul-k" in schedule}
    ending = ending_in_one if combine == "last" else ending_in_two
    compiled = compiled.with_schedule({name: ending(s) for name, s in split.items()})
    mark = "last_block" if combine == "last" else "_combine"
    assert any(mark in k.source and "updates" in k.source for k in compiled.kernels)
    made = {name for k in compiled.kernels for name in k.schedules}
    assert any("_combine" in name for name in made) == (combine == "workspace")
    for _ in range(2):
        found, expected = compiled(*states, x), f(*exact, x.double())
        for one, other in ((found, expected), *zip(states, exact, strict=True)):
            torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("chosen", ["eq", "lt"])
def test_a_condition_of_much_that_is_used_again(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What it is computed of is computed in the kernel once, however many ways lead to it, and not
    where it is seen that it can be no place.
    """
    compared, inlined = getattr(torch, chosen), list[KernelOp]()

    def inline(producer: KernelOp, merged: KernelOp) -> None:
        inlined.append(producer)
        inline_producer(producer, merged)

    def f(cache: torch.Tensor, x: torch.Tensor) -> None:
        number = x
        for _ in range(6):
            number = number * number + number
        cache.copy_(torch.where(compared(number, 2), x, cache))

    monkeypatch.setattr(update_in_place, "inline_producer", inline)
    x, cache = torch.arange(-3, 4), torch.full((7,), 9)
    expected, ours = cache.clone(), cache.clone()
    f(expected, x)
    dlc.compile(f, (cache, x), backend="host")(ours, x)
    assert torch.equal(ours, expected)
    assert len(inlined) == len({*inlined})
    assert len(inlined) == {"eq": 13, "lt": 1}[chosen]


def _added(a: torch.Tensor, m: torch.Tensor) -> Any:
    a.add_(m.cumsum(0))
    product = (a @ a.mT).relu()
    a.mul_(2)
    return product, a.softmax(0)


def _rows_and_columns(a: torch.Tensor, m: torch.Tensor) -> Any:
    a[1] = m[0]
    sums = a.cumsum(1)
    a.copy_(sums * 2)
    a[:, 1:3] += 1
    return a.sum(0)


@pytest.mark.parametrize("f", [_added, _rows_and_columns, lambda a, m: a.mul_(m)])
@pytest.mark.parametrize("columns", [6, 64])
def test_memory_at_any_address_is_updated(f: Any, columns: int) -> None:
    """No kernel takes an argument that lies 12 bytes behind a multiple of 16 for better than it."""
    a = torch.randn(5 * columns)[3 : 4 * columns + 3].view(4, columns)
    m = torch.randn(4, columns)
    compiled = dlc.compile(f, (a.clone(), m), backend="host")
    own = a.clone()
    expected, found = f(own, m), compiled(a, m)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(a, own)
    text = compiled.variants[-1].stages.text("loop")
    assert "align 4) -> (" in text or "align 4 = " in text
    assert "updates" in text
