"""The fuzzer finds planted bugs and makes them small; some of its cases, which are right."""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from dataclasses import fields
from functools import partial
from pathlib import Path

import fuzzing.programs
import pytest
import torch
import torch.nn.functional as F
from fuzzing import campaign
from fuzzing.cases import KINDS, Answer, Setting, complaint
from fuzzing.programs import Program, Statement, random_program
from fuzzing.schedules import random_schedule
from harness import STEPS
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from dlc.backend.host.host_backend import HostBackend
from dlc.frontend.export.fx import import_program
from dlc.judge.conditioning import Expected
from dlc.registry import get_pass, parse_pipeline


@pytest.mark.parametrize(
    "case",
    [
        "programs:1",
        "programs:2",
        "schedules:1",
        "schedules:2",
        "cascades:1",
        "cascades:2",
        "idioms:1",
        "idioms:3",
        "tilings:2",
        "sizes:1",
        "sizes:3",
        "scripts:1",
        "scripts:2",
    ],
)
def test_some_cases(case: str) -> None:
    answer = campaign.answer_to(case)
    assert not answer.failure, f"{answer.failure}\n{answer.case}"


OWN = Setting("sm_90", None, None)
"""dlc's own schedules."""

FOUND = {
    "import: flip of a scalar": (
        Program((Statement("v0", "torch.randn(())"),), (Statement("v1", "v0.flip(0)"),), ("v1",)),
        OWN,
    ),
    "import: safe softmax of a scalar": (
        Program(
            (Statement("v0", "torch.randn(())"),),
            (Statement("v1", "torch.ops.aten._safe_softmax(v0, 0)"),),
            ("v1",),
        ),
        OWN,
    ),
    "reference: the default epsilon of rms_norm in halves": (
        Program(
            (Statement("v0", "0.02 * torch.randn(4, 16, dtype=torch.float16)"),),
            (Statement("v1", "F.rms_norm(v0, (16,))"),),
            ("v1",),
        ),
        OWN,
    ),
    "import: scores that are alike for all keys": (
        Program(
            (Statement("v0", "torch.randn(1, 2)"),),
            (
                Statement("v1", "v0.repeat_interleave(4, 0).relu()"),
                Statement("v2", "F.scaled_dot_product_attention(v1, v1, v1, is_causal=True)"),
            ),
            ("v2",),
        ),
        OWN,
    ),
    "barriers: an if by the thread in a loop through slots counted as the loop's end": (
        Program(
            (Statement("v0", "torch.randn(12, 7)"),),
            (Statement("v1", "torch.addmm(v0, v0, v0.t() @ v0)"),),
            ("v1",),
        ),
        Setting(
            "sm_80",
            (
                "tileify",
                "chunk-matmul-k{bk=3 vector=1}",
                "blockify-launch{block=32,64 thread=4,16}",
                "stage-inputs{budget=49152 compute=true}",
                "register-tile{extents=8,4}",
                "double-buffer{depth=3}",
                "async-copy",
                "pipeline-k-outer",
            ),
            None,
        ),
    ),
    "memory: quotients of indices that are data had no guard": (
        Program(
            (Statement("v0", "torch.randn(12, 4)"),),
            (Statement("v1", "v0.flatten()"), Statement("v2", "v1.gather(0, v1.argsort(0))")),
            ("v2",),
        ),
        Setting("sm_90", (), None),
    ),
    "names: a kernel called std": (
        Program((Statement("v0", "torch.randn(3, 4)"),), (Statement("v1", "v0.std(1)"),), ("v1",)),
        Setting("sm_90", None, HostBackend()),
    ),
    "host: g++ followed impossible indices to an offset that no linker takes": (
        Program(
            (Statement("v0", "torch.randn(64, 16, dtype=torch.float64)"),),
            (Statement("v1", "torch.hstack([v0, v0]).var(1)"),),
            ("v1",),
        ),
        Setting("sm_89", None, HostBackend()),
    ),
    "accuracy: erfc as a difference from 1, which cancels": (
        Program(
            (Statement("v0", "torch.linspace(2, 10, 64)"),),
            (Statement("v1", "v0.erfc()"), Statement("v2", "v1.log()")),
            ("v2",),
        ),
        OWN,
    ),
    "interpreter: the last blocks saw what earlier ones had allocated under a condition": (
        Program(
            (
                Statement("v0", "torch.randn((64, 64))"),
                Statement("v1", "torch.randint(0, 7, (1, 64), dtype=torch.int8)"),
            ),
            (Statement("v2", "(v0 + v1).amax(1)"),),
            ("v2",),
        ),
        Setting(
            "sm_89",
            (
                "tileify",
                "split-matmul-k{splits=3}",
                "cooperative-reduce{threads=96 rows=8 vector=4}",
                "stage-inputs{budget=49152 compute=true}",
            ),
            None,
        ),
    ),
    "bind-axes: one of two results varied along fewer axes than the sweep that gives both": (
        Program(
            (
                Statement("v5", "torch.randn((2, 7, 3))"),
                Statement("v6", "torch.randn((2, 33, 7))"),
                Statement("v9", "torch.randn((2, 33, 1))"),
            ),
            (
                Statement("v7", "v6.amax(-1, True)"),
                Statement("v8", "(v6 - v7).exp()"),
                Statement("v10", "(v8 @ v5) / v9"),
            ),
            ("v10",),
        ),
        Setting(
            "sm_100",
            ("tileify", "blockify-launch{block=16,8,8 thread=2,4,1 group=2}"),
            None,
            joined=True,
        ),
    ),
    "chunks: parts of one point of a cascade": (
        Program(
            (
                Statement("v5", "torch.randn((3, 2, 8))"),
                Statement("v6", "torch.randn((3, 2, 2))"),
                Statement("v9", "torch.randn((3, 2, 1))"),
            ),
            (
                Statement("v7", "v6.amax(-1, True)"),
                Statement("v8", "(v6 - v7).exp()"),
                Statement("v10", "(v8 @ v5) / (v9.abs() + 0.1)"),
            ),
            ("v10",),
        ),
        Setting(
            "sm_100",
            ("tileify", "split-matmul-k{splits=2}", "chunk-matmul-k{bk=32 vector=8}"),
            None,
            joined=True,
        ),
    ),
    "chunks: parts of one point of a product": (
        Program(
            (Statement("v0", "torch.randn(6, 2)"), Statement("v1", "torch.randn(2, 5)")),
            (Statement("v2", "v0 @ v1"),),
            ("v2",),
        ),
        Setting(
            "sm_90",
            ("tileify", "split-matmul-k{splits=2}", "chunk-matmul-k{bk=8 vector=2}"),
            None,
        ),
    ),
    "judge: many equal terms, added one after the other": (
        Program(
            (Statement("v0", "torch.full((4096,), 0.0074)"),),
            (Statement("v1", "v0.sum()"),),
            ("v1",),
        ),
        Setting("sm_100", ("chunk-matmul-k{bk=8 vector=4}",), None),
    ),
}
"""What the fuzzer has found: the kind of bug and what it was, and where it shows."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str) -> None:
    assert complaint(*FOUND[name]) == ("", "")


def test_roots_of_what_cancels_are_not_known() -> None:
    """One of two opposite errors shows, wherever it is."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * x - y * y).clamp(min=0).sqrt()

    x = 1 + torch.rand(20000, generator=torch.Generator().manual_seed(1))
    y = x * (torch.arange(20000) % 20 == 0)
    expected = Expected(import_program(program, (x, y)).module, [x, y])
    next_to = x.nextafter(2 * x)
    assert expected.complaint([torch.where(y == x, x * 2**-12, next_to)]) is None
    assert expected.complaint([torch.where(y == x, x / 2, next_to)]) is not None


@pytest.mark.parametrize("dtype", fuzzing.programs.HALVES)
def test_halves_are_judged(dtype: torch.dtype) -> None:
    """Roundings may be left out; results that are off by more than they can make may not."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = x.exp() * 1.5
        return wide - x, wide > 2, (wide @ x.mT).float()

    x = torch.randn(16, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = Expected(import_program(program, (x,)).module, [x])
    rounded = [exact.to(own.dtype) for exact, own in zip(expected.exact, program(x), strict=True)]
    for right in (program(x), rounded):
        assert expected.complaint(right) is None
    difference, decision, product = rounded
    off = 1 + 16 * torch.finfo(dtype).eps * (torch.arange(256).view(16, 16) == 7)
    assert expected.complaint([difference * off, decision, product]) is not None
    assert expected.complaint([difference, decision ^ (off > 1), product]) is not None
    assert expected.complaint([difference, decision, product * off.float()]) is not None


@pytest.mark.parametrize("dtype", fuzzing.programs.HALVES)
def test_probabilities_are_halves(dtype: torch.dtype) -> None:
    """Tensor cores take them so; what they are multiplied by is judged as exactly as before."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, y)

    draw = partial(torch.randn, 2, 32, 16, generator=torch.Generator().manual_seed(1))
    x, y = draw().to(dtype), draw().to(dtype)
    expected = Expected(import_program(program, (x, y)).module, [x, y])
    scores = (x.double() @ x.double().mT / 4).softmax(-1)
    rounded = (scores.to(dtype).double() @ y.double()).to(dtype)
    assert expected.complaint([rounded]) is None
    off = (scores * (1 + 32 * torch.finfo(dtype).eps)) @ y.double()
    assert expected.complaint([off.to(dtype)]) is not None


def test_every_option_is_drawn() -> None:
    schedules = [random_schedule(random.Random(seed)) for seed in range(200)]
    steps = [step for schedule in schedules for step in parse_pipeline(",".join(schedule))]
    for name in STEPS:
        options = {field.name for field in fields(get_pass(name))}
        own = [step for step in steps if step.name == name]
        assert own
        assert options == {o for step in own for o in options if getattr(step, o) is not None}


def test_some_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzzing.cases.TEXTS", 5)
    assert campaign.answer_to("texts:1") == Answer()


def test_the_same_seed_gives_the_same_program() -> None:
    warnings.simplefilter("ignore")  # PyTorch warns of the deviation of a single number
    assert random_program(random.Random("a")) == random_program(random.Random("a"))
    assert len({random_program(random.Random(seed)).text for seed in range(20)}) == 20


def test_a_planted_bug_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that makes minima of maxima: only programs with a relu or the like are wrong."""
    target = get_pass("canonicalize-loops")
    right = target.apply

    def wrong(self: object, ctx: Context, op: ModuleOp) -> None:
        right(self, ctx, op)
        for inner in list(op.walk()):
            if isinstance(inner, arith.MaximumfOp):
                Rewriter.replace_op(inner, arith.MinimumfOp(inner.lhs, inner.rhs))

    program = Program(
        (Statement("v0", "torch.randn(3, 5)"), Statement("v1", "torch.randn(5)")),
        (
            Statement("v2", "v0 + v1"),
            Statement("v3", "v2.relu()"),
            Statement("v4", "v3.sum(0)"),
            Statement("v5", "v0.flip(0)"),
        ),
        ("v4", "v5"),
    )
    monkeypatch.setattr("fuzzing.cases.random_program", lambda rng: program)
    assert KINDS["programs"](random.Random(0)) == Answer()
    monkeypatch.setattr(target, "apply", wrong)
    answer = KINDS["programs"](random.Random(0))
    assert answer.failure.startswith("wrong in the interpreter: result 0 is wrong at ")
    small = "def program(v2):\n    v3 = v2.relu()\n    return (v3,)\nprogram(torch.randn((3, 5)))\n"
    assert answer.case.endswith(small)


def test_crashes_and_hangs_are_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(rng: random.Random) -> Answer:
        os.kill(os.getpid(), signal.SIGSEGV)
        return Answer()

    def hang(rng: random.Random) -> Answer:
        time.sleep(60)
        return Answer()

    monkeypatch.setattr(campaign, "SECONDS", 1)
    kinds = {"programs": lambda rng: Answer(refused="no"), "crash": crash, "hang": hang}
    monkeypatch.setattr(campaign, "KINDS", kinds)
    tally = campaign.run(iter(["crash:1", "hang:1", "programs:1"]), 2, tmp_path)
    assert tally.failures["crash:1"].failure == "its process ended with exit code -11"
    assert tally.failures["hang:1"].failure == "no answer in 1 s"
    assert tally.refused == {"no": 1}
    assert "crash:1" in (tmp_path / "crash-1.txt").read_text()
