"""`dlc run --profile`: what bounds each kernel, by counters or else by its machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.cuda.print.c_text import kernel_name
from dlc.backend.executor import Executor
from dlc.cli.status_line import progress
from dlc.passes import Step, last_step
from dlc.pipeline import text_of
from dlc.remarks import Remark
from dlc.target import target_of
from dlc.text import table
from dlc_bench import statics
from dlc_bench.ceilings import Ceilings, measure_ceilings
from dlc_bench.device import find_device
from dlc_bench.diagnosis import diagnose
from dlc_bench.ncu import Counters, NoCounters, count

Row = dict[str, Any]
HEADER = ("kernel", "blocks", "threads", "registers", "spills", "shared", "warps", "FFMA", "loads",
          "ways")  # fmt: skip

LEGEND = """\
shared: bytes of a block. warps: that an SM holds at once, of the most it can (what limits them).
FFMA: multiply-adds among the instructions of the innermost loop. loads: instructions that read
global memory, of so many bits. ways: turns that shared memory's banks take for the worst access.
"""


class Profile:
    """Notes on the way through the pipeline what only earlier stages know of kernels."""

    def __init__(self) -> None:
        self.estimates: dict[str, Row] = {}
        self.ways: dict[str, dict[str, float]] = {}

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        self.estimates = statics.estimates(module)
        self.ways = statics.bank_ways(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == last_step("loop"):
            self.estimates = statics.estimates(module)
        elif step == last_step("tile"):
            self.ways = statics.bank_ways(module)

    def report(self, module: ModuleOp, executor: Executor) -> None:
        """Prints a table and a line for each kernel of a module of Kernel IR, once a launch."""
        target = target_of(module)
        with progress("compiling and disassembling …"):
            given = statics.kernels(module, self.estimates, self.ways)
            rows = [statics.examine(row, target.name) for row in given]
        counters: list[Counters | None] = [None] * len(rows)
        ceilings: Ceilings | None = None
        if executor.backend.name == "cuda":
            try:
                counters = matched(rows, count(text_of(module)))
                ceilings = measure_ceilings(find_device("cuda"))
            except NoCounters as reason:
                print(f"no counters: {reason}")
        else:
            print(f"kernels compiled for {target.name}, which they have not run on")
        print(table(HEADER, [_cells(row) for row in rows]))
        print()
        print(LEGEND)
        for row, counted in zip(rows, counters, strict=True):
            print(f"{row['name']}: {diagnose(row, target, counted, ceilings)}")


def matched(rows: Sequence[Row], counted: Sequence[Counters]) -> list[Counters | None]:
    """The counters of each kernel, by its name and turn; fills of torch's have none of ours."""
    left = list(counted)
    found: list[Counters | None] = []
    for row in rows:
        mine = next((c for c in left if c.kernel == kernel_name(row["name"])), None)
        if mine is not None:
            left.remove(mine)
        found.append(mine)
    return found


def _cells(row: Row) -> list[str]:
    loop = row["loop"]
    loads = {a: n for a, n in row["accesses"].items() if a.split(".")[0] in ("LDG", "LDGSTS", "LD")}
    widths = ", ".join(f"{n} of {a.partition('.')[2] or 'a box'}" for a, n in loads.items())
    return [
        row["name"],
        str(row["ctas"]),
        str(row["threads"]),
        str(row["registers"]),
        str(row["spill_bytes"]),
        str(row["shared_bytes"]),
        f"{row['occupancy']:.0%} ({row['occupancy_limit']})",
        f"{loop['fma_share']:.0%}" if loop and row["contraction"] else "-",
        widths or "-",
        f"{statics.worst_ways(row):.3g}" if row["bank_ways"] else "-",
    ]
