"""Figures made of rows: ratios between contenders, means, wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log
from typing import Any

Row = dict[str, Any]
DLC = "dlc"


def microseconds(row: Row, contender: str) -> float | None:
    """The median of a contender, cold where that was measured; None where it does not count."""
    result = row["contenders"].get(contender)
    if result is None or result["error"] is not None or not row["timed"]:
        return None
    spread = result["cold_us"] or result["warm_us"]
    return None if spread is None else spread[0]


def ratio(row: Row, peer: str, contender: str = DLC) -> float | None:
    """How many times as fast as a peer a contender is."""
    own, other = microseconds(row, contender), microseconds(row, peer)
    return None if own is None or other is None else other / own


def ratios(rows: Mapping[str, Row], peer: str, contender: str = DLC) -> dict[str, float]:
    """By case, where both were timed."""
    found = {name: ratio(row, peer, contender) for name, row in rows.items()}
    return {name: value for name, value in found.items() if value is not None}


def best_peer(row: Row, contender: str = DLC) -> tuple[str, float] | None:
    """The fastest of the others, and how many times as fast as it a contender is."""
    others = [name for name in row["contenders"] if name != contender]
    found = [(name, r) for name in others if (r := ratio(row, name, contender)) is not None]
    return min(found, key=lambda pair: pair[1]) if found else None


def geometric_mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    logarithms = [log(value) for value in values]
    return exp(sum(logarithms) / len(logarithms)) if logarithms else float("nan")


def peers(rows: Mapping[str, Row], contender: str = DLC) -> list[str]:
    """All others, in the order in which they appear."""
    names = (name for row in rows.values() for name in row["contenders"])
    return [name for name in dict.fromkeys(names) if name != contender]


def worst_first(rows: Mapping[str, Row]) -> list[str]:
    """Cases by dlc's ratio to its best peer; those that dlc has no time for come first."""

    def key(name: str) -> tuple[int, float, str]:
        found = best_peer(rows[name])
        failed = microseconds(rows[name], DLC) is None
        return (0 if failed else 1, found[1] if found else float("inf"), name)

    return sorted(rows, key=key)
