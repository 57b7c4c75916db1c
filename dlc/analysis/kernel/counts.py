"""What a kernel takes, in numbers: of a thread, of a warp, and of each operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlc.target import ProductKind


@dataclass
class Counts:
    """Of a thread, or of a warp where it says so."""

    slots: float = 0
    """Issue slots."""
    fmas: float = 0
    """Those of them that are multiply-adds."""
    wavefronts: float = 0
    """Of a warp's accesses of shared memory."""
    sectors: float = 0
    """Of global memory that a warp touches, through L2."""
    box_sectors: float = 0
    """Those of them that TMA fetches."""
    products: Mapping[ProductKind, float] = field(default_factory=dict)
    """Multiply-adds of a warp by tensor cores."""
    group_products: Mapping[ProductKind, float] = field(default_factory=dict)
    """The same of a warp's part of what its warpgroup multiplies."""
    waits: float = 0
    """Times that a thread waits for global memory, one after the other, with nothing to do."""
    overlapped: float = 0
    """Times that it waits for what it asked for before it computed something."""
    barriers: float = 0
    cluster_barriers: float = 0
    """Those of a cluster, but for relaxed ones."""
    relaxed_barriers: float = 0
    cluster_bytes: float = 0
    """That a warp reads of shared memory of all blocks of its cluster."""
    last_sectors: float = 0
    """Those of a warp of the last of some blocks after it knows that it is."""
    registers: int = 0
    """The most words of its own that it holds at once."""


@dataclass(frozen=True)
class Share:
    """What an operation has of the counts of its kernel, as often as it is executed."""

    slots: float
    wavefronts: float
    sectors: float
    registers: int
    """The words of its own that a thread holds where the operation stands."""
