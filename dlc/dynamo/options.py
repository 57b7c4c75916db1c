"""What `torch.compile(mode=..., options=...)` may ask of dlc."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dlc.backend.executor import Backend, BackendLike, default_target, get_backend
from dlc.cuda_graph import has_graphs
from dlc.diagnostics import did_you_mean, with_hint
from dlc.precision import get_precision
from dlc.target import get_target

MODES = ("default", "reduce-overhead")
TUNING = "dlc tune measures, and --tuned or dlc.compile(…, tuned=True) takes what it found"


@dataclass(frozen=True)
class Options:
    """
    `target`, `backend`, `graph`, `sync` and `precision` are those of `dlc.compile`. With
    `fallback`, PyTorch runs what dlc cannot compile; without it that is an error. Without
    `backward`, PyTorch runs the backward of what records gradients.
    """

    target: str | None = None
    backend: BackendLike = None
    graph: bool = False
    sync: bool = False
    precision: str | None = None
    fallback: bool = True
    backward: bool = True

    @staticmethod
    def of(mode: str | None, options: Mapping[str, Any] | None) -> Options:
        """
        ValueError, or TypeError for a value of another type, for what dlc does not know. The mode
        `reduce-overhead` is `graph` where the backend has CUDA graphs.
        """
        if mode is not None and mode not in MODES:
            hint = TUNING if mode.startswith("max-autotune") else None
            raise _unknown("mode", mode, MODES, hint)
        known = {field.name: field.default for field in fields(Options)}
        for name, value in (options or {}).items():
            if name not in known:
                raise _unknown("option", name, known)
            if isinstance(known[name], bool) and not isinstance(value, bool):
                raise TypeError(f"the option {name} is True or False, not {value!r}")
        chosen = Options(**(options or {}))
        if chosen.precision is not None:
            get_precision(chosen.precision)
        if mode != "reduce-overhead" or "graph" in (options or {}):
            return chosen
        graph = has_graphs(chosen.place())
        return Options(**{**(options or {}), "graph": graph})

    def place(self) -> Backend:
        """Where the kernels run."""
        return get_backend(self.backend, self.sync)

    def chip(self) -> str:
        """The target that schedules are made for."""
        return get_target(self.target or default_target()).name


def _unknown(what: str, name: str, known: Iterable[str], hint: str | None = None) -> ValueError:
    names = tuple(known)
    hint = hint or did_you_mean(name, names) or f"there are {', '.join(names)}"
    return with_hint(ValueError(f"unknown {what} '{name}' of the backend dlc"), hint)
