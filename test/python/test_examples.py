"""Each of `examples/` runs as its docstring says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlc.cli import dlc_cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = ("attention", "layer_norm", "softmax", "mlp")
PROGRAMS = {
    "by_hand": "by hand: tileify,blockify-launch{block=16,16 thread=8,8},register-tile{extents=2,2",
    "decode": "8 tokens by 1 variant: <dlc program Decoder",
    "export": "usage: ",
}


def test_all_of_them_are_run() -> None:
    assert {path.stem for path in EXAMPLES.iterdir() if path.is_file()} == {*SCRIPTS, *PROGRAMS}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["compile", "--explain"] if name == "mlp" else ["run", "--backend", "host"]
    assert dlc_cli.main([*command, str(EXAMPLES / f"{name}.py")]) == 0
    out = capfd.readouterr().out
    assert "WRONG" not in out
    assert name == "mlp" or out.rstrip().endswith("OK")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'bench'}",
        "PATH": f"{scripts}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert PROGRAMS[name] in done.stdout
