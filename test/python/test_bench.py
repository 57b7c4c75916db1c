"""The cases that are measured, and the table that is made of them without a GPU."""

import json
import os
import re
import sys
from math import prod
from pathlib import Path
from typing import Any

import cases
import launch
import pytest
import static
import static_table
import target_rows
import torch

from dlc.analysis.kernel.occupancy import fill, occupancy
from dlc.frontend.scripts.capture import capture_text
from dlc.target import KIB, TARGETS, get_target


def test_the_suite_has_84_cases() -> None:
    assert len(cases.SUITE) == 84
    assert len({case.name for case in cases.CASES}) == len(cases.CASES)
    counts: dict[str, int] = {}
    for case in cases.SUITE:
        op = case.name.split(".")[0]
        counts[op] = counts.get(op, 0) + 1
    assert counts == {
        "matmul": 36, "rmsnorm": 6, "softmax": 6, "silu_mul": 6, "sdpa": 6, "naive_attn": 6,
        "matmul_add": 12, "silu_mul_matmul": 6,
    }  # fmt: skip


WHOLE = bool(os.environ.get("DLC_PREFIX"))
"""`make prefix` takes every case, `make test` every fifth."""


@pytest.mark.parametrize("case", cases.CASES[:: 1 if WHOLE else 5], ids=lambda case: case.name)
def test_a_case_is_what_it_says(case: cases.Case) -> None:
    """Shapes of inputs and output; the function and the text compute the same thing."""
    with torch.device("meta"):
        inputs = [torch.randn(shape) for shape in case.inputs.values()]
        constants = case.make_constants()
        assert case.function(*inputs, *constants).shape == case.output
        module, arguments = capture_text(case.text)
        assert module(*arguments).shape == case.output
    assert sum(c.numel() for c in constants) == case.constant_elements
    assert case.bytes == 4 * sum(t.numel() for t in (*inputs, *constants)) + 4 * prod(case.output)


def test_numbers_of_a_case() -> None:
    [case] = cases.select("^suite/matmul_add.qw.down_proj.s32$")
    assert case.text == (
        "x = torch.randn(1, 32, 18944); w = torch.randn(18944, 3584); "
        "r = torch.randn(1, 32, 3584); x @ w + r"
    )
    assert case.flops == 2 * 32 * 18944 * 3584
    assert case.aligned
    [attention] = cases.select("^suite/sdpa.tl.s32$")
    assert attention.flops == 2 * 2 * 32 * 64 * (32 * 33 / 2)
    assert not any(case.aligned for case in cases.select("primes"))


@pytest.mark.parametrize(
    ("target", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("sm_90", 256, 32, 0, 8, "threads"),
        ("sm_90", 256, 33, 0, 6, "registers"),  # 40 registers a thread: 51 warps, in fours 48
        ("sm_90", 256, 128, 0, 2, "registers"),
        ("sm_90", 256, 255, 0, 1, "registers"),
        ("sm_90", 32, 16, 0, 32, "blocks"),
        ("sm_120", 32, 16, 0, 24, "blocks"),
        ("sm_90", 128, 32, 75 * KIB, 3, "shared"),  # 76 KiB with what is reserved
        ("sm_90", 128, 32, 75 * KIB + 1, 2, "shared"),
        ("sm_90", 128, 32, 227 * KIB, 1, "shared"),
        ("sm_80", 1024, 64, 0, 1, "registers"),
        ("sm_90", 1024, 72, 0, 0, "registers"),
        ("sm_120", 1024, 32, 0, 1, "threads"),
        ("sm_90", 48, 32, 0, 32, "threads"),  # one and a half warps are two
    ],
)
def test_occupancy(
    target: str, threads: int, registers: int, shared: int, blocks: int, limit: str
) -> None:
    found = occupancy(get_target(target), threads, registers, shared)
    assert (found.blocks, found.limit) == (blocks, limit)
    warps = -(-threads // 32) * blocks
    assert found.share == warps * 32 / get_target(target).threads_per_sm


def test_every_target_has_an_occupancy() -> None:
    assert all(occupancy(target, 128, 32, 0).blocks > 0 for target in TARGETS.values())


def test_fill() -> None:
    h100 = get_target("sm_90")
    assert [fill(h100, blocks) for blocks in (0, 66, 132, 133, 264)] == [
        0, 0.5, 1, pytest.approx(133 / 264), 1,
    ]  # fmt: skip


def kernel(**changed: Any) -> dict[str, Any]:
    return {
        "name": "matmul", "schedule": "tileify", "ctas": 264, "threads": 256,
        "shared_bytes": 16384, "contraction": True, "bank_ways": {"read x_smem": 1.0},
        "registers": 128, "spill_bytes": 0, "stack": 0, "ctas_per_sm": 2, "occupancy": 0.25,
        "occupancy_limit": "registers", "fill": 1.0, "predicted_us": 100.0,
        "accesses": {"LDGSTS.128": 4, "STG.128": 16, "LDS.128": 64},
        "loop": {
            "instructions": 1100, "fma_share": 0.9, "accesses": {"LDS.128": 64},
            "shared_bytes_per_fma": 1.0,
        },
        **changed,
    }  # fmt: skip


def record(*kernels: dict[str, Any], aligned: bool = True) -> dict[str, Any]:
    row = {"aligned": aligned, "times_floor": 2.0, "roofline": 0.5, "kernels": list(kernels)}
    rows = {"good": row | {"compiler": "new"}, "bad": {"error": "no\nmore", "compiler": "old"}}
    return {
        "date": "2026-01-01", "machine": "m", "compiler": "new", "rows": {"sm_90": rows},
    }  # fmt: skip


WEAKNESSES = {
    "kernels with spills": {"spill_bytes": 8},
    "kernels whose products ptxas serializes": {"serialized": 1},
    "kernels that touch sums of products in flight": {"early": 1},
    "kernels with a stack": {"stack": 8},
    "kernels that no SM can hold": {"ctas_per_sm": 0},
    "aligned cases' kernels with global accesses under 128 bits": {
        "accesses": {"LDG.32": 1, "LDGSTS.128": 1}
    },
    "aligned cases' products with shared reads under 128 bits in the loop": {
        "loop": kernel()["loop"] | {"accesses": {"LDS.32": 1, "LDS.128": 7}}
    },
    "products with less than 85 % FFMA": {"loop": kernel()["loop"] | {"fma_share": 0.84}},
    "products with more than 1 shared byte a multiply-add": {
        "loop": kernel()["loop"] | {"shared_bytes_per_fma": 1.5}
    },
    "kernels with bank conflicts in the model": {"bank_ways": {"read x": 1.0, "write x": 2.0}},
    "products without asynchronous copies": {"accesses": {"LDG.128": 4}},
    "kernels that fill less than half of the SMs": {"fill": 0.4},
    "kernels with occupancy under 25 %": {"occupancy": 0.125},
}


IDLE = "products whose FFMA can fill less than 85 % of the fp32 lanes"


def test_half_of_the_issue_slots_fill_half_as_many_lanes() -> None:
    weak = WEAKNESSES["products with less than 85 % FFMA"]
    for target, count in {"sm_90": 1, "sm_80": 0}.items():
        found = static_table.summary(record(kernel(), kernel(**weak))["rows"]["sm_90"], target)
        assert found[IDLE] == count


def test_a_good_kernel_has_no_weakness() -> None:
    found = static_table.summary(record(kernel())["rows"]["sm_90"], "sm_90")
    sizes = {"cases": 2, "cases not compiled": 1, "kernels": 1, "products": 1}
    assert found == sizes | dict.fromkeys([*WEAKNESSES, IDLE], 0)


@pytest.mark.parametrize("weakness", WEAKNESSES)
def test_every_weakness_is_counted(weakness: str) -> None:
    weak = kernel(**WEAKNESSES[weakness])
    found = static_table.summary(record(kernel(), weak)["rows"]["sm_90"], "sm_90")
    assert {name for name in WEAKNESSES if found[name]} == {weakness}
    if weakness.startswith("aligned"):
        ragged = static_table.summary(record(weak, aligned=False)["rows"]["sm_90"], "sm_90")
        assert ragged[weakness] == 0


def test_the_markdown() -> None:
    text = static_table.markdown(record(kernel(loop=None, contraction=False), kernel()))
    assert "1 of 2 rows are of an earlier state of dlc." in text
    assert "| kernels with spills | 0 |" in text
    assert "- bad: no\n" in text
    widths = {line.count("|") for line in text.split("## sm_90")[1].splitlines() if "|" in line}
    assert len(widths) == 1
    assert "128: 0 + 16 | 128: 64" not in text  # kinds that there are none of are left out
    assert re.search(r"\| 128: 16 \| 128: 64 \| 128: 4 \| `tileify` \|", text)


def test_lowering_tells_what_does_not_compile() -> None:
    assert "error" in static.lower("x = torch.randn(4); x.nonsense()", "sm_90")


def test_lowering() -> None:
    [case] = cases.select("^ragged/ragged.softmax.s100$")
    lowered = static.lower(case.text, "sm_80")
    assert lowered.keys() == {"kernels", "seconds", "us", "flops", "bytes"}
    for found in lowered["kernels"]:
        assert f"{found['name']}(" in found["source"]
        assert found["schedule"].startswith("tileify")
        assert found["estimate_us"] > 0


def test_lowering_a_product() -> None:
    lowered = static.lower("a = torch.randn(256, 64); b = torch.randn(64, 256); a @ b", "sm_80")
    [found] = lowered["kernels"]
    assert found["contraction"]
    assert found["flops"] == 2 * 256 * 64 * 256
    assert {what.split()[0] for what in found["bank_ways"]} == {"read", "write"}
    assert all(ways >= 1 for ways in found["bank_ways"].values())


def test_a_record_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "results" / "static.json"
    record = target_rows.Record(path)
    record.put("sm_90", "one", {"key": "k"})
    record.put("sm_90", "other", {"key": "k", "error": "no"})
    record.save()
    assert json.loads(path.read_text())["rows"]["sm_90"]["one"] == {"key": "k"}
    again = target_rows.Record(path)
    assert again.has("sm_90", "one", "k")
    assert not again.has("sm_90", "one", "another")
    assert not again.has("sm_80", "one", "k")
    assert not again.has("sm_90", "other", "k")  # what failed is tried again


def test_the_cost_of_launches_is_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    output = tmp_path / "launch.json"
    monkeypatch.setattr(launch, "COUNTS", (1, 2))
    monkeypatch.setattr(launch, "CALLS", 2)
    arguments = ["launch.py", "--backend", "host", "--repeat", "2", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert launch.main() == 0
    result = json.loads(output.read_text())
    assert result["environment"]["rehearsal"]
    assert result["us"]["dlc (host)"]["2 kernels"]["median"] > 0
    assert set(result["us"]) == {"eager", "dlc (host)"}
