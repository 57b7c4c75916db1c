"""
Kernels of the kinds that tilings are made for, under schedules near those that dlc chooses: the
choices of a search's space, most of them the usual ones. So products of warps and of warpgroups,
attention, rings, producers, clusters and parts of K are reached, which random schedules hardly do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch

from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.kernel_program import isolated
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.pipeline import run_pipeline
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc.tuning.candidate_program import Subject
from dlc.tuning.space import Refused, Space

TEXTS = (
    "F.linear(torch.randn({m},{k}), torch.randn({n},{k}))",
    "F.gelu(F.linear(torch.randn({m},{k}), torch.randn({n},{k}), torch.randn({n}))) + 1",
    "torch.randn({m},{k}) @ torch.randn({k},{n})",
    "torch.randn({k},{m}).mT @ torch.randn({k},{n})",
    "torch.randn({b},{m},{k}) @ torch.randn({b},{k},{n})",
    "x = torch.randn({m},{k}); F.silu(F.linear(x, torch.randn({n},{k}))) * F.linear(x, "
    "torch.randn({n},{k}))",
    "F.conv2d(torch.randn({b},{h},{b}+5,{b}+7), torch.randn({h},{h},3,3), padding=1)",
    "F.max_pool2d(F.conv2d(torch.randn({b},{h},8,8), torch.randn({h},{h},3,3), padding=1), 2)",
    "F.conv_transpose2d(torch.randn({b},{h},5,6), torch.randn({h},{h},3,3), stride=2)",
    "F.scaled_dot_product_attention(torch.randn({b},{m},{h}), torch.randn({b},{n},{h}), "
    "torch.randn({b},{n},{h}))",
    "F.scaled_dot_product_attention(torch.randn({b},{m},{h}), torch.randn({b},{m},{h}), "
    "torch.randn({b},{m},{h}), is_causal=True)",
    "F.scaled_dot_product_attention(torch.randn({b},{m},{h}), torch.randn({b},{n},{h}), "
    "torch.randn({b},{n},{h}), torch.randn({m},{n}))",
    "F.scaled_dot_product_attention(torch.randn({b},1,{h}), torch.randn({b},{n},{h}), "
    "torch.randn({b},{n},{h}))",
    "F.layer_norm(torch.randn({m},{k}), ({k},))",
    "torch.randn({m},{k}).softmax(-1) @ torch.randn({k},{h})",
)
TYPES = ("float32", "float16", "bfloat16", "bfloat16")
USUAL = (0.6, 0.8, 0.9, 0.97)
"""How often a choice is the usual one."""
SHORT = 12
"""Schedules of a search's short list from which some begin."""
TRIES = 4
"""Schedules of a kernel."""


def random_tiled(rng: random.Random) -> tuple[str, str, str]:
    """A program, its type and a chip."""
    numbers = {
        "m": rng.choice((1, 37, 64, 70, 130, 136)),
        "n": rng.choice((40, 64, 72, 136, 200)),
        "k": rng.choice((72, 100, 136, 264, 1032)),
        "b": rng.choice((1, 2, 3)),
        "h": rng.choice((8, 16, 32, 64)),
    }
    return (
        rng.choice(TEXTS).format(**numbers),
        rng.choice(TYPES),
        rng.choice(("sm_90", "sm_90", "sm_80", "sm_120")),
    )


def kernels_of(text: str, type: str, target: str, seed: int) -> Iterator[Subject]:
    """The kernels of a program, each alone."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, type))
    try:
        module, args = capture_text(text)
        program = import_program(module, args, whole=DECOMPOSITIONS)
    finally:
        torch.set_default_dtype(kept)
    set_target(program.module, target)
    run_pipeline(compiler_context(), program.module, "loop")
    for name, alone in isolated(program.module):
        yield Subject(alone, name, seed)


def nearby(rng: random.Random, subject: Subject) -> Iterator[str]:
    """Schedules some choices of which are not usual, and that can be."""
    space = Space(subject.module, subject.name)
    spaces = [space, *(Space(subject.module, subject.name, s) for s in space.short_list(SHORT))]
    for _ in range(TRIES):
        space, usual = rng.choice(spaces), rng.choice(USUAL)
        state = space.start
        try:
            while choices := space.choices(state):
                choice = choices[0] if rng.random() < usual else rng.choice(choices)
                state = space.take(state, choice)
        except Refused:
            continue
        yield state.schedule


def complaint_of_tilings(rng: random.Random, subject: Subject) -> tuple[str, str]:
    """What the first schedule that is not right does, and the schedule; both empty if all are."""
    arguments, seed = subject.arguments(), rng.randrange(1 << 16)
    own = subject.results(Space(subject.module, subject.name).default)
    for schedule in nearby(rng, subject):
        try:
            kernels = subject.lowered(schedule)
            for order, mode in (("random", "early"), ("reverse", "late")):
                host = HostBackend(order=order, async_mode=mode, seed=seed)
                if said := subject.complaint(Executor(kernels, host)(arguments), own):
                    return f"wrong on the host: {said}", f"{schedule} --order {order}"
        except Exception as error:
            return f"{type(error).__name__}: {error}", schedule
    return "", ""
