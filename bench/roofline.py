"""
How far from the roofline operators and fused programs are at benchmark sizes, by the estimate.

    python bench/roofline.py [--target sm_90 …] [--only REGEX] [-j 2] [--seconds 60] [--sass]
                            [--cases] [--output bench/results/kernels]

Every program of bench/kernel_programs.py is imported without data (on torch's meta device) and
compiled to Loop IR with its schedules. Its estimate is the sum over its launches, as the table of
`dlc compile --explain` has it. The roofline is the time of the compulsory bytes (inputs read and
results written once) or of the multiply-adds at the chip's rates, whichever is more, and of one
launch. `--sass` has kernels compiled by nvcc, too, and their instructions counted; `--cases` takes
the 84 cases of bench/cases.py instead, for bench/results/cases. Writes JSON and Markdown, worst
first. A run that was cut off goes on where it was; a program is done again when its text, anything
in dlc, or how it is measured has changed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from cases import SUITE
from kernel_programs import PROGRAMS, Program
from kernel_rows import measure, start_worker
from kernel_table import markdown
from target_rows import Record, run_all

from dlc.backend.cache import content_key
from dlc.target import TARGETS
from dlc_bench.environment import sources_key

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60
"""What a program may take before it is listed as too slow to compile."""
MEASURING = (ROOT / "bench" / "kernel_rows.py", ROOT / "bench" / "dlc_bench" / "work.py")
"""What a row depends on beside dlc and its program."""


def of_cases() -> list[Program]:
    """The 84 cases as programs: a family is an operator."""
    families = [(case, case.name.partition(".")) for case in SUITE]
    return [Program(f"{kind}/{rest}", kind, case.text) for case, (kind, _, rest) in families]


def run_target(
    target: str, programs: Sequence[Program], record: Record, options: argparse.Namespace
) -> None:
    """Adds what is missing for a target to the record."""
    version = content_key(sources_key(), *(path.read_text() for path in MEASURING))
    keys = {p.name: content_key(p.text, target, version, str(options.sass)) for p in programs}
    todo = {p.name: p for p in programs if not record.has(target, p.name, keys[p.name])}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn, initializer=start_worker) as pool:
        given = target, options.seconds, options.sass
        calls = {name: (measure, (program.text, *given)) for name, program in todo.items()}
        for name, row in run_all(pool, f"for {target}", calls):
            about = {"key": keys[name], "family": todo[name].family, "text": todo[name].text}
            record.put(target, name, about | row)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--target", nargs="+", default=["sm_80", "sm_90", "sm_120"])
    parser.add_argument("--only", metavar="REGEX", help="of family/name, such as ^loss/")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="that a program may take")
    parser.add_argument("--sass", action="store_true", help="count instructions, with nvcc")
    parser.add_argument("--cases", action="store_true", help="the 84 cases instead")
    parser.add_argument("--output", type=Path, help="a path without its suffix")
    options = parser.parse_args()
    if unknown := [target for target in options.target if target not in TARGETS]:
        parser.error(f"expected targets of {', '.join(TARGETS)}, found {', '.join(unknown)}")
    name, known = ("cases", of_cases()) if options.cases else ("kernel_programs", PROGRAMS)
    programs = [p for p in known if options.only is None or re.search(options.only, p.name)]
    if not programs:
        parser.error(f"no program matches {options.only}; bench/{name}.py lists them")
    results = ROOT / "bench" / "results" / ("cases" if options.cases else "kernels")
    output: Path = options.output or results
    record = Record(output.with_suffix(".json"))
    names = {program.name for program in known}
    for target, rows in record.rows.items():
        record.rows[target] = {name: row for name, row in rows.items() if name in names}
    try:
        for target in options.target:
            run_target(target, programs, record, options)
    finally:
        record.save()
        about = ("The 84 cases", "bench/roofline.py --cases") if options.cases else ()
        text = markdown(record.data, *about)
        output.with_suffix(".md").write_text(text)
    print(text.partition("\n## ")[0])


if __name__ == "__main__":
    main()
