"""The programs of bench/roofline.py: what they are, and what is told of them without a GPU."""

import json
from pathlib import Path

import kernel_programs
import kernel_rows
import kernel_table
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc_bench.records import where_and_when
from dlc_bench.work import product_flops

RECORD = Path(kernel_table.__file__).parent / "results" / "kernels.json"
SUM, PRODUCT = "reduction/sum.1024x4096", "product/square.512"
TRANSPOSED = "convolution/transposed1d.32x64x64x4096x2"


def test_there_are_many_programs_of_different_names() -> None:
    assert len(kernel_programs.PROGRAMS) >= 150
    assert len({p.name for p in kernel_programs.PROGRAMS}) == len(kernel_programs.PROGRAMS)
    assert {p.family for p in kernel_programs.PROGRAMS} == kernel_programs.FAMILIES.keys()


@pytest.fixture(scope="module")
def rows() -> dict[str, kernel_rows.Row]:
    programs = {p.name: p for p in kernel_programs.PROGRAMS}
    found: dict[str, kernel_rows.Row] = {}
    with torch.device("meta"):
        for name in (SUM, PRODUCT, TRANSPOSED):
            program = programs[name]
            kernel = kernel_rows.measure(program.text, "sm_90", seconds=600)
            found[name] = {"family": program.family, **kernel}
    return found


def test_a_row_has_work_estimate_and_kernels(rows: dict[str, kernel_rows.Row]) -> None:
    for row in rows.values():
        assert row["times_roofline"] == row["estimate_us"] / row["roofline_us"]
        assert row["estimate_us"] == sum(kernel["estimate_us"] for kernel in row["kernels"])
        assert row["launches"] >= len(row["kernels"]) >= 1
        assert row["times_bytes"] > 0
        assert row["compile_seconds"] > 0
        assert all(kernel["schedule"] is not None for kernel in row["kernels"])


def test_work_is_what_nothing_can_do_without(rows: dict[str, kernel_rows.Row]) -> None:
    assert rows[SUM]["compulsory_bytes"] == 4 * 1024 * 4096 + 4
    assert rows[PRODUCT]["compulsory_bytes"] == 3 * 4 * 512 * 512
    assert rows[PRODUCT]["flops"] == 2 * 512**3
    # each point of its input is multiplied by the taps of all output channels
    assert rows[TRANSPOSED]["flops"] == 2 * 32 * 64 * 4096 * 64 * 5


@pytest.mark.parametrize(
    "name",
    [
        "convolution/conv2d_grouped.32x64x112x64",
        "convolution/conv3d.8x3x16x32",
        "convolution/transposed2d.16x128x64x64x2",
        "attention/full.1x32x512x64",
        "block/mlp.1x1000x2000x10",
    ],
)
def test_operations_are_those_that_pytorch_counts(name: str) -> None:
    [program] = [p for p in kernel_programs.PROGRAMS if p.name == name]
    with torch.device("meta"):
        function, arguments = capture_text(program.text)
        imported = import_program(function, arguments, whole=DECOMPOSITIONS)
        with FlopCounterMode(display=False) as counter:
            function(*arguments)
    assert product_flops(imported.module) == counter.get_total_flops()


def test_the_table_is_worst_first(rows: dict[str, kernel_rows.Row]) -> None:
    slow = {"family": "scan", "error": "more than 60 s"}
    text = kernel_table.markdown({**where_and_when(), "rows": {"sm_90": {**rows, "slow": slow}}})
    listed = [line.split(" | ")[0] for line in text.splitlines() if line.count("|") == 9]
    worst = sorted(rows, key=lambda name: -rows[name]["times_roofline"])
    assert listed[2:] == [f"| {name}" for name in worst]
    assert "- `slow`: more than 60 s" in text
    assert "| scan | - |" in text


def test_what_is_slow_has_a_reason() -> None:
    record = json.loads(RECORD.read_text())
    names = {name for rows in record["rows"].values() for name in kernel_table.over(rows)}
    assert [name for name in names if kernel_table.reason_of(name) is None] == []
