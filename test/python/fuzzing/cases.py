"""The nine kinds of cases; each is made by a seed and says what is wrong, or that all is right."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from harness import lowered, obeyed, scheduled
from loop_cases import gemm
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.executor import Executor, default_target, get_backend
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.program_run import Backend
from dlc.cli.check import as_array
from dlc.diagnostics import OpError, TextError
from dlc.dialects import loop
from dlc.dialects.torch import AtenOp
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.conditioning import Expected
from dlc.passes import CHOOSING, steps_between
from dlc.pipeline import apply_step, run_pipeline
from dlc.precision import PRECISIONS
from dlc.registry import get_pass, register
from dlc.simulator import run_module
from dlc.target import TARGETS, set_target
from dlc.transforms.step import kernels_of
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from fuzzing import bindings
from fuzzing.bindings import MOST_STEPS, steps_of
from fuzzing.cascades import random_cascade
from fuzzing.idioms import random_idioms
from fuzzing.programs import Program, random_program, shrink
from fuzzing.results import Returning, random_returning, shrunk
from fuzzing.results import complaint as complaint_of_results
from fuzzing.schedules import as_schedule, random_mistake, random_schedule
from fuzzing.scripts import complaint as complaint_of_script
from fuzzing.scripts import random_script
from fuzzing.scripts import shrunk as shrunk_script
from fuzzing.texts import answer, random_passes, random_text
from fuzzing.tilings import complaint_of_tilings, random_tiled
from fuzzing.tilings import kernels_of as kernels_to_tile

ON_HOST = 0.15
"""How often the C++ compiler is asked, too, which takes longer than the interpreter."""
EXPORTED = 0.1
"""How often a program is also built and run without dlc."""
NAMED = 0.2
"""How often extents of idioms have names."""
TEXTS = 20
"""So many texts, and so many scripts, are a case."""
IN_PARTS = ("chunk-reduce", "cooperative-reduce")
"""Steps that have parts of a long sum added up apart."""


@dataclass
class Where:
    """What a campaign runs on."""

    backend: str = ""
    """In place of the interpreter, and of the host now and then."""


WHERE = Where()


@dataclass(frozen=True)
class Answer:
    """`failure` is empty where all is right, or where `refused` says what dlc does not take."""

    failure: str = ""
    case: str = ""
    refused: str = ""
    operators: frozenset[str] = field(default=frozenset(), compare=False)
    """The overloads of the program, as dlc imports it."""


@dataclass(frozen=True)
class Setting:
    """What is done to a program."""

    target: str
    schedule: tuple[str, ...] | None
    """For all kernels; None for dlc's own."""
    host: Backend | None
    lying: str = "contiguous"
    """How the arguments lie in memory, one of `LYING`."""
    joined: bool = False
    """True if all that can be merged is, and cascades are joined, whether that pays or not."""
    precision: str = "f32"
    """What products of f32 may be computed in."""

    def __str__(self) -> str:
        chosen = "dlc's schedule" if self.schedule is None else ",".join(self.schedule)
        host = ""
        if isinstance(self.host, HostBackend):
            host = f" --order {self.host.order} --async-mode {self.host.async_mode}"
        joined = ", merged and joined" if self.joined else ""
        host += "" if self.precision == "f32" else f" --precision {self.precision}"
        return f"--target {self.target}{host} with {chosen}, arguments {self.lying}{joined}"


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element of some memory."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def _shifted(tensor: torch.Tensor) -> torch.Tensor:
    """Behind a first element, so that the address is a multiple of one element's size only."""
    return torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view(tensor.shape)


LYING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "transposed": lambda tensor: tensor.transpose(0, -1).contiguous().transpose(0, -1),
    "spread": _spread,
    "shifted": _shifted,
}


def programs(rng: random.Random) -> Answer:
    """A program under dlc's own schedules."""
    return _judge(random_program(rng), _setting(rng, None))


def schedules(rng: random.Random) -> Answer:
    """A program under random schedules, of which those with a mistake are refused at its place."""
    steps = random_schedule(rng)
    if steps and (said := _taken(random_mistake(rng, steps))):
        return Answer(said)
    return _judge(random_program(rng), _setting(rng, tuple(steps)))


def _taken(mistaken: str) -> str:
    """What is wrong if a schedule with a mistake is not refused with a place; else nothing."""
    module = scheduled(gemm(4, 5, 6), mistaken)
    (tiled,) = kernels_of(module)
    try:
        get_pass("tileify")().apply(Context(), module)
    except TextError as error:
        if error.op is tiled and 0 <= error.start < error.start + error.width <= len(mistaken):
            return ""
        return f"no place in the schedule: {error}"
    return f"a schedule with a mistake is taken: {mistaken}"


def cascades(rng: random.Random) -> Answer:
    """Reduces of which some need the results of others, mostly in one kernel."""
    steps = tuple(random_schedule(rng)) if rng.random() < 0.5 else None
    setting = replace(_setting(rng, steps), joined=rng.random() < 0.8)
    return _judge(random_cascade(rng), setting)


def idioms(rng: random.Random) -> Answer:
    """Norms, folds, products, sums at places that are data and orderings, of each other."""
    if rng.random() < NAMED and not WHERE.backend:
        return _at_sizes(rng, random_idioms(rng))
    steps = tuple(random_schedule(rng)) if rng.random() < 0.15 else None
    setting = replace(_setting(rng, steps), joined=steps is None and rng.random() < 0.15)
    return _judge(random_idioms(rng), setting)


def tilings(rng: random.Random) -> Answer:
    """A kernel that is tiled, under schedules near dlc's own, against that on the host."""
    text, type, target = random_tiled(rng)
    try:
        subject = rng.choice([*kernels_to_tile(text, type, target, rng.randrange(1 << 16))])
    except (ImportFailure, UnsupportedError, OpError) as error:
        return Answer(refused=str(error))
    failure, schedule = complaint_of_tilings(rng, subject)
    return Answer(failure, f"{type}, --target {target}\n{text}\n{subject.name}: {schedule}")


def texts(rng: random.Random) -> Answer:
    """Some texts that have been tampered with, each with passes."""
    for _ in range(TEXTS):
        text, arguments = random_text(rng), random_passes(rng)
        if said := answer(text, arguments):
            return Answer(said, f"// dlc-opt FILE {' '.join(arguments)}\n{text}")
    return Answer()


def results(rng: random.Random) -> Answer:
    """A program whose results share memory, by `dlc.compile`, `torch.compile` and an export."""
    program, build = random_returning(rng), rng.random() < EXPORTED

    def said_of(candidate: Returning) -> str:
        try:
            return complaint_of_results(candidate, build)
        except (ImportFailure, UnsupportedError, OpError) as error:
            return f"refused: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    said = said_of(program)
    if said.startswith("refused"):
        return Answer(refused=said)
    if not said:
        return Answer()
    smallest = shrunk(program, lambda p: said_of(p).split(":")[0] == said.split(":")[0])
    return Answer(said_of(smallest), smallest.text)


def scripts(rng: random.Random) -> Answer:
    """Some scripts: the program of each for the random numbers that were drawn, and for others."""
    for _ in range(TEXTS):
        text = random_script(rng)
        if said := complaint_of_script(text):
            smallest = shrunk_script(text, lambda t, said=said: complaint_of_script(t) == said)
            return Answer(said, smallest)
    return Answer()


def sizes(rng: random.Random) -> Answer:
    """A program some of whose extents have names, and the kernels of three bindings of these."""
    return _at_sizes(rng, random_cascade(rng) if rng.random() < 0.2 else random_program(rng))


def _at_sizes(rng: random.Random, program: Program) -> Answer:
    named = bindings.random_named(rng, program, rng.choice(list(TARGETS)), rng.random() < ON_HOST)
    if named is None or not program.statements:
        return Answer(refused="a program without extents")
    failure, refused = bindings.complaint(named)
    if not failure:
        return Answer(refused=refused)
    kind = failure.split(":")[0]
    smallest = bindings.shrunk(named, lambda n: bindings.complaint(n)[0].split(":")[0] == kind)
    return Answer(bindings.complaint(smallest)[0], smallest.text)


KINDS_OF_KERNELS = ("programs", "schedules", "cascades", "idioms")
"""Those that a backend decides."""
KINDS: dict[str, Callable[[random.Random], Answer]] = {
    "programs": programs,
    "schedules": schedules,
    "cascades": cascades,
    "idioms": idioms,
    "tilings": tilings,
    "sizes": sizes,
    "texts": texts,
    "results": results,
    "scripts": scripts,
}


def _setting(rng: random.Random, schedule: tuple[str, ...] | None) -> Setting:
    host = HostBackend(rng.choice(("forward", "reverse", "random")), rng.choice(("late", "early")))
    chosen = rng.random() < ON_HOST
    lying = rng.choice(["contiguous"] * 3 + list(LYING))
    target, precision = rng.choice(list(TARGETS)), rng.choice(PRECISIONS)
    if "precision=tf32" in ",".join(schedule or ()):
        precision = "tf32"
    if not WHERE.backend:
        return Setting(target, schedule, host if chosen else None, lying, precision=precision)
    newest = default_target()
    target = target if int(target[3:]) <= int(newest[3:]) else newest
    return Setting(target, schedule, get_backend(WHERE.backend), lying, precision=precision)


def _judge(program: Program, setting: Setting) -> Answer:
    if not program.statements:
        return Answer(refused="an empty program")
    operators = set[str]()
    failure, refused = complaint(program, setting, operators)
    if refused or not failure:
        return Answer(refused=refused, operators=frozenset(operators))
    if WHERE.backend == "cuda":  # a kernel that fails takes the context with it
        return Answer(failure, f"{setting}\n{program.text}", operators=frozenset(operators))
    kind = failure.split(":")[0]

    def fails_alike(smaller: Program) -> bool:
        return complaint(smaller, setting)[0].split(":")[0] == kind

    smallest = shrink(program, fails_alike)
    setting = _plainest(smallest, setting, kind)
    failure = complaint(smallest, setting)[0]
    return Answer(failure, f"{setting}\n{smallest.text}", operators=frozenset(operators))


def _plainest(program: Program, setting: Setting, kind: str) -> Setting:
    """The setting without what the failure does not need."""
    steps = setting.schedule or ()
    plainer: list[Callable[[Setting], Setting]] = [
        lambda s: replace(s, host=None),
        lambda s: replace(s, lying="contiguous"),
        lambda s: replace(s, joined=False),
        lambda s: replace(s, precision="f32"),
        *(partial(_without, step) for step in steps),
    ]
    for change in plainer:
        if complaint(program, change(setting))[0].split(":")[0] == kind:
            setting = change(setting)
    return setting


def _without(step: str, setting: Setting) -> Setting:
    return replace(setting, schedule=tuple(s for s in setting.schedule or () if s != step))


def complaint(
    program: Program, setting: Setting, operators: set[str] | None = None
) -> tuple[str, str]:
    """
    What is wrong, or else why the program is refused; both empty where all is right. `operators`
    gets the names of the overloads that the program has.
    """
    warnings.simplefilter("ignore")
    ctx = register(Context())
    try:
        module, args = capture_text(program.text)
        if len(args) == len(program.inputs) and program.overflows(args):
            return "", "a number that f16 does not hold: where it is rounded decides"
        args = [LYING[setting.lying](t) if t.ndim else t for t in args]
        imported = import_program(module, args, whole=DECOMPOSITIONS)
        arguments = [t.detach() for t in imported.bind(args)]
        found = (op.overload.data for op in imported.module.walk() if isinstance(op, AtenOp))
        (set() if operators is None else operators).update(found)
        set_target(imported.module, setting.target, setting.precision)
        state = imported.module.clone()
        run_pipeline(ctx, state, "tensor")
        expected = Expected(imported.module, arguments)
    except (ImportFailure, UnsupportedError, OpError) as error:
        return "", re.sub(r" \(<.*", "", str(error).split("error: ")[-1].strip())
    except Exception as error:
        return f"{type(error).__name__} at import: {error}", ""
    try:
        kernels, terms = _scheduled(ctx, state, setting)
        return _ran(kernels, arguments, expected, setting, terms), ""
    except _Refused as refusal:
        return "", str(refusal)
    except Exception as error:
        return f"{type(error).__name__}: {error}", ""


class _Refused(Exception):
    """A random schedule asks for more than a block can have, or than is simulated in time."""


def _scheduled(ctx: Context, module: ModuleOp, setting: Setting) -> tuple[ModuleOp, int]:
    """Kernel IR, and how many terms the schedule has one thread add one after the other."""
    if setting.joined:
        _join(ctx, module)
    if setting.schedule is None:
        run_pipeline(ctx, module, "kernel")
        return module, 1
    run_pipeline(ctx, module, "loop")
    parted = any(step.startswith(IN_PARTS) for step in setting.schedule)
    terms = 1 if parted else longest_reduction(module)
    for op in module.walk():
        if isinstance(op, loop.KernelOp):
            op.schedule = StringAttr(as_schedule(setting.schedule))
    for step in setting.schedule:
        obeyed(module, step.split("{")[0])
    try:
        return lowered(module), terms
    except OpError as error:
        if " B of shared memory" in str(error):
            raise _Refused("more shared memory than a block can have") from None
        raise


def _join(ctx: Context, module: ModuleOp) -> None:
    """Takes a program in Tensor IR to loops, as few of them as can be."""
    for step in steps_between("tensor", "loop"):
        if step.pass_name == CHOOSING:
            apply_step(ctx, module, "join-cascades")
        for merged in kernels_of(module) if step.pass_name == "fuse-loops" else ():
            merged.attributes["fuse"] = StringAttr("always")
        apply_step(ctx, module, step.pass_name)


def _ran(
    kernels: ModuleOp,
    arguments: list[torch.Tensor],
    expected: Expected,
    setting: Setting,
    terms: int,
) -> str:
    """A race or another hazard is raised, and so is what CUDA C has no text for."""
    print_module(kernels)
    if not WHERE.backend and steps_of(kernels) > MOST_STEPS:
        raise _Refused("kernels that are merged to more work than is simulated")
    if not WHERE.backend:
        arrays = [as_array(t) for t in arguments]
        results = [torch.from_numpy(np.array(a)) for a in run_module(kernels, arrays)]
        if said := expected.complaint(results, terms=terms):
            return f"wrong in the interpreter: {said}"
    if setting.host is not None:
        found = [result.cpu() for result in Executor(kernels, setting.host)(arguments)]
        if said := expected.complaint(found, terms=terms):
            return f"wrong on {setting.host.name}: {said}"
    return ""
