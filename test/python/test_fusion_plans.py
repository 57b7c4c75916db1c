"""Plans of which kernels merge, as a part of tuning."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from xdsl.utils.exceptions import DiagnosticException

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
from dlc.tuning.tune_program import keep_plan, tune_module
from dlc.tuning.tuner import Budget
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
    assert set(map(len, best.said.groups)) == {1, 2}
    assert len(best.kernels) == 2
    assert best.seconds == 4.0
    assert str(found.tried[0]) == "default"
    assert found.tried[0].seconds == 13.0
    assert str(found).endswith(f"the best plan: {best}")


def test_the_default_plan_is_the_best_by_the_estimate_that_made_it() -> None:
    found = search(objective("estimate"))
    assert found.run(6).said == FusionPlan()
    assert len(found.tried) <= 6
    assert str(found).endswith("the best plan: default, which is exp+add+sum")


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
    made = dlc.compile(program, ARGS, "sm_90", "host", plan="exp,add+sum")
    assert [kernel.name for kernel in made.kernels] == ["exp_kernel", "add_sum"]
    torch.testing.assert_close(made(*ARGS), program(*ARGS))
    assert "plan: exp,add+sum" in made.explain()
    again = made.with_schedule({"exp": made.kernels[0].schedule})
    assert [kernel.name for kernel in again.kernels] == ["exp_kernel", "add_sum"]
    assert pickle.loads(pickle.dumps(dlc.compile(torch.relu, ARGS, plan="relu"))).options.plan


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("exp:never", "expected names of kernels with . between them, found 'exp:never'"),
        ("exp+,add", r"found 'exp\+'"),
        ("", "found ''"),
        ("epx,add+sum", "the plan names 'epx', and there is no such kernel"),
    ],
)
def test_a_plan_that_is_none_is_an_error(plan: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dlc.compile(program, ARGS, "sm_90", "host", plan=plan)


def norm_linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x + torch.nn.functional.rms_norm(x, (40,)) @ w


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def several(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x.exp().sum(-1), y.sum(-1)])


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (torch.nn.functional.softmax, [(9, 33)]),
        (norm_linear, [(7, 40), (40, 40)]),
        (attention, [(1, 2, 5, 8)] * 3),
        (several, [(8, 64), (9, 64)]),
    ],
)
def test_the_groups_that_were_made_make_the_same_kernels(
    f: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]]
) -> None:
    """Of each plan that is tried; those that are refused say which kernel stays apart, and why."""
    args = [torch.randn(shape) for shape in shapes]
    given = {"dim": -1} if len(args) == 1 else {}
    module = dlc.compile(f, args, "sm_90", "host", given).variants[0].module("tensor")
    found = PlanSearch(module, objective("estimate"))
    found.run(20)
    right = f(*(x.double() for x in args), **given)
    for plan in found.tried:
        if plan.seconds is None:
            reasons = ("of another plan", "is kept apart: ", "makes no kernel")
            assert any(reason in plan.refusal for reason in reasons)
            continue
        made = dlc.compile(f, args, "sm_90", "host", given, plan=str(plan.made))
        module = made.variants[0].module("loop")
        assert [kernel.name_ for kernel in kernels_in(module, KernelOp)] == plan.kernels
        torch.testing.assert_close(made(*args, **given).double(), right, atol=1e-5, rtol=1e-5)


def test_a_kernel_in_two_groups_is_computed_in_both() -> None:
    x = torch.randn(9, 33)
    plan = "max,max+exp+sum,max+exp+softmax"
    with pytest.raises(DiagnosticException, match="the plan's group max makes no kernel"):
        dlc.compile(lambda x: x.softmax(-1), (x,), "sm_90", "host", plan=plan)
    made = dlc.compile(lambda x: x.softmax(-1), (x,), "sm_90", "host", plan=plan[4:])
    assert len(made.kernels) == 2
    torch.testing.assert_close(made(x), x.softmax(-1))


def test_a_sum_in_two_groups_is_stored_for_neither() -> None:
    """Though one that stores it for the other would be faster."""

    def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x.sum(1)
        return total.exp(), total[:, None] * x

    made = dlc.compile(two, (torch.randn(32, 64),), "sm_90", "host", plan="sum+exp,sum+mul")
    both = kernels_in(made.variants[0].module("loop"), KernelOp)
    assert ["loop.reduce" in str(kernel) for kernel in both] == [True, True]


def test_a_group_that_cannot_be_one_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    text = ["-c", "(torch.randn(9, 64).exp() + 1).sum(-1)", "--target", "sm_90"]
    assert main(["compile", *text, "--plan", "exp+sum,add"]) == 1
    said = "the plan's group exp+sum cannot be one kernel, but is exp_kernel, sum_kernel"
    assert said.replace("_kernel", "") in capsys.readouterr().err.replace("_kernel", "")


def test_plans_are_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    found = search(by_name({"exp": 1.0, "sum": 3.0, "exp_add_sum": 9.0}))
    best = found.run(6)
    keep_plan(found, database := ScheduleDatabase())
    stages = Stages(found.module, tuned=["static"])
    assert len(kernels_in(stages.module("loop"), KernelOp)) == 2
    assert f"plan: {best}, tuned: by its machine code (predicted 4" in stages.explain()
    given = Stages(found.module, tuned=["static"], plan=FusionPlan.of("exp+add+sum"))
    assert len(kernels_in(given.module("loop"), KernelOp)) == 1
    (entry,) = database.entries()
    database.put(replace(entry, source="another dlc"))
    assert len(kernels_in(Stages(found.module, tuned=["static"]).module("loop"), KernelOp)) == 2
    database.put(replace(entry, source="another dlc", digest="other kernels"))
    assert len(kernels_in(Stages(found.module, tuned=["static"]).module("loop"), KernelOp)) == 1


def test_a_plan_and_the_schedules_of_its_kernels_are_one_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tuning exports, another machine imports: lines of both, which are used together."""
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))

    def score(of: Subject, schedule: str, expected: object) -> Score:
        return Score(9.0 if "exp" in of.name and "sum" in of.name else 1.0 + len(schedule) / 1e6)

    judge, database = Objective("static", score, False, "made up"), ScheduleDatabase()
    found = search(judge)
    best = found.run(6)
    keep_plan(found, database)
    tuned = tune_module(best.module, judge, Budget(candidates=12), database=database)
    assert len(tuned.schedules) == 2
    text = database.text()
    database.path.unlink()
    assert len(schedules_of(found)) == 1
    assert database.read(text) == 3
    assert sorted(schedules_of(found)) == sorted(tuned.schedules.values())


def schedules_of(found: PlanSearch) -> list[str]:
    """The schedules of the kernels of a program, those of the database where it has some."""
    module = Stages(found.module, tuned=["static"]).module("loop")
    return [k.schedule.data for k in kernels_in(module, KernelOp) if k.schedule is not None]


def test_a_plan_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ["-c", "(torch.randn(9, 64).exp() + 1).sum(-1)", "--target", "sm_90"]
    assert main(["compile", *text, "--plan", "exp,add+sum", "--explain"]) == 0
    told = capsys.readouterr().out
    assert "plan: exp,add+sum" in told
    assert "\nadd_sum for sm_90" in told
    assert main(["run", *text, "--backend", "host", "--plan", "exp,add+sum"]) == 0
    assert main(["compile", *text, "--plan", "epx,add+sum"]) == 1
    assert "did you mean exp?" in capsys.readouterr().err
    assert main(["compile", *text, "--plan", "exp,add+sum", "--ir", "tensor"]) == 2
    assert main(["tune", *text, "--plan", "exp,add+sum", "--plans", "2"]) == 2
    file = tmp_path / "loop.mlir"
    assert main(["compile", *text, "--ir", "loop", "-o", str(file)]) == 0
    assert main(["compile", str(file), "--plan", "exp,add+sum"]) == 2
    assert "--plan is for programs whose kernels are not made yet" in capsys.readouterr().err
