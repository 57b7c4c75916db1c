"""The threads that run in step, which of them are active, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.clocks import Clock, Lanes, Number
from dlc.simulator.counted_blocks import BlockOrder
from dlc.simulator.expressions import Holds
from dlc.simulator.hazards import Access, Hazard, Kind
from dlc.target import MAX_THREADS, WARP, WARPGROUP

Mask: TypeAlias = "NDArray[np.bool_]"
MAX_WARPS = MAX_THREADS // WARP
"""Of a block."""
ACTOR_BITS = 32
ACTOR_MASK = (1 << ACTOR_BITS) - 1


class Machine:
    """
    The threads of some blocks. *Lane* n is thread `n % threads` of the block
    `block_ids[n // threads]`.

    An *actor* is what accesses memory: of each block first the threads, then the mbarriers, for
    whom the tensor memory accelerator writes. An *event* is one execution of an operation.
    """

    def __init__(
        self, threads: int, mbarriers: int, *, together: bool, cluster: int = 1, heard: int = 1
    ) -> None:
        self.threads = threads
        self._heard = heard
        self.cluster = cluster
        """So many blocks that follow each other run at the same time."""
        self.mbarriers = mbarriers
        self.actors = threads + mbarriers
        self._actor_bits = (self.actors - 1).bit_length()
        self.together = together
        """True if nothing orders some threads of a block without the others."""
        self.values: list[Any] = []
        """The present values of all SSA values: see `dlc.simulator.scalars.Value`."""
        self.iteration: list[int] = []
        """The indices of the loops that are running."""
        self.events: list[tuple[Operation, tuple[int, ...]]] = []
        """Executed operations with the indices of their loops; events are numbered from 1."""
        self.requests: dict[int, int] = {}
        """The lane of events that are requests of the tensor memory accelerator."""
        self.order = BlockOrder()
        self.report: Callable[[Hazard], None] = raise_hazard
        """Receives each hazard after which the kernel can go on."""
        self.begin(range(cluster))

    def begin(self, block_ids: Sequence[int]) -> None:
        """
        Takes the threads of these blocks, whole clusters in ascending order, to where the kernel
        begins.
        """
        self.block_ids = np.array(block_ids, np.int64)
        self.blocks = blocks = len(block_ids)
        self.lanes = blocks * self.threads
        self.everyone: Lanes = np.arange(self.lanes)
        self.block_of = self.everyone // self.threads
        self.thread_of = self.everyone % self.threads
        self.warp_of = self.block_of * MAX_WARPS + self.thread_of // WARP
        """The number of each lane's warp, not counting without gaps."""
        self.warpgroup_of = self.block_of * MAX_WARPS + self.thread_of // WARPGROUP
        """The same of its warpgroup."""
        self.actor_of = self.actor(self.block_ids[self.block_of], self.thread_of)
        self.met = np.zeros(self.lanes, np.int32)
        """The barriers of its cluster that each lane has come by, but for relaxed ones."""
        self.come = np.zeros(self.lanes, np.int32)
        """All of these barriers."""
        self.ended: Mask | None = None
        """The lanes that have come to the end of the kernel early, if any have."""
        self.activate(None)
        self.clock = Clock(
            blocks, self.threads, self.mbarriers, together=self.together, heard=self._heard
        )

    def activate(self, mask: Mask | None) -> None:
        """Lets the lanes of a mask run, None for all; but not those that have ended."""
        if self.ended is not None:
            mask = ~self.ended if mask is None else mask & ~self.ended
        self.mask = mask
        self.active = self.everyone if mask is None else np.flatnonzero(mask)

    def narrowed(self, condition: Mask) -> Mask:
        """The active lanes where the condition holds."""
        return condition if self.mask is None else self.mask & condition

    def end(self, condition: Mask) -> None:
        """Has the active lanes where the condition holds come to the end of the kernel."""
        ends = self.narrowed(condition)
        self.ended = ends if self.ended is None else self.ended | ends
        self.activate(self.mask)

    def where(self, holds: Holds) -> Lanes:
        """The active lanes where a condition holds; `active` itself if it holds in all of them."""
        if isinstance(holds, np.ndarray):
            chosen = holds[self.active]
            return self.active if chosen.all() else self.active[chosen]
        return self.active if holds else self.active[:0]

    def of(self, value: Any, lanes: Lanes) -> Any:
        """A value in these lanes; a number if it is the same in all."""
        everywhere = not isinstance(value, np.ndarray) or lanes is self.everyone
        return value if everywhere else value[lanes]

    def spread(self, value: Any, lanes: Lanes, otherwise: Any) -> Any:
        """A value of these lanes as one of all lanes, `otherwise` in the others."""
        if lanes is self.everyone:
            return value
        result = np.empty((self.lanes, *value.shape[1:]), value.dtype)
        result[...] = otherwise
        result[lanes] = value
        return result

    # Places and times.

    def event(self, op: Operation) -> int:
        """Notes that an operation is executed; its number stands for it in shadow memory."""
        self.events.append((op, tuple(self.iteration)))
        return len(self.events)

    def again(self, event: int) -> int:
        """Notes that what happened at an event has an effect now: an event of the same name."""
        self.events.append(self.events[event - 1])
        return len(self.events)

    def actor(self, block: Number, inside: Number) -> Number:
        """The number among those of the whole grid of an actor inside a block."""
        return block << self._actor_bits | inside

    def block_in(self, packed: Number) -> Number:
        """The block of an access."""
        return (packed & ACTOR_MASK) >> self._actor_bits

    def actor_in(self, packed: Number) -> Number:
        """The number inside its block of the actor of an access."""
        return packed & ((1 << self._actor_bits) - 1)

    def packed(self, op: Operation, lanes: Lanes) -> NDArray[np.int64]:
        """The access that each of these lanes makes now: event and actor in one number."""
        return (self.event(op) << ACTOR_BITS) | self.actor_of[lanes]

    def access(self, op: Operation, lane: int) -> Access:
        """The access that a lane makes now."""
        block = int(self.block_ids[self.block_of[lane]])
        return Access(op, block, int(self.thread_of[lane]), tuple(self.iteration))

    def access_at(self, event: int, lane: int) -> Access:
        """The access that a lane made at `event`."""
        return self.past_access(event << ACTOR_BITS | int(self.actor_of[lane]))

    def past_access(self, packed: int) -> Access:
        """An access of shadow memory; one for an mbarrier is that of its request."""
        event, actor = packed >> ACTOR_BITS, self.actor_in(packed)
        block = self.block_in(packed)
        if actor >= self.threads:
            number, actor = divmod(self.requests[event], self.threads)
            block = int(self.block_ids[number])
        op, iteration = self.events[event - 1]
        return Access(op, block, actor, iteration)

    def hazard(
        self, kind: Kind, op: Operation, sentence: str, lanes: Iterable[int] = (), *past: Access
    ) -> Hazard:
        """A hazard that these lanes meet now, and accesses of before that show it with them."""
        return Hazard(kind, op, sentence, [*(self.access(op, int(lane)) for lane in lanes), *past])


def raise_hazard(hazard: Hazard) -> None:
    raise hazard


def first_of(bad: Mask) -> int:
    """The position of the first that is true."""
    return int(np.argmax(bad))
