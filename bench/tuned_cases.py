"""
Whether a search finds schedules that are better than the default ones by nvcc's machine code.

    python bench/tuned_cases.py [--target sm_90] [--only REGEX] [--candidates 48] [--compiled 4]
                                [--seconds 600] [-o bench/results/tuned_cases]

For each kernel of the 84 cases, Monte-Carlo tree search proposes candidates by the estimate; the
default schedule and the best few are compiled and judged by `static`: registers, spills and the
share of multiply-adds of their SASS in the estimate. Kernels that are the same are judged once.
Writes JSON and Markdown after every case; a run that was cut off goes on where it was, and a kernel
is judged again when anything in dlc has changed. Cases of 128 tokens come first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from cases import SUITE, Case, select

from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import kernel_key
from dlc.cli.status_line import progress
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.pipeline import run_pipeline
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Score, objective
from dlc.tuning.tuner import Budget, tune_kernel
from dlc.tuning.tuning_report import difference
from dlc.tuning.workers import Limits, isolated_call
from dlc.version import source_key
from dlc_bench.records import markdown_table, where_and_when, write_record

RESULTS = Path(__file__).parent / "results" / "tuned_cases"
BETTER = 1.03
"""How many times as fast as the default counts as better."""
ORDER = ("128", "512", "32")
"""Tokens of the cases, those that are done first."""

Row = dict[str, Any]


def subjects(case: Case, target: str) -> Iterator[Subject]:
    """The kernels of a case."""
    module = import_program(*capture_text(case.text), whole=DECOMPOSITIONS).module
    set_target(module, target)
    run_pipeline(compiler_context(), module, "loop")
    for name, alone in isolated(module):
        yield Subject(alone, name)


def judged(subject: Subject, candidates: int, compiled: int) -> Row:
    """The default schedule of a kernel and its best candidates, each with what was found of it."""
    tuning = tune_kernel(subject, objective("estimate"), Budget(candidates=candidates))
    others = [trial for trial in tuning.ranked if trial is not tuning.default]
    static = objective("static")
    trials: list[Row] = []
    for trial in [tuning.default, *others[:compiled]]:
        found = isolated_call(partial(static.score, subject, trial.schedule, []), Limits())
        row: Row = {"schedule": trial.schedule, "estimate_us": trial.estimate * 1e6}
        if isinstance(found, Score):
            row |= {"us": found.seconds * 1e6, "registers": found.registers}
        else:
            row["error"] = str(found)
        trials.append(row)
    return {"candidates": len(tuning.trials), "trials": trials}


def best_of(row: Row) -> Row:
    """The fastest of a kernel's trials; the default where none is faster."""
    return min((trial for trial in row["trials"] if "us" in trial), key=lambda trial: trial["us"])


def verdict(names: list[str], rows: dict[str, Row]) -> tuple[float, float, Row, Row]:
    """
    Microseconds of the kernels of a case with default schedules and with the best; the default
    trial and the best one of the kernel that gains most.
    """
    pairs = [(rows[name]["trials"][0], best_of(rows[name])) for name in names]
    default, best = max(pairs, key=lambda pair: pair[0]["us"] - pair[1]["us"])
    return sum(d["us"] for d, _ in pairs), sum(b["us"] for _, b in pairs), default, best


def _is_judged(record: Row, key: str) -> bool:
    """True unless the default schedule of a kernel failed, as where nvcc took too long."""
    return "us" in record["kernels"][key]["trials"][0]


def text(record: Row) -> str:
    """The record as Markdown."""
    found = {name: verdict(keys, record["kernels"]) for name, keys in record["cases"].items()}
    gains = {name: default / best for name, (default, best, *_) in found.items()}
    rows = [
        [
            name,
            f"{default:.2f}",
            f"{best:.2f}",
            f"{gains[name]:.3f}",
            f"{usual['registers']}",
            f"{taken['registers']}",
            f"{min(record['kernels'][key]['candidates'] for key in record['cases'][name])}",
            f"{min(len(record['kernels'][key]['trials']) for key in record['cases'][name]) - 1}",
            difference(usual["schedule"], taken["schedule"]) or "the default",
        ]
        for name, (default, best, usual, taken) in sorted(found.items(), key=lambda i: -gains[i[0]])
    ]
    missing = [case.name for case in SUITE if case.name not in found]
    better = sum(gain >= BETTER for gain in gains.values())
    judged = ("candidates", "compiled", "instead")
    header = ("case", "default us", "best us", "times", "registers", "of the best", *judged)
    lines = [
        "# The 84 cases by machine code, default schedules against searched ones",
        "",
        f"`python bench/tuned_cases.py --candidates {record['candidates']} --compiled "
        f"{record['compiled']}`, {record['date']}, {record['target']}: of each kernel so many "
        "candidates by the estimate as its row says, and so many of them compiled by nvcc and "
        "judged by `--objective static`, the best by the estimate beside the default. Cases of 32 "
        "tokens were given fewer of both where their row says so. Nothing is measured on a GPU.",
        "",
        f"**{better} of {len(found)} cases are better by 3 % or more** with a schedule that the "
        "search found.",
        "",
        *markdown_table(header, rows),
    ]
    if missing:
        lines += ["", f"Not judged yet ({len(missing)}): {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def begun(path: Path, given: Row) -> Row:
    """The record so far, if it is of this dlc, target and effort; else a new one."""
    if path.exists() and (known := json.loads(path.read_text())).items() >= given.items():
        return known | where_and_when()
    return {**where_and_when(), **given, "cases": {}, "kernels": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--only", metavar="REGEX", help="of group/name")
    parser.add_argument("--candidates", type=int, default=48, help="of each kernel [48]")
    parser.add_argument("--compiled", type=int, default=4, help="of these the best [4]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="until it stops")
    parser.add_argument("-o", type=Path, default=RESULTS, help="where to, without a suffix")
    options = parser.parse_args()
    torch.set_default_device("meta")
    given = {"source": source_key(), **{n: vars(options)[n] for n in ("target", "candidates")}}
    record = begun(options.o.with_suffix(".json"), {**given, "compiled": options.compiled})
    begin = time.monotonic()
    cases = [case for case in select(options.only) if case.group == "suite"]
    with progress("cases …") as show:
        for case in sorted(cases, key=lambda case: ORDER.index(case.name.rpartition(".s")[2])):
            if case.name in record["cases"] or time.monotonic() - begin > options.seconds:
                continue
            show(case.name)
            keys: list[str] = []
            for subject in subjects(case, options.target):
                keys.append(key := kernel_key(subject.kernel))
                if key not in record["kernels"]:
                    row = judged(subject, options.candidates, options.compiled)
                    record["kernels"][key] = row
            if failed := [key for key in keys if not _is_judged(record, key)]:
                trials = [record["kernels"].pop(key)["trials"] for key in failed]
                print(f"{case.name}: no default to judge by: {trials[0][0]['error']}")
                continue
            record["cases"][case.name] = keys
            write_record(options.o, record, text(record), quiet=True)
    print(text(record).partition("\n| ")[0])


if __name__ == "__main__":
    main()
