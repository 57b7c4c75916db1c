"""The command; see the package."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dlc.backend import BACKENDS
from dlc.cli.status_line import STATUS
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
from fuzzing.campaign import answer_to, run
from fuzzing.cases import KINDS, KINDS_OF_KERNELS, WHERE


def main() -> int:
    parser = argparse.ArgumentParser("fuzzing", description="Runs random cases against dlc.")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="[until interrupted]")
    parser.add_argument(
        "--cases", metavar="COUNT|KIND=COUNT,…", help="how many of each, or of which [all, evenly]"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed [0]")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("fuzz-failures"))
    parser.add_argument(
        "--backend", choices=BACKENDS, default="", help="where kernels run [in the interpreter]"
    )
    parser.add_argument("--replay", metavar="KIND:SEED", help="run one case in this process")
    parser.add_argument("--coverage", action="store_true", help="list the operators drawn")
    options = parser.parse_args()
    WHERE.backend = options.backend
    if options.replay:
        answer = answer_to(options.replay)
        print(answer.failure or (f"refused: {answer.refused}" if answer.refused else "all right"))
        print(answer.case)
        return 1 if answer.failure else 0
    tally = run(_cases(options.cases, options.first), options.jobs, options.folder, options.seconds)
    STATUS.clear()
    print(tally)
    for reason, count in tally.refused.most_common(25):
        print(f"{count:6}  {reason.splitlines()[0][:150]}")
    if options.coverage:
        print(coverage(tally.operators))
    return 1 if tally.failures else 0


def coverage(drawn: Counter[str]) -> str:
    """How many programs each overload was in that dlc lowers, and which were in none."""
    lines = [f"{drawn[name]:6}  {name}" for name in sorted(drawn, key=lambda n: (-drawn[n], n))]
    never = sorted(name for name in DECOMPOSITIONS if not drawn[name])
    return "\n".join([*lines, f"never: {', '.join(never)}"])


def _cases(counts: str | None, first: int) -> Iterator[str]:
    kinds = KINDS_OF_KERNELS if WHERE.backend else KINDS
    if counts is None or counts.isdecimal():
        for seed in itertools.count(first) if counts is None else range(first, first + int(counts)):
            yield from (f"{kind}:{seed}" for kind in kinds)
        return
    for part in counts.split(","):
        kind, _, count = part.partition("=")
        yield from (f"{kind}:{seed}" for seed in range(first, first + int(count)))


if __name__ == "__main__":
    sys.exit(main())
