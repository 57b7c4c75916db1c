"""Outputs that lie in the memory of an input: in all IRs from loops on, run and checked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import STEPS as SCHEDULING
from harness import apply, lowered, parse
from test_export import build, scheduler  # noqa: F401  (a fixture)
from xdsl.utils.exceptions import VerifyException

import dlc
from dlc.backend.export.directory import export_program
from dlc.diagnostics import OpError
from dlc.passes import STEPS
from dlc.simulator import Hazard, run_module

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


def test_an_export_writes_the_argument(tmp_path: Path, scheduler: Path) -> None:  # noqa: F811
    module = parse(load(tmp_path / "k.mlir", TEXT).ir("kernel"))
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
    ],
)
def test_what_cannot_be_updated_is_a_sentence(old: str, new: str, sentence: str) -> None:
    assert old in TEXT
    with pytest.raises(Exception, match=sentence):
        parse(TEXT.replace(old, new, 1)).verify()
