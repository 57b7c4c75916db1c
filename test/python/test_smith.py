"""
Models that NNSmith draws are right on the host: some each time, with DLC_PREFIX=1 as many as
`docs/nnsmith.md` tells of.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

MODELS = 500 if os.environ.get("DLC_PREFIX") else 3
SCRIPT = Path(__file__).parent / "smith.py"
TABLE = Path(__file__).parents[2] / "docs" / "nnsmith.md"


def test_the_counts_of_the_table_add_up() -> None:
    counts = re.search(
        r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", TABLE.read_text(), re.M
    )
    assert counts is not None
    models, *others = map(int, counts.groups())
    assert models == sum(others)


def test_what_crashes_while_it_is_drawn_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nnsmith")
    import smith

    def crash(*_: object) -> None:
        os._exit(1)

    monkeypatch.setattr(smith, "drawn", crash)
    assert [model.kind for model in smith.apart([1], tmp_path)] == [smith.NO_MODEL]
    model = smith.Drawn(torch.nn.Identity(), (torch.ones(1),), [], {})  # type: ignore[arg-type]
    monkeypatch.setattr(smith, "drawn", lambda seed: model)
    monkeypatch.setattr(smith, "judged", crash)
    assert [model.kind for model in smith.apart([1], tmp_path)] == [smith.WRONG]


def test_models_are_right(tmp_path: Path) -> None:
    pytest.importorskip("nnsmith", reason="NNSmith draws them: pip install -e '.[smith]'")
    results = tmp_path / "results.jsonl"
    command = [sys.executable, SCRIPT, results, "--models", str(MODELS)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    wrong = [f"seed {m['seed']}: {m['why']}" for m in found if m["kind"] == "wrong"]
    assert not wrong, "\n".join(wrong)
