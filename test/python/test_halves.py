"""The table of products of bf16 that is made without a GPU."""

import json
import re

import halves
import pytest
from static_rows import RESULTS
from test_sass import needs_tools

DATA = json.loads((RESULTS / "halves.json").read_text())


def test_the_table_is_that_of_the_figures() -> None:
    assert (RESULTS / "halves.md").read_text() == halves.markdown(DATA)
    programs = [name for name, _ in halves.cases()]
    assert list(DATA) == [f"{name} {chip}" for chip in halves.CHIPS for name in programs]


def test_hardly_a_kernel_spills_and_none_waits_for_banks() -> None:
    spilled = {name: row["spill_bytes"] for name, row in DATA.items() if row["spill_bytes"]}
    assert not any(name.startswith(("gemm", "linear")) for name in spilled)
    assert len(spilled) <= 3
    assert sum(spilled.values()) <= 184  # what follows two products of 192 sums, once a block
    assert {row.get("serialized", 0) + row.get("early", 0) for row in DATA.values()} == {0}
    assert {row["bank_ways"] for row in DATA.values()} == {1.0}


def test_what_multiplies_is_most_of_what_large_blocks_issue() -> None:
    wide, high = re.compile(r"block=128,(128|192|256) "), re.compile(r"block=(128|256),\d+ ")
    products = [row for name, row in DATA.items() if name.startswith(("gemm", "linear"))]
    large = [row for row in products if wide.search(row["schedule"])]
    by_warps = [row for row in large if "mma=m16n8k16" in row["schedule"]]
    high_blocks = [row for row in products if high.search(row["schedule"])]
    by_groups = [row for row in high_blocks if "mma=m64n" in row["schedule"]]
    assert len(by_warps) > 5
    most = {128: 240, 96: 190, 64: 145, 32: 80}  # for so many products of a chunk
    assert all(row["issued"] <= most[row["tensor"]] for row in by_warps)
    assert len(by_groups) > 3
    assert all(row["tensor"] >= 4 and row["issued"] <= 140 for row in by_groups)


@pytest.mark.parametrize(
    ("schedule", "tile"),
    [
        ("tileify,cooperative-reduce{threads=128 rows=2 vector=8}", "reduce"),
        (
            "tileify,chunk-matmul-k{bk=64 vector=16},blockify-launch{block=32,64 thread=2,2}",
            "32x64x64",
        ),
        (
            "tileify,chunk-matmul-k{bk=32 vector=16},"
            'split-matmul-k{splits=4 then="tileify,blockify-launch{block=8,8 thread=8,8}"},'
            "blockify-launch{block=16,128 thread=1,4}",
            "16x128x32 in 4",
        ),
    ],
)
def test_tiles(schedule: str, tile: str) -> None:
    row = {"schedule": schedule, "us": 3.0, "floor": 2.0, "kernels": 1, "registers": 8,
           "spill_bytes": 0, "bank_ways": 1.0, "tensor": 8, "ldmatrix": 4, "copies": 2,
           "issued": 16}  # fmt: skip
    text = halves.markdown({"linear.a.s32 sm_90": row})
    assert re.search(rf"linear\.a\.s32 +sm_90 +{tile} +3\.0 +2\.0 +1\.50 +8 / 16", text)
    assert "ratios: 1.50; sm_80 -, sm_90 1.50, sm_120 -, gemm -, linear 1.50, attention -" in text
    assert "linear of 1 token -, linear of 32 tokens 1.50" in text


@needs_tools
def test_a_small_product_is_compiled() -> None:
    x, w = (f"torch.randn({n}, 256, dtype=torch.bfloat16)" for n in (128, 256))
    row = halves.examined("sm_90", f"F.linear({x}, {w})")
    assert row["tensor"] > 0
    assert row["us"] > row["floor"]


def test_the_roofline() -> None:
    target = halves.TARGETS["sm_80"]
    least = target.launch_seconds + 2 * 4096**3 / target.tensor_flops
    found = halves.roofline("sm_80", 2 * 4096**3, 3 * 2 * 4096**2)
    assert found == pytest.approx(least * 1e6)
