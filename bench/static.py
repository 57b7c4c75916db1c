"""
What can be told of the kernels of all cases without a GPU, for each target.

    python bench/static.py [--targets sm_80 sm_90 sm_120] [--only REGEX] [--jobs 2]
                           [--output bench/results/static]

Every case of bench/cases.py is compiled to CUDA C, by nvcc to a cubin, by nvdisasm to SASS; from
these come registers, spills, occupancy, widths of accesses and the share of multiply-adds in the
innermost loop. Inputs are made without memory (on torch's meta device). Writes JSON and Markdown,
worst first. A run that was cut off goes on where it was; a case is done again when its text or
anything in dlc has changed. Needs the extra `bench`, and `cuda` where there is no nvcc.

What a case is predicted to take is the sum over its kernels of the estimate that fusion goes by
(dlc/analysis/loop/cost.py) or, for products, what its multiply-adds take at the share of the issue
slots that they have in the innermost loop, on the SMs that its blocks fill, if that is more. What
it must take (the floor) is the greater of its flops and its bytes at the chip's rates.
"""

from __future__ import annotations

import argparse
import compileall
import multiprocessing
import time
from concurrent.futures import (
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path

from cases import Case, select
from kernel_rows import (
    Maker,
    Row,
    costs_by_value,
    imported,
    loop_kernels,
    saved_seconds,
    start_worker,
)
from static_table import markdown
from target_rows import Record, run_all

from dlc.backend.cache import content_key
from dlc.backend.cuda.run import sass
from dlc.backend.cuda.run.nvcc import find_nvcc
from dlc.target import TARGETS, get_target
from dlc_bench import statics

ROOT = Path(__file__).resolve().parent.parent


def lower(given: str | Maker, target: str) -> Row:
    """
    A program, a text or what makes its module and example inputs, as CUDA C: its kernels in the
    order of their launches, each with its schedule, source, launch and estimate, the estimate of
    all (`us`), what it must do at least (`flops` of its products, `bytes`), and the CPU seconds of
    every phase. `error` instead where it does not compile.
    """
    from xdsl.utils.exceptions import ArgSpecParseError

    from dlc.cli.error_text import describe
    from dlc.pipeline import run_pipeline
    from dlc.stages import compiler_context

    try:
        begin = time.process_time()
        module, flops, size = imported(given, target)
        known = time.process_time()
        run_pipeline(compiler_context(), module, "loop")
        looped = time.process_time()
        estimates = statics.estimates(module)
        microseconds = sum(row["estimate_us"] for row in loop_kernels(module))
        costs = costs_by_value(module)
        estimated = time.process_time()
        run_pipeline(compiler_context(), module, "tile")
        tiled = time.process_time()
        ways = statics.bank_ways(module)
        counted = time.process_time()
        run_pipeline(compiler_context(), module, "kernel")
        lowered = time.process_time()
        microseconds -= saved_seconds(costs, module) * 1e6
        kernels = statics.kernels(module, estimates, ways)
        printed = time.process_time()
    except (Exception, ArgSpecParseError) as error:
        return {"error": describe(error, {})}
    passes = looped - known + tiled - estimated + lowered - counted
    seconds = {"import": known - begin, "passes": passes, "printing": printed - lowered}
    whole = {"us": microseconds, "flops": flops, "bytes": size}
    return {"kernels": kernels, "seconds": seconds, **whole}


def summarise(case: Case, target_name: str, kernels: list[Row]) -> Row:
    """What is said of a whole case; times in microseconds."""
    target = get_target(target_name)
    floor = max(case.flops / target.flops, case.bytes / target.memory_bandwidth) * 1e6
    predicted = sum(kernel["predicted_us"] for kernel in kernels)
    return {
        "flops": case.flops,
        "bytes": case.bytes,
        "floor_us": floor,
        "predicted_us": predicted,
        "roofline": floor / predicted,
        "times_floor": predicted / (floor + target.launch_seconds * 1e6),
    }


def make_row(case: Case, target: str, lowered: Row) -> Row:
    """Everything about a case; an error of a tool is kept as one."""
    row: Row = {"text": case.text, "aligned": case.aligned, "group": case.group}
    if "error" in lowered:
        return row | {"error": lowered["error"]}
    try:
        kernels = [statics.examine(kernel, target) for kernel in lowered["kernels"]]
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    return (
        row | summarise(case, target, kernels) | {"seconds": lowered["seconds"], "kernels": kernels}
    )


def compiler_key() -> str:
    """Differs whenever dlc or nvcc does."""
    files = sorted((ROOT / "dlc").rglob("*.py"))
    return content_key(str(find_nvcc()), *(file.read_text() for file in files))


def run_target(target: str, cases: list[Case], compiler: str, record: Record, jobs: int) -> None:
    """Adds what is missing for a target to the record."""
    keys = {case.name: content_key(case.text, target, compiler) for case in cases}
    todo = {c.name: c for c in cases if not record.has(target, c.name, keys[c.name])}
    if not todo:
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=start_worker) as pool:
        calls = {name: (lower, (case.text, target)) for name, case in todo.items()}
        lowered = dict(run_all(pool, f"{target} to CUDA C", calls))
    same: dict[str, list[str]] = {}
    for name, case in todo.items():
        same.setdefault(case.text, []).append(name)
    with ThreadPoolExecutor(jobs) as pool:
        calls = {
            names[0]: (make_row, (todo[names[0]], target, lowered[names[0]]))
            for names in same.values()
        }
        for name, row in run_all(pool, f"{target} to SASS    ", calls):
            for other in same[todo[name].text]:
                case = todo[other]
                own = {"key": keys[other], "compiler": compiler, "group": case.group}
                record.put(target, other, row | own)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--targets", nargs="+", default=["sm_80", "sm_90", "sm_120"])
    parser.add_argument("--only", metavar="REGEX", help="of group/name, such as ^suite/matmul")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "static")
    options = parser.parse_args()
    if unknown := [target for target in options.targets if target not in TARGETS]:
        parser.error(f"expected targets of {', '.join(TARGETS)}, found {', '.join(unknown)}")
    cases = select(options.only)
    if not cases:
        parser.error(f"no case matches {options.only}; python bench/cases.py lists them")
    sass.find_nvdisasm()
    compileall.compile_dir(ROOT / "dlc", quiet=1)  # as a first use leaves it behind
    compiler = compiler_key()
    record = Record(options.output.with_suffix(".json"))
    record.data["compiler"] = compiler
    try:
        for target in options.targets:
            run_target(target, cases, compiler, record, options.jobs)
    finally:
        record.save()
        text = markdown(record.data)
        options.output.with_suffix(".md").write_text(text)
    print(text.partition("\n## ")[0])


if __name__ == "__main__":
    main()
