"""A program in all its IRs, and what it shows of itself: texts, kernels, schedules, hazards."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.printer import Printer

from dlc.analysis.loop.loops import longest_reduction
from dlc.backend.bound_program import BoundProgram
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.host_program import HostProgram
from dlc.backend.kernel_image import KernelImage
from dlc.backend.schedule_database import ScheduleDatabase
from dlc.diagnostics import OpError, did_you_mean, with_hint
from dlc.dialects import loop
from dlc.dialects.fusion_plan import FUSING, FusionPlan
from dlc.dialects.kernel_op import TUNED, KernelSignature
from dlc.explain import Explanation
from dlc.garbage import rarely_collected
from dlc.judge.tuned_schedules import TunedSchedules
from dlc.kernel_cache import Lowered, find, keep, key_of
from dlc.log import dump_directory, get_logger
from dlc.notebook import progress
from dlc.passes import (
    OVERLAPPING,
    PRINTED,
    STAGES,
    Printed,
    Stage,
    Step,
    last_step,
    step_before,
    steps_between,
)
from dlc.pipeline import Observer, apply_step, run_pipeline, stage_of, text_of
from dlc.registry import PipelineError, register
from dlc.remarks import Remark
from dlc.transforms.step import parse_schedule
from dlc.transforms.step_choices import options_after

if TYPE_CHECKING:
    from dlc.simulator.checker import Verdict


@cache
def compiler_context() -> Context:
    """One context for all compilations of the process, with every dialect registered."""
    return register(Context())


def by_kernel(schedules: Mapping[str, str]) -> dict[str, str]:
    """Schedules of a user's by the names of kernels; TypeError for anything else."""
    given: object = schedules
    if isinstance(given, Mapping) and all(type(n) is type(s) is str for n, s in given.items()):
        return dict(schedules)
    error = TypeError(f"expected schedules by the names of kernels, found {reprlib.repr(given)}")
    raise with_hint(error, 'such as {"matmul": "tileify"}; f.kernels has names and schedules')


class Stages:
    """
    The module of a program at each stage, made when it is asked for. `schedules` are those of
    kernels of the Loop IR, by name, that the user gives in place of the default ones: ValueError
    for other names, PipelineError for a schedule that does not parse.
    """

    keeps: ClassVar[bool] = True
    """False where passes run each time, also if what they give is in the cache."""

    def __init__(
        self,
        module: ModuleOp,
        schedules: Mapping[str, str] | None = None,
        kernels: ModuleOp | None = None,
        tuned: Sequence[str] = (),
        plan: FusionPlan | None = None,
        overlap: bool = False,
    ) -> None:
        """
        `kernels` is the Kernel IR, where it is known already. Kernels without a schedule of the
        user's get what tuning has found by the objectives `tuned`. Which kernels merge, `plan` says
        in the place of what tuning has found or the estimate. With `overlap` kernels begin before
        the ones ahead of them end, where the chip can.
        """
        self.plan = plan
        self.overlap = overlap
        self.tuned = tuple(tuned)
        self.first: Stage = stage_of(module)
        self.schedules = by_kernel(schedules or {})
        self._modules: dict[Stage, ModuleOp] = {self.first: module}
        self._lowered: Lowered | None = None
        """What runs, if that was found or is kept."""
        if kernels is not None:
            self._modules["kernel"] = kernels
        if self.schedules and self.first == "loop":
            self._modules["loop"] = module.clone()
            self._give(self._modules["loop"])

    def module(self, stage: Stage) -> ModuleOp:
        """The program at a stage; it must not be changed. Loop IR is made on the way."""
        if stage not in self._modules:
            if stage == "kernel" and (lowered := self._found) is not None:
                return lowered.module
            before = STAGES[STAGES.index(self.first) : STAGES.index(stage)]
            if not before:
                raise ValueError(f"the program is {self.first} IR, of which no {stage} IR is made")
            earlier: list[Stage] = [s for s in before if s in self._modules or s == "loop"]
            module = self.module(earlier[-1]).clone()
            self._run(module, stage, [])
            self._modules[stage] = module
            if stage == "kernel" and self._key is not None:
                with suppress(OpError):  # of which no kernels are run
                    longest = longest_reduction(self.module("loop"))
                    self._lowered = keep(self._key, module, longest)
        return self._modules[stage]

    def program(self) -> BoundProgram:
        """The host program with its kernels. OpError as of `HostProgram.bind`."""
        if self._lowered is None:
            return HostProgram.of(self.module("kernel")).bind()
        return self._lowered.program

    def prepare(self) -> None:
        """Makes the Kernel IR, or finds what an earlier compilation made."""
        with rarely_collected():  # the garbage of all passes at once
            if "kernel" not in self._modules and self._found is None:
                self.module("kernel")

    @cached_property
    def _key(self) -> str | None:
        """By what the Kernel IR is found; None for what is made in ways that have no name."""
        chosen = self.schedules or self.tuned or self.plan is not None
        if not self.keeps or self.first != "torch" or chosen:
            return None
        return key_of(self._modules["torch"], *([OVERLAPPING] if self.overlap else []))

    @cached_property
    def _found(self) -> Lowered | None:
        """What an earlier compilation made, if that is there."""
        found = None if self._key is None else find(self._key, compiler_context)
        if found is not None:
            get_logger("compile").info("its kernels are those that were made of it before")
        self._lowered = found
        return found

    def known(self, stage: Stage) -> ModuleOp | None:
        """As `module`; None where the program begins at a later stage."""
        if stage not in self._modules and STAGES.index(self.first) > STAGES.index(stage):
            return None
        return self.module(stage)

    def _run(self, module: ModuleOp, until: Stage, observers: list[Observer]) -> None:
        """Takes a module that comes before a stage to it, with the user's schedules."""
        observers = [*self._deciding(module, until), *observers, *progress()]
        run_pipeline(compiler_context(), module, until, observers)
        if self.overlap and until == "kernel":
            apply_step(compiler_context(), module, OVERLAPPING)

    def _deciding(self, module: ModuleOp, until: Stage = "kernel") -> list[Observer]:
        """What changes a module between its passes, as the user wants it."""
        observers: list[Observer] = [_Giving(self._give)] if self.schedules else []
        if self.tuned:
            found = TunedSchedules(compiler_context(), ScheduleDatabase(), self.tuned)
            observers = [found, *observers]
        if self.plan is not None and step_before(FUSING) in steps_between(stage_of(module), until):
            observers = [self.plan, *observers]
        return observers

    def _give(self, module: ModuleOp) -> None:
        """Writes the user's schedules on kernels of the Loop IR."""
        kernels = [op for op in module.walk() if isinstance(op, loop.KernelOp)]
        names = list(dict.fromkeys(kernel.name_ for kernel in kernels))
        for name, schedule in self.schedules.items():
            if name not in names:
                error = ValueError(f"a schedule is for '{name}', and there is no such kernel")
                raise with_hint(error, f"the kernels are {', '.join(names)}")
            try:
                parse_schedule(schedule)
            except PipelineError as error:
                error.add_note(f"in the schedule of '{name}'")
                raise
            for kernel in kernels:
                if kernel.name_ == name:
                    kernel.schedule = StringAttr(schedule)
                    kernel.attributes.pop(TUNED, None)

    def with_schedules(self, schedules: Mapping[str, str]) -> Stages:
        """The same program with other schedules for some kernels."""
        if STAGES.index(self.first) > STAGES.index("loop"):
            raise ValueError(
                f"schedules are for kernels of the loop IR, and the program is {self.first} IR"
            )
        given = {**self.schedules, **by_kernel(schedules)}
        how: Any = {"tuned": self.tuned, "plan": self.plan, "overlap": self.overlap}
        return Stages(self._modules[self.first], given, **how)

    def text(self, stage: Printed) -> str:
        """The program at a stage: torch, tensor, loop, tile, kernel or cuda."""
        if stage not in PRINTED:
            error = ValueError(f"expected one of {', '.join(PRINTED)} as the IR, found '{stage}'")
            raise with_hint(error, did_you_mean(stage, PRINTED))
        if stage == "cuda":
            return print_module(self.module("kernel"))
        return text_of(self.module(stage))

    def dump(self, name: str) -> None:
        """Writes every stage's text to a directory of its own, if DLC_DUMP asks for that."""
        if (directory := dump_directory(name)) is None:
            return
        for number, stage in enumerate(PRINTED[PRINTED.index(self.first) :]):
            suffix = "cu" if stage == "cuda" else "mlir"
            (directory / f"{number}-{stage}.{suffix}").write_text(self.text(stage))

    def explain(self) -> str:
        """For each kernel its schedule, what was preferred to what, and why."""
        explanation = Explanation(False, options_after)
        module = self._modules[self.first].clone()
        self._run(module, "kernel", [explanation])
        return str(explanation)

    def trace(self, title: str) -> str:
        """The page that `dlc trace` writes: HTML that needs no network."""
        from dlc.trace.build import trace_of  # a compilation does without
        from dlc.trace.page import page

        module = self._modules[self.first].clone()
        observers = [*self._deciding(module), *progress()]
        return page(trace_of(compiler_context(), module, title, {}, observers))

    def check(self) -> list[Verdict]:
        """
        What the simulator finds in each kernel: races, reads out of bounds, deadlocks. Nothing is
        run but the simulator; programs of many blocks are checked in part, as the verdict says.
        """
        from dlc.simulator.checker import check_module  # a compilation does without

        return list(check_module(self.module("kernel")))


@dataclass(frozen=True)
class _Giving:
    """Gives kernels the user's schedules once they have others."""

    give: Callable[[ModuleOp], None]

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        pass

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == last_step("loop"):
            self.give(module)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel, in terms of its launch."""

    name: str
    """The name of the function in C."""
    source: str = field(repr=False)
    """CUDA C that compiles on its own."""
    schedule: str
    """What made it; of kernels in one launch each behind its name: `q: tileify; k: tileify`."""
    grid: int
    """Blocks."""
    block: int
    """Threads of a block."""
    shared_bytes: int
    """Bytes of a block, static and dynamic."""
    _symbol: str = field(repr=False)
    _stages: Stages = field(repr=False)

    @staticmethod
    def of(func: KernelImage, stages: Stages) -> Kernel:
        return Kernel(
            func.c_name,
            func.source,
            func.schedule,
            func.grid_size,
            func.block_size,
            func.shared_bytes,
            func.name_,
            stages,
        )

    @property
    def schedules(self) -> dict[str, str]:
        """
        The schedules by their kernels' names in Tile IR, as `with_schedule` takes those of Loop IR:
        several where kernels run in one launch.
        """
        if (kernels := self._stages.known("tile")) is None:
            return {self._symbol: self.schedule}
        ops = [op for op in kernels.walk() if isinstance(op, KernelSignature)]
        given = {op.name_: op.schedule.data for op in ops if op.schedule is not None}
        if self._symbol in given:
            return {self._symbol: self.schedule}
        parts = self.schedule.split("; ")
        return {name: text for name, text in given.items() if f"{name}: {text}" in parts}

    def ir(self, stage: Printed) -> str:
        """
        The kernel at a stage: loop, tile, kernel or cuda. ValueError for an IR without kernels, or
        one in which this kernel is still a part of another.
        """
        if stage == "cuda":
            return self.source
        module = self._stages.module(stage)
        ops = [op for op in module.walk() if isinstance(op, KernelSignature)]
        for op in ops:
            if op.name_ == self._symbol:
                stream = StringIO()
                Printer(stream).print_op(op)
                return f"{stream.getvalue()}\n"
        names = ", ".join(dict.fromkeys(op.name_ for op in ops)) or "none"
        error = ValueError(f"there is no kernel '{self._symbol}' in the {stage} IR")
        raise with_hint(error, f"its kernels are: {names}")
