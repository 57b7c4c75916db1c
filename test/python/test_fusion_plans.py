"""Plans of which kernels merge, as a part of tuning."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dlc
from dlc.backend.schedule_database import ScheduleDatabase
from dlc.cli.dlc_cli import main
from dlc.dialects.fusion_plan import FusionPlan
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.stages import Stages
from dlc.tuning.candidate_program import Subject
from dlc.tuning.fusion_plans import PlanSearch
from dlc.tuning.objectives import Objective, Score, objective
from dlc.tuning.tune_program import keep_plan
from dlc.tuning.workers import Died


def program(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() + 1).sum(-1)


ARGS = (torch.randn(33, 70),)


def search(judge: Objective) -> PlanSearch:
    module = dlc.compile(program, ARGS, "sm_90", "host").variants[0].module("tensor")
    return PlanSearch(module, judge)


def by_name(seconds: dict[str, float]) -> Objective:
    """What kernels take, by what stands in their names."""

    def score(of: Subject, schedule: str, expected: object) -> Score:
        return Score(sum(taken for name, taken in seconds.items() if name in of.name))

    return Objective("static", score, False, "made up")


def test_kernels_that_are_better_apart_stay_apart() -> None:
    found = search(by_name({"exp": 1.0, "sum": 3.0, "exp_add_sum": 9.0}))
    best = found.run(6)
    assert best is found.best
    assert {wish for _, wish in best.said.wishes} == {"never"}
    assert len(best.kernels) == 2
    assert best.seconds == 4.0
    assert str(found.tried[0]) == "default"
    assert found.tried[0].seconds == 13.0
    assert "exp:never" in str(found) or "add:never" in str(found)


def test_the_default_plan_is_the_best_by_the_estimate_that_made_it() -> None:
    found = search(objective("estimate"))
    assert found.run(6).said == FusionPlan()
    assert any("of another plan" in plan.refusal for plan in found.tried)
    assert len(found.tried) <= 6


def test_a_plan_that_cannot_be_judged_is_not_taken() -> None:
    def score(of: Subject, schedule: str, expected: object) -> Score:
        if "exp" in of.name and "sum" in of.name:
            return Score(1.0)
        raise ValueError("no such kernel")

    found = search(Objective("static", score, False, "made up"))
    assert found.run(4).said == FusionPlan()
    assert any("no such kernel" in plan.refusal for plan in found.tried)


def test_a_default_plan_that_cannot_be_judged_is_an_error() -> None:
    def score(of: Subject, schedule: str, expected: object) -> Score:
        raise ValueError("never")

    with pytest.raises(Died, match=r"the default plan cannot be judged: .*never"):
        search(Objective("static", score, False, "made up")).run(3)


def test_what_was_found_runs(tmp_path: Path) -> None:
    found = dlc.tune(
        program, ARGS, "sm_90", objective="estimate", budget=3, plans=3, database=False
    )
    assert "3 plans, predicted" in str(found)
    file = tmp_path / "k.mlir"
    file.write_text(str(found.module))
    torch.testing.assert_close(dlc.load(file)(*ARGS), program(*ARGS))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ["-c", "(torch.randn(9, 64).exp() + 1).sum(-1)", "--target", "sm_90"]
    file, database = str(tmp_path / "k.mlir"), str(tmp_path / "t.sqlite")
    options = ["--objective", "estimate", "--budget", "2", "--db", database]
    assert main(["tune", *text, *options, "--plans", "4", "-o", file]) == 0
    assert "the best plan: default" in capsys.readouterr().out
    assert main(["tune", file, *options, "--plans", "4"]) == 2
    assert "--plans is for programs whose kernels are not made yet" in capsys.readouterr().err


def test_a_plan_is_replayed_as_text() -> None:
    made = dlc.compile(program, ARGS, "sm_90", "host", plan="exp:never")
    assert [kernel.name for kernel in made.kernels] == ["exp_kernel", "add_sum"]
    torch.testing.assert_close(made(*ARGS), program(*ARGS))
    assert "plan: exp:never" in made.explain()
    again = made.with_schedule({"exp": made.kernels[0].schedule})
    assert [kernel.name for kernel in again.kernels] == ["exp_kernel", "add_sum"]
    assert pickle.loads(pickle.dumps(dlc.compile(torch.relu, ARGS, plan="relu:never"))).plan


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("exp", "expected a kernel and always or never, found 'exp'"),
        ("exp:maybe", "found 'exp:maybe'"),
        ("", "found ''"),
        ("epx:never", "the plan names 'epx', and there is no such kernel"),
    ],
)
def test_a_plan_that_is_none_is_an_error(plan: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dlc.compile(program, ARGS, "sm_90", "host", plan=plan)


def test_plans_are_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE", str(tmp_path))
    found = search(by_name({"exp": 1.0, "sum": 3.0, "exp_add_sum": 9.0}))
    best = found.run(6)
    keep_plan(found, database := ScheduleDatabase())
    stages = Stages(found.module, tuned=["static"])
    assert len(kernels_in(stages.module("loop"), KernelOp)) == 2
    assert f"plan: {best}, tuned: by its machine code (predicted 4" in stages.explain()
    given = Stages(found.module, tuned=["static"], plan=FusionPlan.of("exp:always"))
    assert len(kernels_in(given.module("loop"), KernelOp)) == 1
    (entry,) = database.entries()
    database.put(replace(entry, source="another dlc"))
    assert len(kernels_in(Stages(found.module, tuned=["static"]).module("loop"), KernelOp)) == 2
    database.put(replace(entry, source="another dlc", digest="other kernels"))
    assert len(kernels_in(Stages(found.module, tuned=["static"]).module("loop"), KernelOp)) == 1


def test_a_plan_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ["-c", "(torch.randn(9, 64).exp() + 1).sum(-1)", "--target", "sm_90"]
    assert main(["compile", *text, "--plan", "exp:never", "--explain"]) == 0
    told = capsys.readouterr().out
    assert "plan: exp:never" in told
    assert "\nadd_sum for sm_90" in told
    assert main(["run", *text, "--backend", "host", "--plan", "exp:never"]) == 0
    assert main(["compile", *text, "--plan", "epx:never"]) == 1
    assert "did you mean exp?" in capsys.readouterr().err
    assert main(["compile", *text, "--plan", "exp:never", "--ir", "tensor"]) == 2
    assert main(["tune", *text, "--plan", "exp:never", "--plans", "2"]) == 2
    file = tmp_path / "loop.mlir"
    assert main(["compile", *text, "--ir", "loop", "-o", str(file)]) == 0
    assert main(["compile", str(file), "--plan", "exp:never"]) == 2
    assert "--plan is for programs whose kernels are not made yet" in capsys.readouterr().err
