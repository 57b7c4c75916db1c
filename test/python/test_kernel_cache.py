"""Kernel IR on disk: found by its program, never a stranger's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from xdsl.context import Context

from dlc import kernel_cache
from dlc.backend import BackendError
from dlc.backend.cache import cache_directory, lookup_or_build
from dlc.backend.cuda.print.printer import print_module
from dlc.cli import dlc_cli
from dlc.compiler import set_target
from dlc.frontend.fx import import_program
from dlc.kernel_cache import Lowered, lower
from dlc.registry import register
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lowered(factor: float = 2.0, target: str = "sm_90") -> Lowered:
    program = import_program(
        lambda x: (x * factor).softmax(-1) @ x.t(), (torch.ones(6, 40),), whole=DECOMPOSITIONS
    )
    set_target(program.module, target)
    return lower(register(Context()), program.module)


def test_a_program_is_lowered_once(cache: Path, monkeypatch: pytest.MonkeyPatch):
    first = lowered()
    other, elsewhere = lowered(3.0), lowered(target="sm_80")
    monkeypatch.setattr(kernel_cache, "run_pipeline", lambda *_: pytest.fail("it is there"))
    again = lowered()
    assert print_module(again.module) == print_module(first.module)
    assert again.longest_reduction == first.longest_reduction == 40
    texts = {print_module(each.module) for each in (first, other, elsewhere)}
    assert len(texts) == 3
    assert len(list(cache.iterdir())) == 3


def test_another_dlc_finds_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch):
    lowered()
    monkeypatch.setattr(kernel_cache, "source_key", lambda: "changed")
    lowered()
    assert len(list(cache.iterdir())) == 2


def test_the_second_run_says_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    command = ["run", "-c", "torch.randn(4, 40).softmax(-1)", "--backend", "host"]
    outputs: list[str] = []
    for _ in range(2):
        assert dlc_cli.main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        outputs.append("\n".join(line for line in lines if " ms" not in line and " us" not in line))
        monkeypatch.setattr(kernel_cache, "run_pipeline", lambda *_: pytest.fail("it is there"))
    assert outputs[0] == outputs[1]
    assert "OK" in outputs[0]


def test_the_cache_is_ones_own(cache: Path):
    assert cache_directory().stat().st_mode & 0o777 == 0o700
    lowered()
    (entry,) = cache.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o700
    entry.chmod(0o777)
    with pytest.raises(BackendError, match="is another user's, or others may write to it"):
        lowered()


def test_what_is_anothers_is_refused(monkeypatch: pytest.MonkeyPatch):
    lookup_or_build("host", "key", "file", lambda path: {})
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(BackendError, match="remove it, or set DLC_CACHE_DIR"):
        lookup_or_build("host", "key", "file", lambda path: {})
