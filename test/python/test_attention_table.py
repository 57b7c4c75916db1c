"""What ptxas makes of attention, as the committed table has it (bench/attention.py)."""

from __future__ import annotations

import json

from attention import attentions, markdown
from static_rows import RESULTS

DATA = json.loads((RESULTS / "attention.json").read_text())
STATIC = {name: row for name, row in DATA.items() if " " in name}


def test_hardly_anything_is_spilled() -> None:
    """Three of 48, causal on sm_80, keep 2 or 8 words in memory."""
    assert len(STATIC) == 2 * 4 * 2 * 3
    spilled = [row["spill_bytes"] for row in STATIC.values() if row["spill_bytes"]]
    assert len(spilled) <= 3
    assert max(spilled, default=0) <= 32
    assert max(row["registers"] for row in STATIC.values()) <= 255


def test_scores_are_stored_at_most_once() -> None:
    """One kernel, or one for scores and one for what is made of them."""
    assert {row["kernels"] for row in STATIC.values()} <= {1, 2}


def test_the_page_is_of_the_data() -> None:
    assert [case.name for case in attentions()] == list(STATIC)
    assert markdown(DATA) == (RESULTS / "attention.md").read_text()
