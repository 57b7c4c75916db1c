"""Schedules are decided once: every default schedule states every option of every step."""

from __future__ import annotations

import loop_cases
import pytest
from harness import STEPS, apply, parse, scheduled
from test_tensor_cores import product
from xdsl.dialects.builtin import StringAttr

from dlc.dialects import tile
from dlc.registry import get_pass
from dlc.remarks import collect
from dlc.transforms.step import SKIPPED, kernels_of, parse_schedule

CASES = (
    loop_cases.gemm(256, 512, 1024),
    loop_cases.gemm(4096, 256, 128, transposed=True),
    loop_cases.gemm(4096, 4096, 1024),
    loop_cases.gemm(2048, 4096, 512, transposed=True),
    loop_cases.gemm(16, 64, 4096),
    loop_cases.halves(loop_cases.gemm(512, 512, 512)),
    loop_cases.linear(128, 512, 512),
    loop_cases.scores(2, 128, 128, 64),
    loop_cases.batched(8, 128, 64, 64),
    loop_cases.silu_matmul(128, 256, 512),
    loop_cases.rotation(2, 128, 64, 64),
    loop_cases.attention(4, 2, 128, 64),
    loop_cases.rms_norm(256, 2048),
    loop_cases.softmax(512, 512),
    loop_cases.softmax(128, 32),
    loop_cases.moments(64, 1024),
    loop_cases.total(1 << 20),
    loop_cases.column_sum(512, 64),
    loop_cases.silu_mul(128, 1024),
    loop_cases.strided_pointwise(90, 70),
    loop_cases.gather(11, 40, 13),
)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_default_schedules_state_every_option(target: str) -> None:
    """And each step that was left to be decided acts, with what is stated."""
    decided: set[str] = set()
    for case in CASES:
        module = scheduled(case, None, target)
        before = {k.name_: k.schedule for k in kernels_of(module)}
        for schedule in before.values():
            assert schedule is not None
            assert not [str(step) for step in parse_schedule(schedule.data) if step.is_open]
        with collect() as remarks:
            apply(module, ",".join(STEPS), round_trip=False)
        after = {k.name_: k.schedule for k in kernels_of(module)}
        assert before.items() <= after.items(), "what is stated is done, and nothing else"
        for step in ("permute-register-tile", "pad-smem"):
            found = [r.text for r in remarks if r.pass_name == step]
            acting = [text for text in found if not text.startswith(SKIPPED)]
            named = [s for s in after.values() if s is not None and step in s.data]
            assert len(acting) == len(named), (case.name, step, found)
            decided.update({step} if acting else ())
    assert decided == {"permute-register-tile", "pad-smem"}


@pytest.mark.parametrize(
    "schedule",
    [
        "pad-smem{buffers=x_smem,w_smem padding=4,0 every=2,1}",
        "permute-register-tile{axes=ri,rj strip=1,4}",
        "split-inner-for-swizzle{rings=x_ring bytes=128}",
        'split-matmul-k{splits=2 then="tileify,pad-smem{buffers=x padding=4}"}',
        "stage-inputs{budget=512 compute=true}",
    ],
)
def test_the_text_of_a_step_reads_back(schedule: str) -> None:
    (step,) = parse_schedule(schedule)
    assert str(step) == schedule


def test_a_bare_step_states_what_it_decides() -> None:
    case = loop_cases.gemm(256, 256, 256, transposed=True)
    steps = (
        "tileify,chunk-matmul-k{bk=16 vector=4},blockify-launch{block=128,128 thread=16,16},"
        "stage-inputs{budget=16384},register-tile{extents=8,8},permute-register-tile,pad-smem"
    )
    module = scheduled(case, steps)
    apply(module, ",".join(step.name for step in parse_schedule(steps)))
    (kernel,) = kernels_of(module)
    assert isinstance(kernel, tile.KernelOp)
    assert kernel.schedule is not None
    stated = kernel.schedule.data
    assert stated.startswith(steps.partition(",permute")[0])
    again = scheduled(case, stated)
    apply(again, ",".join(step.name for step in parse_schedule(stated)))
    assert str(again) == str(module)


def test_names_that_buffers_share_stand_once_for_each() -> None:
    text = """
    %x = "test.op"() : () -> tensor<32x64xf32>
    %y = tile.kernel @k(%x: memref<32x64xf32> = %x) -> (%y: memref<32xf32>) {
      tile.launch thread(%t in 32) {
        %a = tile.stage %x[0, 0] [32, 32] : memref<32x64xf32> -> memref<32x32xf32, #tile.shared>
        %b = tile.stage %x[0, 32] [32, 32] : memref<32x64xf32> -> memref<32x32xf32, #tile.shared>
        %p = tile.load %a[%t, 0] : memref<32x32xf32, #tile.shared>
        %q = tile.load %b[%t, 0] : memref<32x32xf32, #tile.shared>
        %s = arith.addf %p, %q : f32
        tile.store %s, %y[%t] : memref<32xf32>
      }
    }
    """
    module = parse(text)
    (kernel,) = kernels_of(module)
    assert isinstance(kernel, tile.KernelOp)
    kernel.schedule = StringAttr("pad-smem{buffers=s,s padding=0,4}")
    stages = [op for op in kernel.walk() if isinstance(op, tile.StageOp)]
    for stage in stages:
        stage.result.name_hint = "s"
    apply(module, "pad-smem", round_trip=False)
    assert ["strided<[36, 1]>" in str(stage.result.type) for stage in stages] == [False, True]


def test_steps_of_no_default_schedule_say_so() -> None:
    """And name a schedule that uses them; `test_schedules.py` runs such."""
    named: set[str] = set()
    for target in ("sm_80", "sm_90"):
        large = loop_cases.column_sum(100, 40000), product(1024, 1024, 256)
        for case in (*CASES, *large):
            for kernel in kernels_of(scheduled(case, None, target)):
                assert kernel.schedule is not None
                named.update(step.name for step in parse_schedule(kernel.schedule.data))
    unnamed = [name for name in STEPS if name not in named]
    assert unnamed == []
    for name in STEPS:
        said = "No default schedule names it" in (get_pass(name).__doc__ or "")
        assert said == (name in unnamed)
