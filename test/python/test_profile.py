"""What is told of kernels: Nsight Compute's CSV, diagnoses, and the command around them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_sass import needs_tools

from dlc.cli.dlc_cli import main
from dlc.cli.profile_report import matched
from dlc.target import get_target
from dlc_bench import ncu, profiled
from dlc_bench.ceilings import Ceilings
from dlc_bench.diagnosis import diagnose
from dlc_bench.ncu import Counters, NoCounters

H100 = get_target("sm_90")
NAMES = {
    "ID": ("", "0"),
    "Kernel Name": ("", "softmax(const float *, float *)"),
    "gpu__time_duration.sum": ("ns", "12,500"),
    "dram__bytes.sum.per_second": ("byte/second", "2,130,000,000,000"),
    "sm__inst_issued.avg.pct_of_peak_sustained_active": ("%", "22.5"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "9.5"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "1.5"),
    "smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio": ("inst", "n/a"),
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": ("inst", "1"),
    "smsp__average_warps_issue_stalled_wait_not_issued_per_issue_active.ratio": ("inst", "99"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": ("", "300"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": ("", "0"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("", "500"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": ("", "100"),
}


def quoted(cells: list[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


PAGE = "\n".join([
    "==PROF== Connected to process 1",
    quoted(list(NAMES)),
    quoted([unit for unit, _ in NAMES.values()]),
    quoted([value for _, value in NAMES.values()]),
])  # fmt: skip


def test_the_raw_page() -> None:
    [found] = ncu.parse(PAGE)
    assert found.kernel == "softmax"
    assert found.microseconds == 12.5
    assert found.dram_bandwidth == 2.13e12
    assert found.issue_share == 0.225
    assert found.stalls == {"long_scoreboard": 9.5, "barrier": 1.5}
    assert found.conflict_ways == 2.0
    assert ncu.parse(PAGE.replace('"ns"', '"us"'))[0].microseconds == 12500
    assert ncu.parse("==ERROR== ERR_NVGPUCTRPERM") == []


def pretend(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folder / "ncu"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_ncu_is_run_without_touching_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page").write_text(PAGE)
    pretend(tmp_path, f'echo "$@" > {tmp_path}/said; cat {tmp_path}/page', monkeypatch)
    assert ncu.count("builtin.module {}")[0].kernel == "softmax"
    said = (tmp_path / "said").read_text()
    assert "--clock-control none" in said
    assert said.split()[-1].endswith("kernels.mlir")


def test_why_there_are_no_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, "echo '==ERROR== ERR_NVGPUCTRPERM: no permission'; exit 1", monkeypatch)
    with pytest.raises(NoCounters, match="counts nothing: ==ERROR== ERR_NVGPUCTRPERM"):
        ncu.count("builtin.module {}")
    monkeypatch.setattr(ncu, "find_tool", lambda name: None)
    with pytest.raises(NoCounters, match="was not found"):
        ncu.count("builtin.module {}")


def test_what_is_profiled_runs_twice(tmp_path: Path) -> None:
    text = "torch.nn.Softmax(dim=-1)(torch.randn(4, 8))"
    path = tmp_path / "k.mlir"
    assert main(["compile", "-c", text, "--ir", "kernel", "-o", str(path)]) == 0
    command = profiled.command("host", [path])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("k.mlir: ")
    assert "softmax" in done.stdout


def kernel(**changed: Any) -> dict[str, Any]:
    return {
        "name": "softmax", "ctas": 264, "contraction": False, "flops": 1e6, "memory_bytes": 4e7,
        "predicted_us": 14.0, "spill_bytes": 0, "fill": 1.0, "occupancy": 0.5,
        "occupancy_limit": "registers", "bank_ways": {"read x": 1.0}, "loop": None,
        "accesses": {"LDG.128": 4, "STG.128": 4}, **changed,
    }  # fmt: skip


COUNTED = Counters("softmax", 20.0, 2.13e12, 0.2, {"long_scoreboard": 9.5}, 1.0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "memory-bound, 14 us predicted; nothing weak is seen"),
        ({"accesses": {"LDG.32": 4, "LDGSTS.128": 4}}, "4 of 8 loads are less than 16 bytes wide"),
        ({"spill_bytes": 64}, "64 bytes of registers are spilled"),
        ({"bank_ways": {"read x": 4.0}}, "shared memory conflicts, 4 ways"),
        ({"fill": 0.25}, "264 blocks use 25% of the SMs' time"),
        ({"occupancy": 0.125}, "few warps, 12% (registers)"),
        ({"memory_bytes": 100}, "launch-bound"),
        (
            {"contraction": True, "flops": 1e10, "loop": {"fma_share": 0.5}},
            "compute-bound, 14 us predicted; multiply-adds are 50% of the loop",
        ),
    ],
)
def test_diagnoses(changed: dict[str, Any], said: str) -> None:
    assert said in diagnose(kernel(**changed), H100)


def test_a_diagnosis_with_counters() -> None:
    ceilings = Ceilings(copy_bandwidth=3e12, gemm_flops=5e13, gemm_extent=64)
    narrow = kernel(accesses={"LDG.32": 2, "LDG.128": 2})
    assert diagnose(narrow, H100, COUNTED, ceilings) == (
        "memory-bound, 20 us, 71% of copy bandwidth; 2 of 4 loads are less than 16 bytes wide; "
        "20% of the issue slots are used, 9.5 warps wait for long scoreboard"
    )


def test_counters_find_their_kernels() -> None:
    fill = Counters("fill", 1.0, None, None, {}, None)
    rows = [kernel(), kernel(name="other"), kernel()]
    assert matched(rows, [COUNTED, fill, COUNTED]) == [COUNTED, None, COUNTED]


@needs_tools
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = "torch.randn(8, 64) @ torch.randn(64, 32)"
    arguments = ["run", "--backend", "host", "--profile", "--bench", "--contenders", "dlc,eager"]
    assert main([*arguments, "-c", text]) == 0
    out = capsys.readouterr().out
    assert "wall clock on the host, TF32 off" in out
    assert "kernels compiled for sm_90, which they have not run on" in out
    assert out.splitlines()[-1].startswith("matmul: launch-bound, ")
    assert main([*arguments[:-1], "dlc,eagre", "-c", text]) == 2
    assert "did you mean eager?" in capsys.readouterr().err
