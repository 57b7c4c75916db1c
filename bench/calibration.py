"""
What estimates say now of the programs that bench/measured.py has measured.

    python bench/calibration.py [MEASURED.json] [--only REGEX] [--counted] [--jobs 2]

Needs no GPU: estimates are computed anew, of the schedules that were measured and of those that are
chosen now, so that a change of the model shows at once. A row is a program, worst first; then come
programs of which several schedules were measured, and whether the fastest is picked, and geometric
means by family, by ending, by the number of parts and by the warps of an SM.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from math import inf, prod
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from dlc.text import table

if TYPE_CHECKING:
    from dlc.schedule.candidate import Candidate
    from dlc.schedule.cascade_problem import TiledCascade
    from dlc.schedule.cascade_tiles import CascadeCandidate
    from dlc.schedule.contraction_tiles import Tiled
    from dlc.target import Target

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "bench" / "results" / "measured.json"
TARGET = "sm_90"


@dataclass
class Row:
    """A program: what was measured of it, and what is estimated now, in microseconds."""

    name: str
    us: float
    eager: float | None
    schedules: dict[str, str]
    """What was measured, by the names of kernels."""
    counted: float
    """By Kernel IR of these schedules: as it was then, or anew."""
    estimate: float | None = None
    """Of the schedules that were measured; None if those are no tilings, or fusion has changed."""
    chosen: float = 0
    """Of the schedules that are chosen now."""
    told: list[str] = field(default_factory=list)
    """The tilings that were measured, and those chosen now if they are others."""
    features: dict[str, str] = field(default_factory=dict)
    program: str = ""
    """The same for schedules of one program."""
    now: bool = False
    """True if all that was measured is chosen now."""
    error: str = ""

    @property
    def of_estimate(self) -> float:
        return self.us / (self.estimate or self.chosen or inf)


def read(path: Path, only: str) -> list[Row]:
    """The programs that were timed."""
    from measured import DLC, microseconds

    found: list[Row] = []
    for name, row in json.loads(path.read_text())["rows"].items():
        us = microseconds(row, DLC)
        if us is None or not re.search(only, name):
            continue
        counted = sum(row["counted_us"].values())
        found.append(Row(name, us, microseconds(row, "eager"), row["schedules"], counted))
    return found


def examine(row: Row, anew: bool) -> Row:
    """A row with what is estimated now; `anew` if its Kernel IR is counted again."""
    import torch
    from kernel_rows import loop_kernels
    from measured_programs import find

    import dlc
    from dlc.dialects.loop import KernelOp
    from dlc.target import target_of

    program = find(row.name)
    try:
        with torch.device("meta"):
            function, arguments = program.make()
        options: dict[str, Any] = {"precision": "f32"} | program.options | {"schedules": None}
        compiled = dlc.compile(function, arguments, TARGET, "host", **options)
        module = compiled.variants[0].module("loop")
        kernels = loop_kernels(module)
        row.chosen = sum(kernel["estimate_us"] for kernel in kernels)
        ops = {op.name_: op for op in module.walk() if isinstance(op, KernelOp)}
        row.program = str(module)
        row.now = all(row.schedules.get(k["name"]) == k["schedule"] for k in kernels)
        measured: dict[str, float] = {}
        for kernel in kernels:
            name, target = kernel["name"], target_of(module)
            if (schedule := row.schedules.get(name)) is None:
                continue
            seconds = _examine_kernel(row, ops[name], schedule, kernel["schedule"], target)
            if seconds is None and schedule == kernel["schedule"]:
                measured[name] = kernel["estimate_us"]
            elif seconds is not None:
                measured[name] = seconds * 1e6 * (kernel["estimate_us"] / kernel["one_us"])
        if measured.keys() == ops.keys():
            row.estimate = sum(measured.values())
        if anew:
            options["schedules"] = row.schedules
            row.counted = _counted(dlc.compile(function, arguments, TARGET, "host", **options))
    except Exception as error:
        row.error = f"{type(error).__name__}: {error}".partition("\n")[0]
    return row


def _examine_kernel(row: Row, op: Any, schedule: str, now: str, target: Target) -> float | None:
    """
    The estimate of a kernel as it was measured, if that is a tiling of a contraction or of
    attention.
    """
    from dlc.schedule.cascade_problem import tiled_cascade
    from dlc.schedule.contraction_tiles import tiled_contraction
    from dlc.schedule.tiling import best_candidate

    if (cascade := tiled_cascade(op)) is not None:
        attention = attention_tiling_of(cascade, schedule, target)
        if attention is None:
            return None
        row.told.append(f"{attention}")
        return target.launch_seconds + attention.seconds
    tiled = tiled_contraction(op)
    if tiled is None or (then := tiling_of(tiled, schedule, target)) is None:
        return None
    row.told.append(f"{then} {then.cluster}")
    if schedule != now:
        row.told.append(f"now {best_candidate(tiled.problem, target)}")
    if not row.features:
        warps = min(max(then.resident, 1), -(-then.blocks // target.sms)) * then.block_threads / 32
        row.features = {
            "ending": then.ending if then.splits > 1 else "none",
            "parts": str(then.splits),
            "warps of an SM": f"{warps:g}",
            "multiplied by": type(then).__name__,
        }
    return then.seconds


def tiling_of(tiled: Tiled, schedule: str, target: Target) -> Candidate | None:
    """The tiling that a schedule of a contraction is, if it is one."""
    from dlc.schedule.candidate import Candidate
    from dlc.schedule.warp_candidate import warp_candidate_of
    from dlc.schedule.warpgroup_candidate import warpgroup_candidate_of

    found = {key: value for key, value in re.findall(r"(\w+)=([\w,]+)", schedule)}
    if "block" not in found or "chunk-matmul-k" not in schedule:
        return None
    axes = len(tiled.outer.axes)
    sizes, counts = ([int(n) for n in found[name].split(",")] for name in ("block", "thread"))
    first = axes - len(sizes)

    def of(values: Sequence[int], side: int) -> int:
        own = ((tiled.row, tiled.beside[0]), (tiled.column, tiled.beside[1]))[side]
        places = {axis.index for axis in own if axis is not None}
        return prod(values[n - first] for n in places if n >= first)

    block, threads = ((of(v, 0), of(v, 1)) for v in (sizes, counts))
    thread = block[0] // threads[0], block[1] // threads[1]
    depth = int(rings[1]) if (rings := re.search(r"double-buffer\{depth=(\d+)", schedule)) else 2
    rest = int(found["bk"]), depth, int(found.get("splits", 1)), found.get("combine", "workspace")
    problem, mma = tiled.problem, found.get("mma", "")
    if not mma:
        side = problem.stored[0]
        own = (tiled.row, tiled.column)[side].index - first
        lone = side if sizes[own] == counts[own] and thread[side] > 1 else None
        return Candidate(problem, target, thread, threads, *rest, lone=lone)
    assert problem.tensor is not None
    if mma.startswith("m64"):
        asks = "producer=1" in schedule
        made = warpgroup_candidate_of(problem.tensor)
        return made(problem, target, thread, threads, *rest, producer=asks)
    precision = found.get("precision", target.precision)
    made = warp_candidate_of(problem.tensor.type, precision)
    return made(problem, target, thread, threads, *rest)


def attention_tiling_of(
    tiled: TiledCascade, schedule: str, target: Target
) -> CascadeCandidate | None:
    """The tiling that a schedule of attention is, if it is one."""
    from dlc.schedule.cascade_tiles import CascadeCandidate
    from dlc.schedule.held_cascade import HeldCascade
    from dlc.schedule.warp_cascade import WarpCascade
    from dlc.schedule.warpgroup_cascade import WarpgroupCascade

    found = {key: value for key, value in re.findall(r"(\w+)=([\w,]+)", schedule)}
    if "block" not in found or "chunk-matmul-k" not in schedule:
        return None
    sizes, counts = ([int(n) for n in found[name].split(",")] for name in ("block", "thread"))
    first = len(tiled.outer.axes) - len(sizes)

    def of(values: Sequence[int], axis: Any) -> int:
        return values[axis.index - first] if axis is not None and axis.index >= first else 1

    block, threads = (
        (of(values, tiled.row), of(values, tiled.column)) for values in (sizes, counts)
    )
    thread = block[0] // threads[0], block[1] // threads[1]
    rings = re.search(r"double-buffer\{depth=(\d+)", schedule)
    waves = int(found.get("waves", 1)) if "last=" in schedule else 0
    made = HeldCascade if "held" in found else CascadeCandidate
    if mma := found.get("mma", ""):
        made = WarpgroupCascade if mma.startswith("m64") else WarpCascade
    splits, ending = int(found.get("splits", 1)), found.get("combine", "workspace")
    depth = int(rings[1]) if rings else 1
    parts = splits, ending, waves, depth
    tiling = made(tiled.problem, target, thread, threads, int(found["bk"]), *parts)
    return replace(tiling, sharing=int(found["parts"])) if "parts" in found else tiling


def _counted(compiled: Any) -> float:
    """Microseconds of all launches of a program by its Kernel IR."""

    from dlc.dialects.kernel import FuncOp
    from dlc.schedule.scheduled_time import scheduled_seconds
    from dlc.target import target_of

    module = compiled.variants[0].module("kernel")
    return 1e6 * sum(
        scheduled_seconds(op, target_of(module)) for op in module.walk() if isinstance(op, FuncOp)
    )


def report(rows: Sequence[Row]) -> Iterator[str]:
    """A table of the programs, the worst first, and means."""
    yield table(
        ("program", "us", "estimate", "us ÷ it", "counted", "us ÷ it", "chosen", "eager", "how"),
        [
            [
                row.name,
                *(f"{row.us:.2f}", f"{row.estimate:.2f}" if row.estimate else "-"),
                *(f"{row.of_estimate:.2f}", f"{row.counted:.2f}", f"{row.us / row.counted:.2f}"),
                *(f"{row.chosen:.2f}", f"{row.eager:.2f}" if row.eager else "-"),
                row.error or "; ".join(row.told),
            ]
            for row in sorted(rows, key=lambda row: -row.of_estimate if not row.error else 0)
        ],
    )
    yield from picks(rows)
    yield from means("family", rows, lambda row: row.name.rpartition("/")[0])
    for feature in dict.fromkeys(f for row in rows for f in row.features):
        yield from means(feature, rows, lambda row, f=feature: row.features.get(f))


TIED = 1.001
"""The ratio of two predictions up to which either may be picked."""


def picks(rows: Sequence[Row]) -> Iterator[str]:
    """
    For each program of which several schedules were measured, whether the estimate's pick of them
    is the fastest, and the pick of the counts of Kernel IR: of equal ones the slowest.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if not row.error:
            groups[row.program].append(row)
    cells: list[list[str]] = []
    losses: dict[str, list[float]] = {"estimate": [], "counted": []}
    for own in groups.values():
        distinct = {str(sorted(row.schedules.items())): row for row in own}
        if len(distinct) < 2:
            continue
        own, told = list(distinct.values()), list[str]()
        best = min(own, key=lambda row: row.us)
        for name, found in losses.items():
            if not all(getattr(row, name) for row in own):
                told.append("-")
                continue
            least = min(getattr(row, name) for row in own)
            tied = [row for row in own if getattr(row, name) <= TIED * least]
            pick = max(tied, key=lambda row: row.us)
            found.append(pick.us / best.us)
            told.append(f"{found[-1]:.2f} {pick.name.rpartition('/')[2]}" if pick != best else "1")
        chosen = next((f"{row.us / best.us:.2f}" for row in own if row.now), "-")
        cells.append([best.name, f"{best.us:.2f}", str(len(own)), *told, chosen])
    yield ""
    yield table(
        ("fastest", "us", "of", "estimate's pick", "counted's pick", "chosen now"),
        sorted(cells, key=lambda cell: cell[0]),
    )
    for name, found in losses.items():
        if found:
            right, mean = sum(n == 1 for n in found), geometric_mean(found)
            yield f"by {name}: {right} of {len(found)} are the fastest, {mean:.3f} times it"


def means(told: str, rows: Sequence[Row], key: Callable[[Row], str | None]) -> Iterator[str]:
    """Geometric means of both ratios for each value of a feature."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if not row.error and (value := key(row)) is not None:
            groups[value].append(row)
    cells = [
        [
            value,
            str(len(own)),
            f"{geometric_mean(r.of_estimate for r in own):.2f}",
            f"{geometric_mean(r.us / r.counted for r in own):.2f}",
        ]
        for value, own in groups.items()
    ]
    yield ""
    yield table((told, "programs", "us ÷ estimate", "us ÷ counted"),
                sorted(cells, key=lambda c: -float(c[2])))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("measured", type=Path, nargs="?", default=MEASURED)
    parser.add_argument("--only", default="", metavar="REGEX", help="of group/name")
    parser.add_argument("--counted", action="store_true", help="count Kernel IR anew")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    rows = read(options.measured, options.only)
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(examine, rows, [options.counted] * len(rows)))
    print("\n".join(report(rows)))


if __name__ == "__main__":
    sys.exit(main())
