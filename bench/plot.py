"""The plot of bench/suite.py: how many times as fast as each peer dlc is, worst case first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ratios import peers, ratios, worst_first

Row = dict[str, Any]
MARKERS = "os^Dvx"


def plot(data: Row, path: Path) -> None:
    """Writes a picture as the path's suffix says; ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "dlc"  # the same record gives the same bytes
    from matplotlib import pyplot

    rows = data["rows"]
    found = {peer: values for peer in peers(rows) if (values := ratios(rows, peer))}
    order = [n for n in worst_first(rows) if any(n in values for values in found.values())]
    width = max(6.0, 0.16 * len(order) + 2)
    figure, axes = pyplot.subplots(figsize=(width, 5), layout="constrained")
    for marker, (peer, values) in zip(MARKERS, found.items(), strict=False):
        places = [i for i, name in enumerate(order) if name in values]
        heights = [values[order[i]] for i in places]
        axes.plot(places, heights, marker, markersize=4, label=peer)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_ylabel("time of the peer / time of dlc")
    axes.set_xticks(range(len(order)), order, rotation=90, fontsize=6)
    axes.grid(axis="y", linewidth=0.3)
    devices = sorted({f"{r['device']} ({r['backend']}), {r['date'][:10]}" for r in data["runs"]})
    axes.set_title("dlc beside PyTorch, worst case first; " + "; ".join(devices), fontsize=8)
    if found:
        axes.legend()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
