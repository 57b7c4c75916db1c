"""What `dlc run` runs, and what its results are judged by and shown as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dlc.cli.result_rows import Row
from dlc.diagnostics import UsageError, with_hint
from dlc.kernel_cache import Lowered
from dlc.models.weights import available_bytes
from dlc.precision import Precision


@dataclass(frozen=True)
class Shown:
    """What is said of a program beside its kernels and their results."""

    rows: list[Row]
    written: list[int | None]
    """For each result of `@main` the argument whose new value it is, if it is one."""
    eager_peak: int | None
    """The bytes that eager PyTorch needs at least; None if the program's Torch IR is not known."""
    memory: str
    """The memory that it takes, in a line; empty for a program that is not planned."""


@dataclass(frozen=True)
class Subject:
    """A program in Kernel IR, its arguments, and what PyTorch makes of them in fp64, and as is."""

    lowered: Lowered
    arguments: list[torch.Tensor]
    reference: tuple[list[torch.Tensor], list[torch.Tensor]] | None
    longest_reduction: int
    shown: Shown
    precision: Precision
    """What products of f32 may be computed in."""


def check_memory(eager_peak: int, arguments: Sequence[torch.Tensor]) -> None:
    """UsageError where a program that needs so much does not fit into memory in fp64, too."""
    wanted, free = 2 * eager_peak, available_bytes()
    if free is not None and wanted > free and all(t.device.type == "cpu" for t in arguments):
        raise with_hint(
            UsageError(
                f"the program's tensors take {wanted / 2**30:.1f} GiB in fp64, which it is "
                f"compared with, and {free / 2**30:.1f} GiB of memory are free"
            ),
            "make it smaller, or compile it only: dlc compile",
        )
