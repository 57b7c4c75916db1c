"""
The rules that options of `dlc` follow, so that none is ignored: a table, checked before any work.

The parser leaves an option that is not given None or False; `settle` fills in the defaults. What
concerns only how things look (`--color`, `--debug`, `-v`) may find nothing to show.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dlc.backend import BACKENDS, backend_hint
from dlc.cli.directories import names_directory
from dlc.cli.program_input import kind_of, needs_weights
from dlc.diagnostics import UsageError, with_hint
from dlc.target import TARGETS, target_hint

DEFAULTS = {
    "ir": "cuda",
    "order": "forward",
    "async_mode": "late",
    "seed": 0,
    "batch": 1,
    "dtype": "f32",
}
"""By the name of the option in the namespace."""


class Need(NamedTuple):
    """An option that acts only where something else is given, too."""

    option: str
    needs: str
    is_met: Callable[[argparse.Namespace], bool]

    @property
    def name(self) -> str:
        """The name in the namespace; of an option with two spellings, the first."""
        return self.option.split(" ")[0].removeprefix("--").replace("-", "_")


def _kind(options: argparse.Namespace) -> str:
    """`text`, `script`, `module` or `model`."""
    return "text" if options.file is None else kind_of(options.file)


def _is_model(options: argparse.Namespace) -> bool:
    return _kind(options) == "model"


def _has_text(options: argparse.Namespace) -> bool:
    return options.text is not None or _kind(options) == "script"


def _has_program(options: argparse.Namespace) -> bool:
    return options.text is not None or _kind(options) != "module"


def _runs_on(backend: str) -> Callable[[argparse.Namespace], bool]:
    def is_met(options: argparse.Namespace) -> bool:
        if options.backend is not None:
            return options.backend == backend
        from dlc.backend.executor import default_backend

        return default_backend() == backend

    return is_met


def _is_run_if_traced(options: argparse.Namespace) -> bool:
    return options.command != "trace" or options.validate


def _has_use_for_weights(options: argparse.Namespace) -> bool:
    return options.command == "trace" or needs_weights(options)


def _goes_past_fusion(options: argparse.Namespace) -> bool:
    return getattr(options, "ir", None) not in ("torch", "tensor")


def _has_sizes(options: argparse.Namespace) -> bool:
    return bool(options.dynamic) or _kind(options) == "module"


MODEL = "a model: a directory, a configuration or an id such as Qwen/Qwen2.5-7B"
PROGRAM = "a program of PyTorch: -c, a script or a model"
NEEDS = (
    Need("--layer or --block", MODEL, _is_model),
    Need("--seq-len", MODEL, _is_model),
    Need("--batch", MODEL, _is_model),
    Need("--dtype", MODEL, _is_model),
    Need("--random-weights", MODEL, _is_model),
    Need("--random-weights", "--validate", _is_run_if_traced),
    Need("--random-weights", "--validate or --with-weights", _has_use_for_weights),
    Need("--seed", "--validate", _is_run_if_traced),
    Need("--seed", "--validate or --with-weights", _has_use_for_weights),
    Need("--with-weights", "-o DIR/", lambda options: names_directory(options.o)),
    Need("--with-weights", PROGRAM, _has_program),
    Need("--lines", "-o DIR/", lambda options: names_directory(options.o)),
    Need("--contenders", "--bench", lambda options: options.bench),
    Need("--contenders", PROGRAM, _has_program),
    Need("--dynamic", PROGRAM, _has_program),
    Need("--sizes", "--dynamic, or a file of IR with sizes", _has_sizes),
    Need("--db", "--tuned", lambda options: options.command == "tune" or options.tuned),
    Need("--plan", "an IR that comes after fusion", _goes_past_fusion),
    Need("--plan", "no --plans, which search for one", lambda o: getattr(o, "plans", 1) == 1),
    Need("--sync", "--backend cuda", _runs_on("cuda")),
    Need("--order", "--backend host", _runs_on("host")),
    Need("--async-mode", "--backend host", _runs_on("host")),
)


def settle(options: argparse.Namespace) -> None:
    """Fills in the defaults; UsageError for options that would be ignored, or name nothing."""
    check_names(options)
    check_needs(options, NEEDS)
    if options.arguments is not None and not _has_text(options):
        raise UsageError("what stands behind -- are arguments of a script or of -c; there is none")
    if options.command == "compile":
        wanted = outputs(options)
        if len(wanted) > 1:
            found = " and ".join(wanted.values())
            raise UsageError(f"expected one thing to print or to write, found {found}")
        options.output = next(iter(wanted), "cuda")
    if _is_given(options, "contenders"):
        from dlc.cli.bench_report import contender_names

        contender_names(options.contenders, "host")
    for name, value in DEFAULTS.items():
        if getattr(options, name, value) is None:
            setattr(options, name, value)


def check_names(options: argparse.Namespace) -> None:
    """UsageError for a chip or a backend that there is not."""
    if (target := options.target) is not None and target not in TARGETS:
        raise with_hint(UsageError(f"unknown target '{target}'"), target_hint(target))
    if (backend := getattr(options, "backend", None)) is not None and backend not in BACKENDS:
        raise with_hint(UsageError(f"unknown backend '{backend}'"), backend_hint(backend))


def check_needs(options: argparse.Namespace, needs: Iterable[Need]) -> None:
    """UsageError for options that are given without what they need."""
    unmet = [need for need in needs if _is_given(options, need.name) and not need.is_met(options)]
    if unmet:
        error = UsageError("; ".join(f"{need.option} needs {need.needs}" for need in unmet))
        file = getattr(options, "file", None) or ""
        if getattr(options, "arguments", None) is None and file.endswith(".py"):
            raise with_hint(error, f"options of the script itself stand behind --: {file} -- …")
        raise error


def _is_given(options: argparse.Namespace, name: str) -> bool:
    value = getattr(options, name, None)
    return value is not None and value is not False


def outputs(options: argparse.Namespace) -> dict[str, str]:
    """
    The options that say what `dlc compile` makes, by the names of `dlc.cli.outputs`. The CUDA text
    is not among them with a directory, to which it is written anyway.
    """
    to_directory = names_directory(options.o)
    ir = None if to_directory and options.ir == "cuda" else options.ir
    asked = {
        "cuda" if ir == "cuda" else "ir": ir and f"--ir {ir}",
        "cubin": options.cubin and "--cubin",
        "explain": options.explain and "--explain",
        "reproduce": options.reproduce is not None and "--reproduce",
        "directory": to_directory and f"the directory -o {options.o}",
    }
    return {name: said for name, said in asked.items() if said}
