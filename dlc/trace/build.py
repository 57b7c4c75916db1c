"""The trace of a module: takes it to Kernel IR and writes down all that the page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isinf
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from dlc.analysis.kernel.instruction_counts import costs_of, counts_of
from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.backend.cuda.print.c_text import kernel_name
from dlc.diagnostics import did_you_mean, with_hint
from dlc.dialects import host, kernel, loop, tile
from dlc.ir.provenance import ops_of
from dlc.passes import CHOOSING, Step, last_step
from dlc.pipeline import Observer, run_pipeline, stage_of
from dlc.remarks import Remark
from dlc.schedule.estimate import estimate
from dlc.schedule.scheduled_time import guessed, scheduled_seconds
from dlc.simulator.checker import Progress, check_module
from dlc.target import SECTOR_BYTES, Target, target_of
from dlc.trace.choices import Choices
from dlc.trace.grammar import grammar_of
from dlc.trace.lane_pictures import products_of
from dlc.trace.lines import origins
from dlc.trace.machine_code import machine_code
from dlc.trace.memory import memory_of
from dlc.trace.model import (
    Access,
    Axis,
    Bank,
    Candidates,
    Checked,
    Chip,
    Cost,
    Hazard,
    Kernel,
    LineCost,
    Measured,
    Measurement,
    Owners,
    Pipeline,
    Trace,
)
from dlc.trace.pictures import banks_of, owners_of
from dlc.trace.pipelines import pipeline_of
from dlc.trace.recorder import Recorder
from dlc.version import VERSION

if TYPE_CHECKING:
    from dlc.trace.verdicts import Verdicts


def trace_of(
    ctx: Context,
    module: ModuleOp,
    title: str,
    sources: Mapping[str, str],
    observers: Sequence[Observer] = (),
    check: Progress | None = None,
    *,
    shown: str | None = None,
    sass: bool = False,
    verdicts: Verdicts | None = None,
    measured: Measurement | None = None,
    tuned: Mapping[str, Candidates] | None = None,
) -> Trace:
    """
    Takes a module to Kernel IR, in place, and tells of it. `sources` are texts of the program by
    the names of their files. With `check`, which is told how far it is, kernels are checked. With
    `sass` there is the machine code, too; BackendError without nvcc or nvdisasm. `shown` is the
    kernel that is shown first; ValueError if there is none of that name. With `verdicts` the
    program is run after each pass. `measured` are times of kernels; `tuned` what a tuning found
    about some, by their names.
    """
    recorder, tiles, chosen = Recorder(sources), _Tiles(), Choices()
    judging = [] if verdicts is None else [verdicts]
    run_pipeline(ctx, module, "kernel", [*observers, *judging, recorder, tiles, chosen])
    recorder.finish(module)
    target = target_of(module)
    machine: Mapping[str, Mapping[str, float]] = {}
    if sass and recorder.panes[-1].ir == "cuda":
        pane, machine = machine_code(recorder.panes[-1], target)
        recorder.panes.append(pane)
    launches = Counter(op.callee for op in module.walk() if isinstance(op, host.LaunchOp))
    checked = {} if check is None else _checked(module, check)
    kernels = [
        _kernel(op, launches[op], tiles, checked.get(op), target, machine.get(op.name_, {}))
        for op in module.walk()
        if isinstance(op, kernel.FuncOp)
    ]
    for number, made in enumerate(kernels):
        candidates = (tuned or {}).get(made.name) or chosen.of(made.name)
        times = None if measured is None else _measured(measured, made.name)
        kernels[number] = replace(made, candidates=candidates, measured=times)
    chip = Chip(target.name, target.sms, target.memory_bandwidth, target.roofs)
    names = [k.name for k in kernels]
    if measured is not None and not any(k.measured for k in kernels):
        found, own = ", ".join(measured.kernels), ", ".join(names)
        raise ValueError(f"the times of {measured.how}, are of {found or 'nothing'}, not of {own}")
    if shown is not None and shown not in names:
        error = ValueError(f"there is no kernel '{shown}' to show")
        raise with_hint(error, did_you_mean(shown, names) or f"they are {', '.join(names)}")
    first, memory = shown or next(iter(names), ""), memory_of(module)
    passes, validated = recorder.passes, ""
    if verdicts is not None:
        passes = [replace(p, verdict=v) for p, v in zip(passes, verdicts.said, strict=True)]
        validated = verdicts.summary
    how = "" if measured is None else measured.how
    panes = recorder.panes
    grammar = grammar_of(panes)
    return Trace(
        title, VERSION, chip, panes, passes, kernels, memory, first, validated, how, grammar
    )


def _measured(measured: Measurement, name: str) -> Measured | None:
    """What a kernel took, by its name in the IR or in CUDA."""
    return measured.kernels.get(name) or measured.kernels.get(kernel_name(name))


class _Tiles:
    """Notes of each kernel of the Tile IR, once it is settled, what the Kernel IR does not say."""

    def __init__(self) -> None:
        self.axes: dict[str, list[Axis]] = {}
        self.ops: dict[str, list[str]] = {}
        self.owners: dict[str, Owners | None] = {}
        self.pipelines: dict[str, Pipeline | None] = {}
        self.costs: dict[str, Cost] = {}
        self.seconds: dict[str, float] = {}
        """What `--explain` predicts of a launch of each, of the kernel that combines parts, too."""

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self._predict(module)
        if stage_of(module) == "tile":
            self._look(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step.pass_name == CHOOSING:
            self._predict(module)
        if step == last_step("tile"):
            self._look(module)

    def _predict(self, module: ModuleOp) -> None:
        target = target_of(module)
        for op in module.walk():
            if isinstance(op, loop.KernelOp):
                cost = estimate(op, target)
                self.costs[op.name_] = Cost(cost.flops, cost.memory_bytes, cost.seconds)
                self.seconds[op.name_] = cost.seconds - cost.combine_seconds
                if cost.combine_seconds:
                    self.seconds[f"{op.name_}_combine"] = cost.combine_seconds

    def _look(self, module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, tile.KernelOp):
                axes = op.launch.axes
                self.axes[op.name_] = [
                    Axis(op.launch.kind(a), a.name_hint or "", op.launch.extent(a)) for a in axes
                ]
                self.ops[op.name_] = ops_of(op)
                self.owners[op.name_] = owners_of(op)
                self.pipelines[op.name_] = pipeline_of(op)


def _checked(module: ModuleOp, progress: Progress) -> dict[kernel.FuncOp, Checked]:
    """What the checker says of each kernel; places are lines of the Kernel IR."""
    found: dict[kernel.FuncOp, Checked] = {}
    for verdict in check_module(module, progress=progress):
        hazards = [
            Hazard(
                line_of(h.op),
                f"{h.kind}: {h.sentence}",
                [Access(line_of(a.op), str(a)) for a in h.accesses],
            )
            for h in verdict.hazards
        ]
        before = found.get(verdict.func)
        if before is None or before.answer == "clean":
            notes = [*verdict.notes, *verdict.unknown]
            found[verdict.func] = Checked(verdict.answer, notes, hazards)
    return found


def line_of(op: Operation) -> int:
    """The line of an operation in the pane of the Kernel IR; -1 for one that is in no line."""
    return next(iter(origins(op, "kernel")), -1)


def line_costs(func: kernel.FuncOp, banks: Sequence[Bank]) -> dict[str, LineCost]:
    """What each line of a kernel's text costs that costs something."""
    ways = {bank.line: bank.ways for bank in banks}
    return {
        str(line): LineCost(
            share.slots,
            share.sectors * SECTOR_BYTES,
            share.wavefronts,
            ways.get(line, 0),
            share.registers,
        )
        for op, share in costs_of(func).items()
        if (line := line_of(op)) >= 0 and (share.slots or share.sectors or share.wavefronts)
    }


def _kernel(
    func: kernel.FuncOp,
    launches: int,
    tiles: _Tiles,
    checked: Checked | None,
    target: Target,
    machine: Mapping[str, float],
) -> Kernel:
    counted, counts = scheduled_seconds(func, target), counts_of(func)
    shared = shared_slots(func)[1]
    banks = banks_of(func, line_of)
    held = occupancy(target, func.block_size, guessed(counts, func, target).registers, shared)
    return Kernel(
        name=func.name_,
        launches=launches,
        ops=tiles.ops.get(func.name_, ()),
        schedule="" if func.schedule is None else func.schedule.data,
        grid=func.grid_size,
        block=func.block_size,
        shared_bytes=shared,
        seconds=-1.0 if isinf(counted) else tiles.seconds.get(func.name_, counted),
        figures=asdict(counts),
        machine=machine,
        lines=line_costs(func, banks),
        blocks_per_sm=held.blocks,
        axes=tiles.axes.get(func.name_, ()),
        owners=tiles.owners.get(func.name_),
        pipeline=tiles.pipelines.get(func.name_),
        banks=banks,
        products=products_of(func, line_of),
        cost=tiles.costs.get(func.name_),
        checked=checked,
        candidates=None,
        measured=None,
    )
