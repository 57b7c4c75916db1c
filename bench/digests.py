"""
Digests of the Kernel IR and the CUDA text of some 400 programs: what a change of dlc changes.

    python bench/digests.py -o before.json                     # on the tree before
    python bench/digests.py --against before.json              # on the tree after: exit code 1
    python bench/digests.py --texts after/ --only attention    # the texts themselves, to diff

The programs are those that dlc is measured on and every family of operators of the tests; `--quick`
takes every seventh of them on one chip each. Nothing is run and nvcc is not needed. Of each text
there are two digests: of all of it, and of what is left without the schedule that it carries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "test" / "python")]

TARGETS = ("sm_80", "sm_90", "sm_120")
QUICK = 7
"""`--quick` takes one in so many programs."""

SCHEDULE = re.compile(r' ?schedule "(?:[^"\\]|\\.)*"|; schedule: .*(?:\n//  .*)*')


@cache
def programs() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """A function or module and its arguments by name."""
    from cases import CASES
    from families import FAMILIES

    found: dict[str, tuple[Any, tuple[Any, ...]]] = {
        case.name: (case.function, _inputs(case)) for case in CASES
    }
    for family, cases in FAMILIES.items():
        for case in cases:
            found[f"{family}: {case.name}"] = (case.function, case.args)
    return found


def _inputs(case: Any) -> tuple[Any, ...]:
    """Tensors of the case's shapes; what those hold that a benchmark draws is left open."""
    import torch

    drawn = [torch.empty(shape) for shape in case.inputs.values()]
    return (*drawn, *case.make_constants())


def texts(name: str, target: str) -> dict[str, str]:
    """The Kernel IR and the CUDA text of a program, or the sentence that refuses it."""
    import warnings

    import torch

    import dlc
    from dlc.stages import Stages

    Stages.keeps = False  # what was made before is no proof of anything
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    function, arguments = programs()[name]
    try:
        compiled = dlc.compile(function, arguments, target=target, backend="host")
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    return {ir: compiled.ir(ir) for ir in ("kernel", "cuda")}


def digests(work: tuple[str, str, Path | None]) -> tuple[str, dict[str, str]]:
    """The digests of a program for a target; its texts are written to a folder, if one is given."""
    name, target, folder = work
    found: dict[str, str] = {}
    for ir, text in texts(name, target).items():
        found[ir] = _digest(text)
        found[f"{ir}, schedules aside"] = _digest(SCHEDULE.sub("", text))
        if folder is not None:
            file = re.sub(r"[^\w.]+", "_", f"{name}.{target}")
            (folder / f"{file}.{ir}").write_text(text)
    return f"{name} {target}", found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def chosen(quick: bool, only: str | None) -> Iterator[tuple[str, str]]:
    """The programs and targets to compile."""
    for number, name in enumerate(programs()):
        if re.search(only or "", name):
            if not quick:
                yield from ((name, target) for target in TARGETS)
            elif number % QUICK == 0:
                yield name, TARGETS[number // QUICK % len(TARGETS)]


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """A line for each program whose digests changed, with what changed."""
    lines: list[str] = []
    for key, now in after.items():
        was = before.get(key)
        if was is None:
            lines.append(f"{key}: not compared, it is not among the earlier digests")
        elif changed := [
            ir for ir in sorted(was.keys() | now.keys()) if was.get(ir) != now.get(ir)
        ]:
            lines.append(f"{key}: {', '.join(changed)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="every seventh program, on one chip")
    parser.add_argument("--only", metavar="REGEX", help="programs whose name has a match")
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="FILE", help="write digests as JSON"
    )
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with earlier digests")
    parser.add_argument("--texts", type=Path, metavar="DIR", help="write the texts there")
    parser.add_argument("-j", dest="jobs", type=int, default=2, metavar="N")
    options = parser.parse_args()
    if options.texts is not None:
        options.texts.mkdir(parents=True, exist_ok=True)
    work = [(*pair, options.texts) for pair in chosen(options.quick, options.only)]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = dict(pool.map(digests, work, chunksize=3))
    refused = sum("refused" in row for row in found.values())
    print(f"{len(found)} compilations, {refused} of them refused")
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    if options.against is None:
        return 0
    lines = differences(json.loads(options.against.read_text()), found)
    print("\n".join(lines) or "no differences")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
