"""The checker: warps that wait for each other, blocks, bank conflicts, and the command."""

from __future__ import annotations

import re
from pathlib import Path

import loop_cases
import numpy as np
import pytest
from bank_meter import BankConflict, promises_of, run_measured
from harness import STEPS, apply, lowered, parse, scheduled
from test_interpreter import DONE, SMEM, STAGED, X, body, func_in, run
from test_schedules import tiled
from xdsl.context import Context

from dlc.cli.dlc_cli import main
from dlc.dialects import kernel
from dlc.registry import get_pass, register
from dlc.simulator import Hazard, checker
from dlc.simulator.checker import (
    Verdict,
    affordable_blocks,
    check_module,
    operations,
    spread_blocks,
)


def verdict_of(text: str, blocks: int | None = None) -> Verdict:
    (verdict,) = check_module(parse(text), blocks=blocks)
    return verdict


def hazards(text: str) -> list[str]:
    return [str(hazard) for hazard in verdict_of(text).hazards]


# Warps that go different ways: the first writes a ring of two slots, the second folds it.

SLOTS = "memref<2x32xf32, #kernel.shared>"
PARTS = {
    "full": "kernel.mbarrier_wait %full[%k mod 2], parity (%k floordiv 2) mod 2",
    "filled": "kernel.mbarrier_arrive %full[%k mod 2]",
    "empty": "kernel.mbarrier_wait %empty[%k mod 2], parity (%k floordiv 2 + 1) mod 2",
    "freed": "kernel.mbarrier_arrive %empty[%k mod 2]",
}


def warps(**changed: str) -> str:
    parts = PARTS | changed
    init = "\n".join(f"kernel.mbarrier_init %{b}[{n}], 32" for b in ("full", "empty") for n in "01")
    return body(f"""
  %c6 = arith.constant 6 : index
  %ring = kernel.alloc_shared : {SLOTS}
  %full = kernel.alloc_mbarriers 2
  %empty = kernel.alloc_mbarriers 2
  %first = kernel.test where (%t < 1)
  scf.if %first {{
    {init}
  }}
  kernel.barrier
  %acc = kernel.alloc_local : memref<f32, #kernel.local>
  kernel.store %zero, %acc[] : memref<f32, #kernel.local>
  %produces = kernel.test where (%t < 32)
  scf.if %produces {{
    scf.for %k = %c0 to %c6 step %c1 {{
      {parts["empty"]}
      %a = kernel.load %x[%k * 8 + %t mod 8] : memref<64xf32>
      kernel.store %a, %ring[%k mod 2, %t] : {SLOTS}
      {parts["filled"]}
    }}
  }} else {{
    scf.for %k = %c0 to %c6 step %c1 {{
      {parts["full"]}
      %v = kernel.load %ring[%k mod 2, 63 - %t] : {SLOTS}
      %old = kernel.load %acc[] : memref<f32, #kernel.local>
      %new = arith.addf %old, %v : f32
      kernel.store %new, %acc[] : memref<f32, #kernel.local>
      {parts["freed"]}
    }}
  }}
  %r = kernel.load %acc[] : memref<f32, #kernel.local>
  kernel.store %r, %y[%t] : memref<64xf32>""")


def test_warps_that_wait_for_each_other() -> None:
    sums = X[:48].reshape(6, 8).sum(axis=0)
    expected = np.concatenate([np.zeros(32), np.tile(sums[::-1], 4)])
    np.testing.assert_array_equal(run(warps()), expected)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("full", "", r"%ring\[0, 31\] is read, which nothing has written"),
        ("filled", "", r"phase 0 of the mbarrier does not end: .* 32 of 32 arrivals are missing"),
        ("empty", "", r"does not know that phase 0 of the mbarrier has ended: this arrival may"),
        ("freed", "", r"phase 0 of the mbarrier does not end: .* 32 of 32 arrivals are missing"),
        ("full", PARTS["full"].replace("floordiv 2)", "floordiv 2 + 1)"), "mbarrier|uninitialized"),
        ("empty", PARTS["empty"].replace(" + 1", ""), "deadlock"),
        ("freed", "kernel.mbarrier_arrive %empty[(%k + 1) mod 2]", "mbarrier|deadlock"),
    ],
)
def test_warps_without(part: str, text: str, message: str) -> None:
    with pytest.raises(Hazard, match=message):
        run(warps(**{part: text}))


def test_a_lane_that_waits_for_the_others_of_its_warp() -> None:
    """Lanes of a warp are not assumed to run in step either."""
    text = body("""
  %m = kernel.alloc_mbarriers 1
  %first = kernel.test where (%t < 1)
  scf.if %first {
    kernel.mbarrier_init %m[0], 63
  }
  kernel.barrier
  scf.if %first {
    kernel.mbarrier_wait %m[0], parity 0
  }
  %others = kernel.test where (%t >= 1)
  scf.if %others {
    kernel.mbarrier_arrive %m[0]
  }
  kernel.sync_warp
  %a = kernel.load %x[%t] : memref<64xf32>
  %o = kernel.shuffle xor %a, 1 width 32 : f32
  kernel.barrier
  kernel.store %o, %y[%t] : memref<64xf32>""")
    np.testing.assert_array_equal(run(text), X.reshape(32, 2)[:, ::-1].reshape(-1))
    late = text.replace("kernel.sync_warp", "scf.if %others {\n kernel.sync_warp\n }")
    with pytest.raises(Hazard, match=r"thread 1 waits at another kernel\.sync_warp or in"):
        run(late)


def test_a_wait_that_comes_too_late() -> None:
    """Thread 0 may find the second phase over already, and wait for a third one."""
    text = body("""
  %m = kernel.alloc_mbarriers 1
  %first = kernel.test where (%t < 1)
  %second = kernel.test where (%t >= 32, %t < 33)
  scf.if %first {
    kernel.mbarrier_init %m[0], 1
  }
  kernel.barrier
  scf.if %second {
    kernel.mbarrier_arrive %m[0]
    kernel.mbarrier_wait %m[0], parity 0
    kernel.mbarrier_arrive %m[0]
  }
  scf.if %first {
    kernel.mbarrier_wait %m[0], parity 0
  }""")
    assert "waits for a parity of the mbarrier that phase 1 does not" in hazards(text)[0]


# Blocks.


def test_a_block_writes_what_another_has_read() -> None:
    """However many barriers are between."""
    text = body(
        f"""
  kernel.store %zero, %y[%t] where (%b < 1) : memref<64xf32>
  kernel.barrier
  %v = kernel.load %y[%t] where (%b < 1) : memref<64xf32>
  kernel.barrier{DONE.replace("%a", "%zero").replace(" :", " where (%b >= 1) :")}""",
        grid=2,
    )
    found = hazards(text)
    assert re.search(r"thread 0 of block 1 writes %y\[0\], read by thread 0 of block 0", found[1])
    assert re.search(r"thread 0 of block 1 writes %y\[0\], written by thread 0 of b", found[0])


def test_elements_that_lie_on_each_other_are_one() -> None:
    output = "%y: memref<2x64xf32, strided<[0, 1]>>"
    kinds: dict[str, list[str]] = {}
    for place in ("0, %t", "1, %t", "%t mod 2, %t floordiv 2"):
        text = "%a = kernel.load %x[%t] : memref<64xf32>\n  kernel.store %a, "
        text += f"%y[{place}] : memref<2x64xf32, strided<[0, 1]>>"
        kinds[place] = [h.kind for h in verdict_of(body(text, output=output)).hazards]
    assert kinds == {"0, %t": [], "1, %t": [], "%t mod 2, %t floordiv 2": ["race", "unwritten"]}


def test_every_hazard_is_reported_once() -> None:
    loop = f"""{STAGED}
  scf.for %i = %c0 to %c3 step %c1 {{
    %v = kernel.load %s[(%t + %i) mod 64] : {SMEM}
    kernel.store %v, %s[%t] : {SMEM}
  }}"""
    verdict = verdict_of(body(loop))
    kinds = [hazard.kind for hazard in verdict.hazards]
    assert kinds == ["race", "race", "unwritten"]
    assert [a.thread for a in verdict.hazards[0].accesses] == [0, 1]


def test_some_blocks_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = body("%a = kernel.load %x[%t] : memref<64xf32>\nkernel.store %a, %y[%b, %t] : "
                "memref<900x64xf32>", grid=900, output="%y: memref<900x64xf32>")  # fmt: skip
    verdict = verdict_of(text, blocks=6)
    assert verdict.answer == "clean"
    assert verdict.notes[0].startswith("checked 6 of 900 blocks: 0, 1, 2, 450, 898, 899; races")
    assert affordable_blocks(func_in(parse(text))) >= 900
    monkeypatch.setattr(checker, "MOST_OPERATIONS", 1)
    assert "checked 4 of 900 blocks: 0, 1, 898, 899; races" in verdict_of(text).notes[0]


@pytest.mark.parametrize(("grid", "count"), [(1, 1), (2, 1), (3, 2), (7, 5), (1000, 8), (5, 4)])
def test_blocks_are_spread(grid: int, count: int) -> None:
    blocks = spread_blocks(grid, count) or list(range(grid))
    assert len(blocks) == len(set(blocks)) == min(count, grid)
    assert blocks == sorted(blocks)
    assert 0 <= blocks[0]
    assert blocks[-1] < grid


def test_operations_are_counted() -> None:
    """3 times a loop's one operation, and once that of one whose bounds the threads have."""
    constants = len(func_in(parse(body(""))).body.block.ops)
    func = func_in(parse(body("""
  scf.for %i = %c0 to %c3 step %c1 {
    %a = arith.addf %zero, %zero : f32
  }
  scf.for %i = %c0 to %t step %c1 {
    %a = arith.addf %zero, %zero : f32
  }""")))  # fmt: skip
    yields = 3 + 1
    assert operations(func.body.block) == constants + 2 + 3 + 1 + yields


PROGRAM = """
kernel.func @far(%x: memref<4xi64>) -> (%y: memref<4xi64>) grid 1 block 4 {
  %t = kernel.thread_id
  %a = kernel.load %x[%t] : memref<4xi64>
  %c = arith.constant 60 : i64
  %i = arith.addi %a, %c : i64
  kernel.store %i, %y[%t] : memref<4xi64>
}
kernel.func @look(%i: memref<4xi64>, %x: memref<64xf32>) -> (%y: memref<4xf32>) grid 1 block 4 {
  %t = kernel.thread_id
  %a = kernel.load %i[%t] : memref<4xi64>
  %n = arith.index_cast %a : i64 to index
  %v = kernel.load %x[%n] : memref<64xf32>
  kernel.store %v, %y[%t] : memref<4xf32>
}
func.func @main(%x: MEMREF<4xi64>, %w: MEMREF<64xf32>) -> MEMREF<4xf32> {
  LAUNCHES
}"""
ON_TENSORS = """%i = kernel.launch @far(%x) : (tensor<4xi64>) -> (tensor<4xi64>)
  %y = kernel.launch @look(%i, %w) : (tensor<4xi64>, tensor<64xf32>) -> (tensor<4xf32>)
  func.return %y : tensor<4xf32>"""


LOOK = "kernel.launch @look(%j, %w) : (tensor<4xi64>, tensor<64xf32>) -> (tensor<4xf32>)"
TWICE = PROGRAM.replace("MEMREF", "tensor").replace(
    "LAUNCHES",
    f"""%i = kernel.launch @far(%x) : (tensor<4xi64>) -> (tensor<4xi64>)
  %j = kernel.launch @far(%x) : (tensor<4xi64>) -> (tensor<4xi64>)
  %z = {LOOK}
  func.return %z : tensor<4xf32>""",
)


@pytest.mark.parametrize("planned", [False, True], ids=["tensors", "buffers"])
def test_a_kernel_reads_what_another_computed(planned: bool) -> None:
    text = PROGRAM.replace("MEMREF", "tensor").replace("LAUNCHES", ON_TENSORS)
    module = parse(text)
    if planned:
        get_pass("plan-buffers")().apply(register(Context()), module)
        assert "host.launch" in str(module)
    weights = np.zeros(64, np.float32)
    inputs = [np.array([0, 1, 2, 3]), weights]
    assert [v.answer for v in check_module(module, inputs)] == ["clean", "clean"]
    inputs = [np.array([0, 1, 5, 3]), weights]
    first, second = check_module(module, inputs)
    assert first.answer == "clean"
    assert "%x[65] is not in memref<64xf32>" in str(second.hazards[0])
    verdicts = check_module(parse(TWICE), [np.array([0, 1, 2, 3]), weights])
    assert [v.func.name_ for v in verdicts] == ["far", "far", "look"]


# Bank conflicts.


def test_bank_conflicts_are_measured() -> None:
    case = loop_cases.gemm(21, 38, 44, transposed=True)
    schedule = tiled("sm_80", bk=8, splits=2, depth=2, extents=(2, 4))
    module = scheduled(case, schedule, "sm_80")
    apply(module, ",".join(STEPS), round_trip=False)
    promises, code = promises_of(module), lowered(module, round_trip=False)
    run_measured(code, case.inputs, promises)
    text = str(code).replace("#kernel.padded_groups<4, 4>, ", "")
    assert text != str(code)
    assert [v.answer for v in check_module(parse(text), case.inputs)] == ["clean"] * 2
    with pytest.raises(BankConflict, match=r"reads of %w_ring, 16 bytes at once take .* ways") as e:
        run_measured(parse(text), case.inputs, promises)
    threads = re.findall(r"thread (\d+)", str(e.value))
    assert len(set(threads)) == 2
    _, meters = run_measured(parse(text), case.inputs, {})
    unjudged = [c for meter in meters.values() for c in meter.unjudged({})]
    assert unjudged[0].startswith("reads of %w_ring")


# The command.


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = loop_cases.gemm(20, 33, 40)
    module = scheduled(case, tiled("sm_80", bk=8, splits=1, depth=3), "sm_80")
    loops = tmp_path / "loops.mlir"
    loops.write_text(str(module))
    assert main(["check", str(loops)]) == 0
    assert capsys.readouterr().out == "mm: clean, 8 x 64 threads\n"
    apply(module, ",".join(STEPS), round_trip=False)
    code = lowered(module, round_trip=False)
    for op in list(code.walk()):
        if isinstance(op, kernel.BarrierOp):
            op.detach()
    broken = tmp_path / "broken.mlir"
    broken.write_text(str(code))
    assert main(["check", str(broken)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mm: hazard, 8 x 64 threads"
    assert re.match(rf"{broken}:\d+:\d+: error: 'kernel.load': race: thread", lines[1])
    assert re.match(r"  block 0, thread \d+, %ko = \d, .*broken.mlir:\d+: %", lines[4])
    unknown = tmp_path / "unknown.mlir"
    unknown.write_text(body("%q = math.ctpop %t : index", output=""))
    assert main(["check", str(unknown)]) == 3


def test_inputs_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes without a sign reach kernels as bytes with one."""
    assert main(["check", "-c", "torch.randint(0, 255, (7, 9), dtype=torch.uint8).sum(0)"]) == 0
    assert capsys.readouterr().out.startswith("sum: clean")
    with pytest.raises(SystemExit):
        main(["check", "-c", "torch.randn(3).relu()", "--blocks", "0"])
    assert "expected a number from 1 up, found '0'" in capsys.readouterr().err


def test_what_threads_update_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the thread that stores a sum reads the element that it is added to."""
    for code in (
        "s = torch.randn(64); x = torch.randn(256, 64); s.add_(x.sum(0))",
        "s = torch.randn(()); x = torch.randn(5000); s.add_(x.sum())",
        "s = torch.randn(7); x = torch.randn(7, 300); s.add_((x * s[:, None]).amax(1))",
    ):
        assert main(["check", "-c", code]) == 0
        assert "hazard" not in capsys.readouterr().out


def test_a_tile_with_a_ring_of_three_slots() -> None:
    case = loop_cases.gemm(64, 64, 64)
    for target in ("sm_80", "sm_90"):
        module = scheduled(case, tiled(target, bk=16, splits=1, depth=3, extents=(8, 8)), target)
        apply(module, ",".join(STEPS), round_trip=False)
        promises, code = promises_of(module), lowered(module, round_trip=False)
        (verdict,) = check_module(code, case.inputs)
        assert verdict.answer == "clean"
        run_measured(code, case.inputs, promises)
