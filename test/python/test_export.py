"""Exported programs: built without dlc, run on the CPU, compared with PyTorch."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import as_array, build, run
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.export import export_program
from dlc.cli.dlc_cli import main
from dlc.ir.locations import LocParser
from dlc.ir.scalar_functions import philox
from dlc.pipeline import run_pipeline, text_of
from dlc.stages import compiler_context
from dlc.target import set_target

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


class Model(torch.nn.Module):
    """Names with dots, strided parameters, elements of many types, and a result that is a fill."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 24)
        self.linear = torch.nn.Linear(24, 18)
        self.strided = torch.nn.Parameter(torch.randn(12, 18).t())

    def forward(
        self, i: torch.Tensor, bias: torch.Tensor, u: torch.Tensor, m: torch.Tensor, b: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        x = self.linear(self.table(i)).softmax(-1)
        y = (x @ self.strided).transpose(0, 1) + bias
        bytes = torch.where(m, u // 2, u), u.amax(0), m.logical_not(), u.float().half() / 3, b + u
        return y, (x > 0.05).sum(), x.argmax(-1) == 3, bias.new_zeros(2, 0), *bytes


def test_an_exported_program_runs_without_dlc(tmp_path: Path, scheduler: Path) -> None:
    torch.manual_seed(0)
    model, i = Model().eval(), torch.randint(0, 50, (4, 7))
    bias = torch.randn(12, 7).t()[:, None]
    bytes = torch.arange(120, 255, 9, dtype=torch.uint8).view(5, 3)
    args = i, bias, bytes, bytes % 2 > 0, torch.randn(3).bfloat16()
    with torch.no_grad():
        variant = dlc.compile(model, args, target="sm_80", backend="host").variants[0]
        expected = model(*args)
    export_program(variant.module("kernel"), tmp_path)
    build(tmp_path, scheduler)
    for argument, tensor in zip(variant.program.arguments, variant.program.bind(args), strict=True):
        array = as_array(tensor)
        if argument.name == "bias":  # elements alone, in row-major order
            (tmp_path / "bias.bin").write_bytes(array.tobytes())
        else:
            np.save(tmp_path / argument.name, np.ascontiguousarray(array))
    assert run(tmp_path).stderr == ""
    for number, tensor in enumerate(expected):
        found = np.load(tmp_path / "out" / f"{number}.npy")
        assert found.shape == tuple(tensor.shape)
        np.testing.assert_allclose(found, as_array(tensor), atol=1e-6, strict=True)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    dtypes = {b["name"]: b["dtype"] for b in manifest["buffers"]}
    assert [dtypes[name] for name in ("u", "m", "b")] == ["u8", "bool", "bf16"]
    kinds = ["f32", "i64", "bool", "f32", "u8", "u8", "bool", "f16", "bf16"]
    assert [dtypes[result["buffer"]] for result in manifest["results"]] == kinds

    np.save(tmp_path / "table.weight.npy", np.zeros((50, 23), np.float32))
    said = run(tmp_path)
    assert said.returncode == 1
    assert "table.weight.npy: expected the shape (50, 24), found (50, 23)" in said.stderr
    (tmp_path / "table.weight.npy").unlink()
    assert "error: there is no argument table.weight: expected" in run(tmp_path).stderr
    np.save(tmp_path / "table.weight.npy", np.zeros((50, 24), np.float32))
    np.save(tmp_path / "u.npy", np.zeros((5, 3), np.int8))
    assert "u.npy: expected elements of type |u1, found |i1" in run(tmp_path).stderr


RING = """
func.func @main(%x: tensor<40x60xf32> {dlc.name = "x"}, %y: tensor<60x24xf32> {dlc.name = "y"}) -> tensor<40x24xf32> {
  %z = loop.kernel @mm(%x: memref<40x60xf32> = %x, %y: memref<60x24xf32> = %y) -> (%z: memref<40x24xf32>)
      schedule "tileify,chunk-matmul-k{bk=8 vector=4},blockify-launch{block=32,32 thread=8,8},stage-inputs{budget=24576},register-tile{extents=4,4},double-buffer{depth=3},tma-copy,pipeline-k-outer" {
    loop.for %i in 40, %j in 24 {
      %s = loop.reduce add %k in 60 -> f32 {
        %a = loop.load %x[%i, %k] : memref<40x60xf32>
        %b = loop.load %y[%k, %j] : memref<60x24xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %s, %z[%i, %j] : memref<40x24xf32>
    }
  }
  func.return %z : tensor<40x24xf32>
}
"""  # noqa: E501


def ring() -> ModuleOp:
    module = LocParser(compiler_context(), RING, "ring.mlir").parse_module()
    set_target(module, "sm_90")
    run_pipeline(compiler_context(), module, "kernel")
    return module


def test_tensor_maps_are_exported(tmp_path: Path, scheduler: Path) -> None:
    """And a launcher for the GPU compiles, where there is a header to compile it against."""
    export_program(ring(), tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (kernel,) = manifest["kernels"]
    assert [m["extents"] for m in kernel["tensor_maps"]] == [[60, 40], [24, 60]]
    assert kernel["parameters"][:2] == ["const __grid_constant__ tensor_map"] * 2
    build(tmp_path, scheduler)
    x, y = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((40, 60), (60, 24)))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    assert run(tmp_path).stderr == ""
    np.testing.assert_allclose(np.load(tmp_path / "out" / "0.npy"), x @ y, atol=1e-5)

    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("the launcher for the GPU needs cuda.h: there is no nvcc")
    command = [nvcc, "-std=c++17", "-Xcompiler", "-Wall", "-c", tmp_path / "run.cpp"]
    command += ["-o", tmp_path / "run.o"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr


def test_an_exported_program_is_given_a_seed(tmp_path: Path, scheduler: Path) -> None:
    """That of the command line or of a file; the elements that stay are those of Philox."""
    text = "torch.nn.functional.dropout(torch.randn(8, 8))"
    assert main(["compile", "-c", text, "-o", f"{tmp_path}/"]) == 0
    build(tmp_path, scheduler)
    np.save(tmp_path / "input.npy", np.ones((8, 8), np.float32))
    assert "there is no argument rng" in run(tmp_path).stderr

    def dropped(*options: str) -> list[bool]:
        command = [tmp_path / "run", *options, tmp_path, tmp_path / "out"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return (np.load(tmp_path / "out" / "0.npy") == 0).flatten().tolist()

    first, other = dropped("--seed=5", "--offset=3"), dropped("--seed=5", "--offset=67")
    assert first != other
    words = philox(np.int64(5), np.int64(3) + np.arange(64)) & np.int64(2**32 - 1)
    assert first == (words < 2**31).tolist()
    np.save(tmp_path / "rng.npy", np.array([5, 3]))
    assert dropped() == first


def test_the_manifest_says_what_the_program_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Enough for a launcher of one's own."""
    text = "torch.nn.Softmax(1)(torch.nn.Linear(8, 40)(torch.randn(3, 8)) @ torch.randn(40, 2000))"
    assert main(["compile", "-c", text, "--target", "sm_80", "-o", f"{tmp_path}/"]) == 0
    assert f"make -C {tmp_path} HOST=1" in capsys.readouterr().out
    found = json.loads((tmp_path / "manifest.json").read_text())
    assert (found["format"], found["version"], found["target"]) == ("dlc-program", 3, "sm_80")
    assert [(i["name"], i["kind"]) for i in found["inputs"]] == [
        ("input", "input"), ("x", "input"), ("linear.weight", "parameter"),
        ("linear.bias", "parameter"),
    ]  # fmt: skip
    buffers = {b["name"]: b for b in found["buffers"]}
    slices = [b for b in found["buffers"] if b["kind"] == "slice"]
    assert slices
    for piece in slices:
        assert piece["offset"] % found["alignment"] == 0
        assert piece["offset"] + piece["bytes"] <= buffers[piece["memory"]]["bytes"]
    kernels = {k["name"]: k for k in found["kernels"]}
    for step in found["steps"]:
        assert len(step["buffers"]) == len(kernels[step["launch"]]["parameters"])
        assert (tmp_path / kernels[step["launch"]]["file"]).exists()
    (result,) = found["results"]
    assert buffers[result["buffer"]] == {
        "name": result["buffer"], "kind": "allocation", "dtype": "f32", "shape": [3, 2000],
        "strides": [2000, 1], "bytes": 24000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ir", "loop"], "expected one thing to print or to write, found --ir loop and the"),
        (["--with-weights"], "safetensors"),
    ],
)
def test_what_cannot_be_exported_is_a_sentence(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "safetensors.torch", None)
    command = ["compile", "-c", "torch.nn.Linear(4, 4)(torch.randn(2, 4))", "-o", f"{tmp_path}/"]
    assert main([*command, *options]) > 0
    assert message in capsys.readouterr().err


def test_weights_are_exported_on_request(tmp_path: Path, scheduler: Path) -> None:
    pytest.importorskip("safetensors")
    text = "torch.nn.Linear(8, 4)(torch.randn(3, 8))"
    assert main(["compile", "-c", text, "--with-weights", "-o", f"{tmp_path}/"]) == 0
    build(tmp_path, scheduler)
    from safetensors.numpy import load_file

    weights = load_file(tmp_path / "weights.safetensors")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    inputs = {i["name"] for i in manifest["inputs"]}
    assert len(weights) == 2
    (x,) = inputs - set(weights)
    np.save(tmp_path / x, np.eye(3, 8, dtype=np.float32))
    assert run(tmp_path, tmp_path / "weights.safetensors").stderr == ""
    bias, weight = sorted(weights.values(), key=lambda w: w.ndim)
    found = np.load(tmp_path / "out" / "0.npy")
    np.testing.assert_allclose(found, weight.T[:3] + bias, atol=1e-6)


def test_complex_weights_are_written_as_the_program_takes_them(
    tmp_path: Path, scheduler: Path
) -> None:
    pytest.importorskip("safetensors")
    w = torch.randn(4, 3, dtype=torch.complex64).t().conj()
    variant = dlc.compile(lambda x: x + w, (w,), target="sm_80", backend="host").variants[0]
    (name,) = (a.name for a in variant.program.arguments if a.tensor is not None)
    export_program(variant.module("kernel"), tmp_path, {name: w})
    build(tmp_path, scheduler)
    np.save(tmp_path / "x.npy", np.zeros((3, 4, 2), np.float32))
    assert run(tmp_path, tmp_path / "weights.safetensors").stderr == ""
    expected = torch.view_as_real(w.resolve_conj())
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "0.npy"), expected)


class Decoder(torch.nn.Module):
    """Returns what it writes to, views, an input itself, duplicates, and what is no tensor."""

    cache: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.arange(12.0).view(3, 4))

    def forward(self, x: torch.Tensor, extra: dict[str, torch.Tensor]) -> Any:
        self.cache.add_(x)
        extra["a/b"].mul_(2)
        y = self.cache.sum(0)
        return {
            "y": y * 2,
            "cache": [self.cache, self.cache.t()[1:], None],
            "given": (extra["a/b"], x, x.view(2, 6), 3),
            "halves": (y[:2], y[1:], y),
        }


def test_results_are_the_users_own(
    tmp_path: Path, scheduler: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbered as in the user's output; what is written to stands under its argument's name."""
    x, strided = torch.randn(3, 4), torch.randn(5, 2).t()
    variant = dlc.compile(
        Decoder(), (x, {"a/b": strided.clone()}), target="sm_80", backend="host"
    ).variants[0]
    text = text_of(variant.module("kernel"))
    module = LocParser(compiler_context(), text, "decoder.mlir").parse_module()
    export_program(module, tmp_path)  # what the text says is enough
    build(tmp_path, scheduler)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "extra.a_b.npy", np.ascontiguousarray(strided))
    np.save(tmp_path / "cache.npy", Decoder().cache)
    assert run(tmp_path).stderr == ""

    eager, given = Decoder(), strided.clone()
    leaves = tree_leaves(eager(x, {"a/b": given}))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    for number, (leaf, said) in enumerate(zip(leaves, manifest["results"], strict=True)):
        file = tmp_path / "out" / f"{number}.npy"
        if not isinstance(leaf, torch.Tensor):
            assert said["constant"] == leaf
            assert not file.exists()
            continue
        assert said["file"] == file.name
        assert said["strides"] == list(leaf.stride())
        np.testing.assert_allclose(np.load(file), leaf.numpy(), atol=1e-6, strict=True)
    for name, tensor in (("cache", eager.cache), ("extra.a_b", given)):
        np.testing.assert_allclose(np.load(tmp_path / "out" / f"{name}.npy"), tensor, atol=1e-6)
    assert [(i["name"], i["kind"]) for i in manifest["inputs"]] == [
        ("x", "input"), ("extra.a/b", "input"), ("cache", "buffer")
    ]  # fmt: skip
    told = {r["path"]: r.get("relation") for r in manifest["results"]}
    assert (told["cache.0"], told["cache.1"]) == ("cache", "a view of cache")
    assert (told["given.1"], told["halves.1"]) == ("x", "in the memory of result 8")
    command = [tmp_path / "run", "--help"]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "INPUTS/extra.a_b.npy  f32[2, 5]  input   extra.a/b" in usage
    assert "RESULTS/4.npy          f32[2, 5]  given.0   extra.a/b" in usage
    assert "(result 3)" in usage


def test_a_program_of_views_has_no_kernels(tmp_path: Path, scheduler: Path) -> None:
    assert main(["compile", "-c", "torch.t(torch.randn(3, 4))", "-o", f"{tmp_path}/"]) == 0
    build(tmp_path, scheduler)
    (name,) = (i["file"] for i in json.loads((tmp_path / "manifest.json").read_text())["inputs"])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / name, x)
    assert run(tmp_path).stderr == ""
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "0.npy"), x.T)
    command = [tmp_path / "run", tmp_path, tmp_path / "out", "--seed=3"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.stderr == "error: this program draws no random numbers: leave out --seed\n"
    assert said.returncode == 1
