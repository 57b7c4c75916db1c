"""What a tuning found, as text: the best candidates, and how their schedules differ."""

from __future__ import annotations

from collections import Counter

from dlc.registry import pieces
from dlc.text import counted, table
from dlc.tuning.tuner import Trial, Tuning

ROWS = 10
"""The candidates of a table."""
REASONS = 5
"""The reasons of refusals that are told."""
HEADER = ("candidate", "estimate us", "us", "registers", "instead of the default's")


def report(tuning: Tuning) -> str:
    """The table of the best candidates and the default, why others were refused, the best line."""
    name, measures = tuning.subject.name, tuning.objective.measures
    shown = tuning.ranked[:ROWS]
    if tuning.default not in shown:
        shown.append(tuning.default)
    rows = [
        [
            f"{tuning.trials.index(trial)}{' (default)' if trial is tuning.default else ''}",
            _us(trial.estimate),
            "-" if trial.seconds is None else _us(trial.seconds),
            _registers(trial),
            difference(tuning.default.schedule, trial.schedule),
        ]
        for trial in shown
    ]
    failed = [trial for trial in tuning.trials if trial.refusal]
    told = f"{name}: {counted(len(tuning.trials), 'candidate')}, {measures}"
    if tuning.interrupted:
        told += ", interrupted"
    lines = [told, table(HEADER, rows)]
    if failed or tuning.refusals:
        refused = len(failed) + len(tuning.refusals)
        lines.append(f"{refused} refused, such as:")
        reasons = Counter(
            [t.refusal.splitlines()[0] for t in failed] + list(tuning.refusals.values())
        )
        lines += [f"{n:6}  {reason}" for reason, n in reasons.most_common(REASONS)]
    return "\n".join([*lines, verdict(tuning)])


def verdict(tuning: Tuning) -> str:
    """What is best, in two lines."""
    if tuning.best is tuning.default:
        return f"{tuning.subject.name}: the default schedule is the best that was found"
    own, best = tuning.default.seconds, tuning.best.seconds or 0.0
    against = f", the default {_us(own)} us" if own else ""
    return (
        f"{tuning.subject.name}: {_us(best)} us{against} ({tuning.gain:.2f} times as fast) with\n"
        f"  {tuning.best.schedule}"
    )


def difference(default: str, schedule: str) -> str:
    """The steps of a schedule that the default states otherwise or lacks, and `-` what it has."""
    before, after = _steps(default), _steps(schedule)
    changed = [text for name, text in after.items() if before.get(name) != text]
    return ",".join([*changed, *(f"-{name}" for name in before if name not in after)])


def _steps(schedule: str) -> dict[str, str]:
    """The text of each step by its name."""
    found = [schedule[start:end].strip() for start, end in pieces(schedule)]
    return {text.partition("{")[0]: text for text in found}


def _registers(trial: Trial) -> str:
    known = None if trial.score is None else trial.score.registers
    return "-" if known is None else str(known)


def _us(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:.2f}" if us < 1000 else f"{us:.0f}"
