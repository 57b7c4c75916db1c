"""The picture of a tuning: how the best came down, and what the estimate is worth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any

from dlc.diagnostics import UsageError, with_hint
from dlc.tuning.tuner import Tuning


def plot(tunings: Sequence[Tuning], path: Path) -> None:
    """
    Writes a picture as the path's suffix says, with two plots of each kernel: the best so far, in
    times of the default, over the candidates; and what each candidate takes by the objective over
    its estimate. UsageError without matplotlib, or for a suffix that it does not know.
    """
    try:
        import matplotlib
    except ImportError:
        error = UsageError("--plot needs matplotlib")
        raise with_hint(error, "pip install 'dlc[bench]'") from None
    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "dlc"  # the same findings give the same bytes
    from matplotlib import pyplot

    size = (9, 3.2 * len(tunings))
    figure, grid = pyplot.subplots(
        len(tunings), 2, figsize=size, layout="constrained", squeeze=False
    )
    for tuning, (left, right) in zip(tunings, grid, strict=True):
        _convergence(left, tuning)
        _against_estimate(right, tuning)
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except ValueError as error:
        raise UsageError(f"cannot write {path}: {error}") from None
    finally:
        pyplot.close(figure)


def _convergence(axes: Any, tuning: Tuning) -> None:
    default = tuning.trials[0].found or inf
    times = [inf if trial.found is None else trial.found / default for trial in tuning.trials]
    numbers = range(len(times))
    axes.plot(numbers, times, ".", markersize=3, label="a candidate")
    axes.step(numbers, list(accumulate(times, min)), where="post", label="the best so far")
    axes.set_yscale("log")
    axes.set_xlabel("candidates")
    axes.set_ylabel("times the default")
    axes.set_title(tuning.subject.name, fontsize=9)
    axes.legend(fontsize=7)


def _against_estimate(axes: Any, tuning: Tuning) -> None:
    scored = [trial for trial in tuning.trials if trial.found is not None]
    estimates = [trial.estimate * 1e6 for trial in scored]
    axes.plot(estimates, [(trial.found or 0) * 1e6 for trial in scored], ".", markersize=3)
    default = tuning.trials[0]
    axes.plot([default.estimate * 1e6], [(default.found or 0) * 1e6], "o", label="the default")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("estimate us")
    axes.set_ylabel(f"us, {tuning.objective.measures}")
    axes.legend(fontsize=7)
