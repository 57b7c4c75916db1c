"""The Markdown of bench/roofline.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import geometric_mean
from typing import Any

from dlc_bench.records import markdown_table

Row = dict[str, Any]
TITLE = "Operators and fused programs at benchmark sizes"
MOST = 2.0
"""Times the roofline that a program should not be over."""
HEADER = ("program", "÷ roofline", "estimate", "roofline", "bytes ÷ compulsory", "launches",
          "kernels", "compiled in")  # fmt: skip
REASONS = {
    r"matmul(_add)?/(tl|qw)\.": "32 to 512 rows of few columns: K is split to fill the chip, and "
    "the kernel that adds the parts takes 1.5 us; what comes first from memory, 0.6.",
    r"(sdpa|naive_attn)/": "Powers of e, their sums and maxima, and reads of shared memory take as "
    "long as the multiply-adds of 64 or 128 elements a key; 32 and 128 tokens leave SMs idle.",
    r"(softmax|rmsnorm)/": "A launch and the way to memory and back are nearly all of 2 us.",
    r"convolution-chain/.*\.(16x3x64x224|8x3x16x32)": "Three channels are 27 or 81 multiply-adds a "
    "sum, less than the sum takes to be stored: the convolution is at memory's rate, and its sums "
    "are read again, which the roofline does not count. One kernel would have to hold whole "
    "windows, groups or columns of channels in a block.",
    r"ordering/topk": "One line leaves SMs idle, and its roofline is little more than a launch; of "
    "256 elements of each line sorts of 2000 and 4096 wait for 22 and 25 exchanges.",
    r"ordering/sort": "A block compares each of 4096 elements 78 times and exchanges it 27 times, "
    "in 64 bits where a value and its place have no room in 32; of longer lines, each merge of two "
    "is a kernel that reads and writes all elements.",
    r"ordering/embedding_bag": "Bags read each row that they name, from L2 where they name it "
    "again; the roofline has each row of the table once.",
    r"ordering/": "Data decide what is read: updates are put in the order of their places first, a "
    "merge of two runs is a kernel that reads and writes all of them, and a step of a search is a "
    "load for each, which the estimate takes for one of the L2 cache.",
    r"convolution-chain/(group_norm|volume_max_pool)": "The convolution's sums are stored and read "
    "twice by what needs all of a group or a window, which the roofline does not count.",
    r"convolution/(conv[12]d_strided|conv3d)": "Elements of windows that are strided or in space "
    "are copied one by one, and parts of blocks lie beyond rows of 16, 28 or 55 points; rows of 55 "
    "store parts of sectors.",
    r"block/(dense_transition|transformer)": "What a product stores the next one reads, which the "
    "roofline does not count; of the transformer's 15 launches most are of few rows.",
    r"convolution-chain/transposed_pool": "One sum over the 27 points of the window; eight "
    "would do, with weights summed first, were nothing infinite. Elements of windows in space are "
    "copied one by one.",
    r"convolution/transposed3d": "16 or 32 channels of results are few: a block copies as much as "
    "for more; the volume is laid out with zeros between its rows first, and with strides every "
    "second result is stored at a time.",
    r"convolution/conv2d_grouped": "A group is 16 channels: a block has 16 x 16 points of it, and "
    "copies for each as much as it computes.",
    r"block/inverted_residual": "Six times as many channels are stored and read between its three "
    "convolutions, which the roofline does not count; each has few multiply-adds for an element.",
    r"block/dense_layer": "32 channels of results are few: a block copies more for each "
    "multiply-add, and K is split to fill the chip, which takes a launch more.",
    r"block/fire": "Its first convolution stores what two others read, and rows of 27 or 54 points "
    "leave a sixth of blocks idle and store parts of sectors.",
    r"attention/": "Of an SM of sm_120, 99 KiB have room for chunks of 32 keys only: 30 % of what "
    "is issued for one are reads of shared memory, powers of e, maxima and factors; of the blocks "
    "along the diagonal half is masked, and computed.",
    r"loss/|product/square.512|linear-chain/.*128x1024x4096": "A launch or two more than one, 1.5 "
    "us each, for sums that are split among blocks, as there are few rows.",
    r"convolution/transposed[12]d|convolution-chain/transposed_mean": "Every second result is "
    "stored at a time, in as many parts of each sector, where results meet different numbers of "
    "points of a window; rows of 58, 130 or 258 points leave a tenth of blocks idle.",
    r"convolution(-chain)?/|block/": "Blocks of powers of 2 points lie beyond images of 14 or 28 "
    "points a row by an eighth; 14 x 14 points of few images leave SMs idle, or split K. Where "
    "tiles are small, images are copied again for each point of a window.",
    r"product/": "A launch and the way to memory and back are half of its few us.",
    r"pool/average2d": "Windows of 11 x 11 read 121 elements for a result, from lines of L1.",
}
"""Why programs are over `MOST` times the roofline, by the beginning of their names."""
SASS = ("instructions", "in the loop", "registers", "spills")


def markdown(data: Row, title: str = TITLE, command: str = "bench/roofline.py") -> str:
    """Geometric means by family and target, and then a table for each target, worst first."""
    rows: Mapping[str, dict[str, Row]] = data["rows"]
    lines = [
        f"# {title}",
        "",
        f"`python {command}`, {data['date']} on {data['machine']}: estimate ÷ roofline, "
        "geometric means. Times are µs.",
        "",
        *_means(rows),
    ]
    lines += ["", f"Why programs are over {MOST:g}:", "", *_reasons(rows)]
    for target, programs in rows.items():
        lines += ["", f"## {target}", "", *_programs(programs)]
    return "\n".join(lines) + "\n"


def _means(rows: Mapping[str, dict[str, Row]]) -> list[str]:
    families = dict.fromkeys(row["family"] for each in rows.values() for row in each.values())
    header = ("family", *(f"{t} ({len(_done(each))} programs)" for t, each in rows.items()))
    lines = [
        (family, *(_mean([r for r in _done(each) if r["family"] == family])
                   for each in rows.values()))
        for family in sorted(families)
    ]  # fmt: skip
    lines.append(("all", *(_mean(_done(each)) for each in rows.values())))
    lines.append((f"programs over {MOST:g}", *(str(len(over(each))) for each in rows.values())))
    return markdown_table(header, lines)


def over(rows: Mapping[str, Row]) -> list[str]:
    """The names of programs over `MOST` times the roofline."""
    done = (n for n, row in rows.items() if "error" not in row)
    return [name for name in done if rows[name]["times_roofline"] > MOST]


def reason_of(name: str) -> str | None:
    """Why a program is over `MOST` times the roofline, if that is known."""
    return next((text for start, text in REASONS.items() if re.match(start, name)), None)


def _reasons(rows: Mapping[str, dict[str, Row]]) -> Iterator[str]:
    names = dict.fromkeys(name for each in rows.values() for name in over(each))
    for text in dict.fromkeys(reason_of(name) or "unknown" for name in names):
        same = ", ".join(f"`{n}`" for n in names if (reason_of(n) or "unknown") == text)
        yield f"- {same}: {text}"


def _done(rows: Mapping[str, Row]) -> list[Row]:
    return [row for row in rows.values() if "error" not in row]


def _mean(rows: list[Row]) -> str:
    return f"{geometric_mean(row['times_roofline'] for row in rows):.2f}" if rows else "-"


def _programs(rows: Mapping[str, Row]) -> Iterator[str]:
    done = {name: row for name, row in rows.items() if "error" not in row}
    worst = sorted(done, key=lambda name: -done[name]["times_roofline"])
    counted = any("sass" in row for row in done.values())
    header = (*HEADER, *(SASS if counted else ()))
    yield from markdown_table(header, (_cells(name, done[name], counted) for name in worst))
    if failed := {name: row["error"] for name, row in rows.items() if "error" in row}:
        yield from ("", "Without an estimate:", "")
        for name, error in failed.items():
            yield f"- `{name}`: {error.splitlines()[0]}"


def _cells(name: str, row: Row, counted: bool) -> list[str]:
    cells = [
        name,
        f"{row['times_roofline']:.2f}",
        f"{row['estimate_us']:.1f}",
        f"{row['roofline_us']:.1f}",
        f"{row['times_bytes']:.2f}",
        str(row["launches"]),
        str(len(row["kernels"])),
        f"{row['compile_seconds']:.1f} s",
    ]
    return cells + _sass(row.get("sass", [])) if counted else cells


def _sass(kernels: list[Row]) -> list[str]:
    """Of each launch, in their order."""
    loops = (k["loop"]["instructions"] if k["loop"] else "-" for k in kernels)
    columns = (
        (k["instructions"] for k in kernels),
        loops,
        (k["registers"] for k in kernels),
        (k["spill_bytes"] for k in kernels),
    )
    return [", ".join(map(str, column)) for column in columns]
