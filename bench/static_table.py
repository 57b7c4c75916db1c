"""The table of bench/static.py as Markdown: a summary, then the kernels of each target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from dlc.target import TARGETS
from dlc_bench.diagnosis import GOOD_FMA_SHARE
from dlc_bench.records import markdown_table
from dlc_bench.statics import narrow, worst_ways

Row = dict[str, Any]

GLOBAL, SHARED = ("LDG", "STG", "LD", "ST"), ("LDS", "STS")
ASYNC = ("LDGSTS", "UTMALDG")

HEADER = (
    "case", "kernel", "x floor", "roofline", "predicted", "regs", "spill", "stack", "shared",
    "CTAs x threads", "per SM", "occupancy", "fill", "FFMA", "loop", "B/FFMA", "bank ways",
    "global", "shared accesses", "async", "schedule",
)  # fmt: skip

LEGEND = """\
Worst first, one row a kernel. `x floor` is the predicted time over what an ideal kernel takes
(roofline and one launch), `roofline` the share of it without the launch; both are of the whole
case. `per SM` is how many blocks fit and what limits them, `fill` the share of the SMs' time that
the number of blocks can use. `FFMA` is the share of multiply-adds in the loop where the time
goes, `loop` its instructions, `B/FFMA` the bytes that a thread reads from shared memory for each;
`bank ways` is the worst access of shared memory in dlc's bank model (1: no conflict). Accesses
are counted by their width in bits in the whole kernel's SASS, kinds apart: load + store.\
"""


def markdown(data: Row) -> str:
    """The record of bench/static.py as text."""
    lines = ["# Kernels without a GPU", "", f"{data['date']}, {data['machine']}.", ""]
    for target, rows in data["rows"].items():
        lines += [_compile_line(target, rows), ""]
    every = [row for rows in data["rows"].values() for row in rows.values()]
    if old := sum(row["compiler"] != data["compiler"] for row in every):
        lines += [f"{old} of {len(every)} rows are of an earlier state of dlc.", ""]
    targets = {target: rows for target, rows in data["rows"].items() if rows}
    counts = {target: summary(rows, target) for target, rows in targets.items()}
    names = dict.fromkeys(name for found in counts.values() for name in found)
    cells = ([name, *(str(counts[target][name]) for target in targets)] for name in names)
    lines += [*markdown_table(["", *targets], cells), "", LEGEND]
    for target, rows in targets.items():
        lines += ["", f"## {target}", "", *_table(rows)]
        if failed := {name: row["error"] for name, row in rows.items() if "error" in row}:
            lines += ["", f"### {target}: not compiled", ""]
            lines += [f"- {name}: {error.splitlines()[0]}" for name, error in failed.items()]
    return "\n".join(lines) + "\n"


def _compile_line(target: str, rows: dict[str, Row]) -> str:
    """What compilation to CUDA C took, of CPU time."""
    done = [row["seconds"] for row in rows.values() if "seconds" in row]
    took = {
        part: sum(seconds[part] for seconds in done) for part in ("passes", "printing", "import")
    }
    return (
        f"Compile time for {target}: of {len(done)} cases {took['passes']:.0f} s in passes, "
        f"{took['printing']:.0f} s in printing, {took['import']:.0f} s in torch.export and import."
    )


def kernels(rows: dict[str, Row]) -> Iterator[tuple[str, Row, Row]]:
    """Case, its row and kernel, for all that compiled."""
    for name, row in rows.items():
        for kernel in row.get("kernels", ()):
            yield name, row, kernel


def summary(rows: dict[str, Row], target: str) -> dict[str, int]:
    """How many kernels have which weakness."""
    every = list(kernels(rows))
    slots = TARGETS[target].issue_lanes / TARGETS[target].fp32_lanes
    """Issue slots of an SM for each that its fp32 lanes can take."""

    def count(weak: Callable[[Row], bool], aligned: bool = False) -> int:
        return sum(weak(kernel) and (row["aligned"] or not aligned) for _, row, kernel in every)

    return {
        "cases": len(rows),
        "cases not compiled": sum("error" in row for row in rows.values()),
        "kernels": len(every),
        "products": count(lambda k: k.get("contraction", False)),
        "kernels with spills": count(lambda k: k["spill_bytes"] > 0),
        "kernels whose products ptxas serializes": count(lambda k: k.get("serialized", 0) > 0),
        "kernels that touch sums of products in flight": count(lambda k: k.get("early", 0) > 0),
        "kernels with a stack": count(lambda k: k["stack"] > 0),
        "kernels that no SM can hold": count(lambda k: k["ctas_per_sm"] == 0),
        "aligned cases' kernels with global accesses under 128 bits": count(
            lambda k: narrow(k["accesses"], (*GLOBAL, *ASYNC)) > 0, aligned=True
        ),
        "aligned cases' products with shared reads under 128 bits in the loop": count(
            lambda k: is_product(k) and narrow(k["loop"]["accesses"], ("LDS",)) > 0, aligned=True
        ),
        "products with less than 85 % FFMA": count(
            lambda k: is_product(k) and k["loop"]["fma_share"] < GOOD_FMA_SHARE
        ),
        "products whose FFMA can fill less than 85 % of the fp32 lanes": count(
            lambda k: is_product(k) and k["loop"]["fma_share"] * slots < GOOD_FMA_SHARE
        ),
        "products with more than 1 shared byte a multiply-add": count(
            lambda k: is_product(k) and (k["loop"]["shared_bytes_per_fma"] or 0) > 1
        ),
        "kernels with bank conflicts in the model": count(lambda k: worst_ways(k) > 1),
        "products without asynchronous copies": count(
            lambda k: is_product(k) and not any(a.split(".")[0] in ASYNC for a in k["accesses"])
        ),
        "kernels that fill less than half of the SMs": count(lambda k: k["fill"] < 0.5),
        "kernels with occupancy under 25 %": count(lambda k: k["occupancy"] < 0.25),
    }


def is_product(kernel: Row) -> bool:
    """A contraction whose multiply-adds stand in a loop."""
    return bool(kernel.get("contraction") and kernel["loop"])


def _table(rows: dict[str, Row]) -> list[str]:
    done = {name: row for name, row in rows.items() if "error" not in row}
    order = sorted(done, key=lambda name: -done[name]["times_floor"])
    cells = (_cells(n, done[n], kernel) for n in order for kernel in done[n]["kernels"])
    return markdown_table(HEADER, cells)


def _cells(name: str, row: Row, kernel: Row) -> list[str]:
    loop = kernel["loop"] or {}
    per_fma = loop.get("shared_bytes_per_fma")
    return [
        name,
        kernel["name"],
        f"{row['times_floor']:.2f}",
        f"{row['roofline']:.0%}",
        f"{kernel['predicted_us']:.1f} µs",
        str(kernel["registers"]),
        str(kernel["spill_bytes"]),
        str(kernel["stack"]),
        str(kernel["shared_bytes"]),
        f"{kernel['ctas']} x {kernel['threads']}",
        f"{kernel['ctas_per_sm']} ({kernel['occupancy_limit']})",
        f"{kernel['occupancy']:.0%}",
        f"{kernel['fill']:.0%}",
        f"{loop['fma_share']:.0%}" if loop and kernel.get("contraction") else "-",
        str(loop["instructions"]) if loop else "-",
        "-" if per_fma is None else f"{per_fma:.2f}",
        f"{worst_ways(kernel):.3g}" if kernel["bank_ways"] else "-",
        _widths(kernel["accesses"], GLOBAL),
        _widths(kernel["accesses"], SHARED),
        _widths(kernel["accesses"], ASYNC),
        f"`{kernel['schedule']}`",
    ]


def _widths(accesses: dict[str, int], kinds: tuple[str, ...]) -> str:
    """Such as `128: 4 + 2, 32: 1`, the counts of the kinds that there are of each width."""
    found: dict[str, Counter[str]] = {}
    for access, count in accesses.items():
        kind, _, width = access.partition(".")
        if kind in kinds:
            found.setdefault(width or "box", Counter())[kind] += count
    used = [kind for kind in kinds if any(kind in counts for counts in found.values())]
    order = sorted(found, key=lambda width: -int(width) if width.isdigit() else 0)
    cells = [f"{width}: {' + '.join(str(found[width][kind]) for kind in used)}" for width in order]
    return ", ".join(cells) or "-"
