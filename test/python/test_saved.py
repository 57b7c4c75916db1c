"""Compiled programs as files, as pickles and as copies."""

from __future__ import annotations

import copy
import errno
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import dlc
from dlc.backend import BackendError
from dlc.backend.host import cxx
from dlc.frontend.source import ImportFailure
from dlc.saved.archive import read_archive, write_archive


class Cached(nn.Module):
    """Weights of two dtypes and layouts, a buffer that is written to, results of all kinds."""

    seen: torch.Tensor
    ones: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.turned = nn.Parameter(torch.randn(3, 4).bfloat16().t())
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("ones", torch.ones(1).expand(3))

    def forward(self, x: torch.Tensor, n: int, *, more: dict[str, torch.Tensor]) -> Any:
        y = self.linear(x) + (x @ self.turned.float()) * n + self.ones
        self.seen.add_(y.sum(0))
        return {"y": (y, y.argmax(-1)), "x": x.t(), "n": n, "none": None, "more": more["b"] + 1}


def call() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randn(2, 4), 3), {"more": {"b": torch.rand(2).double()}}


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Cached, Path]:
    torch.manual_seed(0)
    model, (args, kwargs) = Cached().requires_grad_(False), call()
    path = tmp_path / "p.dlc"
    dlc.compile(model, args, backend="host", kwargs=kwargs).save(path)
    return model, path


def test_a_loaded_program_computes_the_same(
    saved: tuple[Cached, Path], monkeypatch: pytest.MonkeyPatch
):
    model, path = saved

    def compiles(*args: Any, **options: Any) -> None:
        pytest.fail("a loaded program compiles nothing")

    monkeypatch.setattr("dlc.stages.run_pipeline", compiles)
    monkeypatch.setattr("dlc.backend.host.host_kernel.HostKernel._build", compiles)
    loaded = dlc.load_program(path)
    for _ in range(2):
        args, kwargs = call()
        torch.testing.assert_close(loaded(*args, **kwargs), model(*args, **kwargs))
    (seen,) = (a.tensor for a in loaded.variants[0].program.arguments if a.name == "seen")
    torch.testing.assert_close(seen, model.seen)
    assert "torch.aten" in loaded.ir("torch")
    assert "__global__" in loaded.ir("cuda")


def test_another_call_is_refused(saved: tuple[Cached, Path]):
    loaded, (_, kwargs) = dlc.load_program(saved[1]), call()
    assert repr(loaded).startswith("<dlc program Cached for ")
    with pytest.raises(ImportFailure, match="has no kernels for such a call") as caught:
        loaded(torch.randn(5, 4), 3, **kwargs)
    held = "hint: it was called with x: float32[2, 4], more.b: float64[2], 3"
    assert caught.value.__notes__ == [held]


def test_other_strides_than_saved_are_told(tmp_path: Path):
    compiled = dlc.compile(torch.relu, (torch.empty(3, 2).t(),), backend="host")
    compiled(torch.empty(9)[1:])
    compiled.save(tmp_path / "p.dlc")
    with pytest.raises(ImportFailure) as caught:
        dlc.load_program(tmp_path / "p.dlc")()
    told = caught.value.__notes__[0]
    assert (
        "args.0: float32[2, 3] of strides [1, 2]; or args.0: float32[8] at multiples of 4" in told
    )


def test_a_loaded_program_is_not_pickled(saved: tuple[Cached, Path]):
    loaded = dlc.load_program(saved[1])
    with pytest.raises(TypeError, match="load its file again"):
        pickle.dumps(loaded)


def edited(**changes: str) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """A manifest with other entries."""

    def edit(files: dict[str, bytes]) -> dict[str, bytes]:
        manifest = json.loads(files["manifest.json"]) | changes
        return files | {"manifest.json": json.dumps(manifest).encode()}

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (edited(version="0.0.9"), "dlc 0.0.9 saved it, and this is dlc"),
        (edited(chip="sm_80"), "its machine code is for sm_80, and the backend 'host' is this CPU"),
        (edited(format="zip"), "it is no saved program"),
        (lambda files: {}, "it is no saved program"),
    ],
    ids=["version", "chip", "format", "empty"],
)
def test_files_of_others_are_refused(
    edit: Callable[[dict[str, bytes]], dict[str, bytes]], words: str, saved: tuple[Cached, Path]
):
    path = saved[1]
    write_archive(path, edit(read_archive(path)))
    with pytest.raises(BackendError, match=words):
        dlc.load_program(path)


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    compiled = dlc.compile(torch.neg, (torch.ones(2),), backend="host")
    (tmp_path / "folder").mkdir()
    for path, why in (
        (tmp_path / "folder", "is a directory"),
        (tmp_path / "none" / "p.dlc", "no such file or directory"),
        (tmp_path / "p.dlc", "no space left on device"),
    ):
        if why.startswith("no space"):
            monkeypatch.setattr(zipfile.ZipFile, "writestr", fails)
        with pytest.raises(BackendError) as raised:
            compiled.save(path)
        assert str(raised.value) == f"cannot save the program as '{path}': {why}"
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_other_files_are_no_saved_programs(tmp_path: Path):
    path = tmp_path / "k.mlir"
    for why in ("no such file or directory", "it is no file that save() wrote, or is cut off"):
        with pytest.raises(BackendError) as raised:
            dlc.load_program(path)
        assert str(raised.value) == f"cannot load the program '{path}': {why}"
        path.write_text("builtin.module {}")
    assert raised.value.__notes__ == ["hint: dlc.load reads IR"]


def test_damaged_files_are_refused(saved: tuple[Cached, Path]):
    path = saved[1]
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("0/torch.mlir", "module {}")
    with pytest.raises(BackendError, match="checksum is wrong"):
        dlc.load_program(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BackendError, match="cannot load the program"):
        dlc.load_program(path)
    with pytest.raises(BackendError, match="no such file"):
        dlc.load_program(path.with_name("absent.dlc"))


def test_another_compiler_is_another_chip(
    saved: tuple[Cached, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "dlc.backend.host.host_backend.fingerprint", lambda: cxx.fingerprint() + "x"
    )
    with pytest.raises(BackendError, match="its machine code is for this CPU and compiler"):
        dlc.load_program(saved[1])


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def test_what_has_no_form_in_json(tmp_path: Path):
    compiled = dlc.compile(lambda x: Pair(x + 1, x), (torch.randn(2),), backend="host")
    with pytest.raises(BackendError, match=r"the structure of a call: .*Pair"):
        compiled.save(tmp_path / "p.dlc")
    assert not list(tmp_path.iterdir())


def test_copies_and_pickles():
    x = torch.randn(2, 3)
    model = nn.Linear(3, 3).requires_grad_(False)
    compiled = dlc.compile(model, (x,), backend="host")
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(other(x), compiled(x))
        copied: Any = other.function
        copied.weight.zero_()
        assert torch.equal(other(x), model.bias.expand(2, 3))
        assert (other.target, other.backend.name) == (compiled.target, "host")
    assert copy.copy(compiled).function is model


class Guarded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.linear = nn.Linear(4, 4)
        self.scale, self.table = 2.0, {"a": [1.0]}

    def forward(self, x: torch.Tensor) -> Any:
        seen = self.get_buffer("seen").add_(1)
        return self.linear(x) * self.scale + seen * self.table["a"][0] + self.training


def test_variants_share_memory_and_are_those_of_the_present(tmp_path: Path):
    model, sizes = Guarded().requires_grad_(False), (2, 5)
    compiled = dlc.compile(model, (torch.randn(2, 4),), backend="host")
    for change in ({"scale": 3.0}, {"training": False}, {"table": {"a": [5.0]}}):
        for rows in sizes:
            compiled(torch.randn(rows, 4))
        for name, value in change.items():
            setattr(model, name, value)
    with pytest.raises(BackendError, match="not compiled for what its modules are"):
        compiled.save(tmp_path / "p.dlc")
    for rows in sizes:
        compiled(torch.randn(rows, 4))
    compiled.save(tmp_path / "p.dlc")
    loaded, own = dlc.load_program(tmp_path / "p.dlc"), copy.deepcopy(model)
    assert len(compiled.variants) == 8
    assert len(loaded.variants) == 2
    for rows in (*sizes, *sizes):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(loaded(x), own(x))


def test_modes_are_guards_of_a_file(tmp_path: Path):
    x = torch.randn(3, 4)
    compiled = dlc.compile(lambda x: x @ x.t(), (x,), backend="host")
    with torch.autocast("cpu", torch.bfloat16):
        compiled(x)
    compiled.save(tmp_path / "p.dlc")
    loaded = dlc.load_program(tmp_path / "p.dlc")
    assert loaded(x).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert loaded(x).dtype == torch.bfloat16
    with (
        torch.autocast("cpu", torch.float16),
        pytest.raises(ImportFailure, match="no kernels for such a call"),
    ):
        loaded(x)
    with pytest.raises(ImportFailure, match="without gradients"):
        loaded(x.requires_grad_())
