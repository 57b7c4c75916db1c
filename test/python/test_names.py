"""Names that a shell, C, or a line of text would take for something else are only names."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dlc.cli.dlc_cli import main
from dlc.cli.dlc_opt import main as dlc_opt
from dlc.cli.pass_reproducer import write_reproducer

HOSTILE = "a b'c\"d; touch made; $(touch made) `touch made` é\n&|*"
KERNEL = '@"k; $(touch made) \\22 b\\0A é"'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of such a name, with such a cache, and in it a module of such a kernel."""
    place = tmp_path / HOSTILE
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("DLC_CACHE_DIR", str(place / f"cache {HOSTILE}"))
    Path(f"{HOSTILE}.py").write_text("torch.relu(torch.randn(7, 9))\n")
    assert main(["compile", f"{HOSTILE}.py", "--ir", "loop", "-o", f"o{HOSTILE}.mlir"]) == 0
    text = Path(f"o{HOSTILE}.mlir").read_text()
    assert "@relu" in text
    Path(f"{HOSTILE}.mlir").write_text(text.replace("@relu", KERNEL))
    return place


def assert_nothing_was_run(here: Path) -> None:
    assert not [path for path in here.rglob("*") if path.name == "made"]


def test_programs_run_under_any_name(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--backend", "host", f"{HOSTILE}.py"]) == 0
    assert main(["run", "--backend", "host", f"{HOSTILE}.mlir"]) == 0
    capfd.readouterr()
    assert main(["compile", f"{HOSTILE}.mlir", "-o", f"{HOSTILE}/"]) == 0
    said = capfd.readouterr().out
    assert f"make -C {shlex.quote(HOSTILE)} HOST=1" in said
    subprocess.run(["make", "-s", "-C", HOSTILE, "HOST=1"], check=True, capture_output=True)
    assert (here / HOSTILE / "run").exists()
    assert_nothing_was_run(here)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_is_told_a_plain_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It passes names of files to a shell."""
    assert main(["compile", "--cubin", f"{HOSTILE}.mlir"]) == 0
    assert list(here.glob("cache*/cuda-*/kernel.cubin"))
    monkeypatch.setattr("tempfile.tempdir", str(here))
    command = ["compile", "--cubin", f"{HOSTILE}.mlir", "--target", "sm_80"]
    assert main(command) == 1
    assert "set TMPDIR to another one" in capfd.readouterr().err
    assert_nothing_was_run(here)


def test_a_reproducer_has_any_name(here: Path) -> None:
    text = (here / f"{HOSTILE}.mlir").read_text()
    command = shlex.split(write_reproducer(text, "tileify", "", here))
    assert command[0] == "dlc-opt"
    assert dlc_opt(command[1:]) == 0
