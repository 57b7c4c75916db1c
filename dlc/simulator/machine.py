"""The threads that run in step, which of them are active, and where they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.bank_meter import BankMeter
from dlc.simulator.clocks import Clock, Epochs, VectorClocks
from dlc.simulator.expressions import Holds, Index
from dlc.simulator.hazards import Access, Hazard, Kind

Step: TypeAlias = Callable[[], None]
"""What an operation does to a machine."""
Lanes = NDArray[np.int64]
"""Numbers of threads among those that run in step."""


class Stuck(Exception):
    """Some lanes wait for what the threads that run in step with them do later."""

    def __init__(
        self, lanes: Lanes, ready: Callable[[], bool], describe: Callable[[], Hazard]
    ) -> None:
        super().__init__("stuck")
        self.lanes = lanes
        self.ready = ready
        """Have they got what they wait for?"""
        self.describe = describe
        """The hazard that it is if nothing ends it."""


class Crew(ABC):
    """Groups of the threads of a block that run in step each, and wait for each other."""

    @abstractmethod
    def block(self, stuck: Stuck) -> None:
        """The running group lets others run until it is ready."""

    @abstractmethod
    def meet(
        self, op: Operation, scopes: Lanes, act: Callable[[Lanes], None], value: Any = None
    ) -> Any:
        """
        The running group comes to `op`, where all lanes of a scope, a warp or the block, meet;
        `scopes` has the number of each lane's. When the last lane of a scope has come, `act` is
        done with the lanes of it, once. What comes back is `value` of all that have met.
        """


WARP = 32
MAX_WARPS = 32
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

    def __init__(self, threads: int, mbarriers: int, ordered_by_clocks: bool) -> None:
        self.threads = threads
        self.actors = threads + mbarriers
        self.ordered_by_clocks = ordered_by_clocks
        self.values: list[Any] = []
        """What every SSA value is: see `dlc.simulator.scalars.Value`."""
        self.iteration: list[int] = []
        """The indices of the loops that are running."""
        self.events: list[tuple[Operation, tuple[int, ...]] | None] = [None]
        """What was executed, and when; number 0 stands for nothing."""
        self.requests: dict[int, int] = {}
        """The lane of events that are requests of the tensor memory accelerator."""
        self.crew: Crew | None = None
        """None where all threads run in step."""
        self.meter: BankMeter | None = None
        """None where bank conflicts are not counted."""
        self.tick: Callable[[], None] | None = None
        """Called at every turn of a loop."""
        self.report: Callable[[Hazard], None] = _raise
        """What is done about a hazard after which the kernel can go on."""
        self.begin([0])

    def begin(self, block_ids: Sequence[int]) -> None:
        """Takes the threads of these blocks, in ascending order, to where the kernel begins."""
        self.block_ids = np.array(block_ids, np.int64)
        self.blocks = blocks = len(block_ids)
        self.lanes = blocks * self.threads
        self.everyone: Lanes = np.arange(self.lanes)
        self.block_of = self.everyone // self.threads
        self.thread_of = self.everyone % self.threads
        self.warp_of = self.block_of * MAX_WARPS + self.thread_of // WARP
        """The number of each lane's warp, not counting without gaps."""
        self.actor_of = self.block_ids[self.block_of] * self.actors + self.thread_of
        self.active: Lanes = self.everyone
        self.mask: NDArray[np.bool_] | None = None
        """The active lanes as a mask; None for all."""
        self.clock: Clock = (
            VectorClocks(blocks, self.threads, self.actors)
            if self.ordered_by_clocks
            else Epochs(blocks, self.threads)
        )

    def activate(self, mask: NDArray[np.bool_] | None) -> None:
        self.mask = mask
        self.active = self.everyone if mask is None else np.flatnonzero(mask)

    def narrowed(self, condition: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The active lanes where the condition holds."""
        return condition if self.mask is None else self.mask & condition

    def where(self, holds: Holds) -> Lanes:
        """The active lanes where a condition holds; `active` itself if it holds in all of them."""
        if isinstance(holds, np.ndarray):
            chosen = holds[self.active]
            return self.active if chosen.all() else self.active[chosen]
        return self.active if holds else self.active[:0]

    def of(self, value: Any, lanes: Lanes) -> Any:
        """A value in these lanes."""
        if np.ndim(value) == 0 or lanes is self.everyone or len(value) == 1 < self.lanes:
            return value
        return value[lanes]

    def spread(self, value: Any, lanes: Lanes, otherwise: Any) -> Any:
        """A value of these lanes as one of all lanes, `otherwise` in the others."""
        if lanes is self.everyone:
            return value
        otherwise = np.broadcast_to(otherwise, (self.lanes, *np.shape(value)[1:]))
        result = otherwise.astype(np.asarray(value).dtype)
        result[lanes] = value
        return result

    # Places and times.

    def event(self, op: Operation) -> int:
        """Notes that an operation is executed; its number stands for it in shadow memory."""
        self.events.append((op, tuple(self.iteration)))
        return len(self.events) - 1

    def packed(self, op: Operation, lanes: Lanes) -> NDArray[np.int64]:
        """The access that each of these lanes makes now: event and actor in one number."""
        return (self.event(op) << ACTOR_BITS) | self.actor_of[lanes]

    def access(self, op: Operation, lane: int) -> Access:
        """What a lane does now."""
        block = int(self.block_ids[self.block_of[lane]])
        return Access(op, block, int(self.thread_of[lane]), tuple(self.iteration))

    def access_at(self, event: int, lane: int) -> Access:
        """What a lane did when `event` was."""
        op, iteration = self._what_was(event)
        block = int(self.block_ids[self.block_of[lane]])
        return Access(op, block, int(self.thread_of[lane]), iteration)

    def _what_was(self, event: int) -> tuple[Operation, tuple[int, ...]]:
        what = self.events[event]
        assert what is not None
        return what

    def past_access(self, packed: int) -> Access:
        """An access of shadow memory; one for an mbarrier is that of its request."""
        event = packed >> ACTOR_BITS
        op, iteration = self._what_was(event)
        block, actor = divmod(packed & ACTOR_MASK, self.actors)
        if actor >= self.threads:
            actor = self.requests[event] % self.threads
        return Access(op, block, actor, iteration)

    def hazard(self, kind: Kind, op: Operation, sentence: str, lanes: Iterable[int] = ()) -> Hazard:
        """A hazard that these lanes meet now."""
        return Hazard(kind, op, sentence, [self.access(op, lane) for lane in lanes])

    # Meetings.

    def block(self, stuck: Stuck) -> None:
        """Lets others run until the running threads are ready. Stuck if there are no others."""
        if stuck.ready():
            return
        if self.crew is None:
            raise stuck
        self.crew.block(stuck)

    def whole_blocks(self, op: Operation) -> NDArray[np.int64]:
        """The blocks whose threads meet at `op`. Hazard if only part of a block does."""
        if self.mask is None:
            return np.arange(self.blocks)
        here = self.mask.reshape(self.blocks, self.threads)
        partly = here.any(axis=1) & ~here.all(axis=1)
        if partly.any():
            block = int(np.argmax(partly))
            there, away = (block * self.threads + int(np.argmax(x[block])) for x in (here, ~here))
            sentence = (
                f"all threads of a block must reach {op.name}, and thread "
                f"{away % self.threads} does not"
            )
            raise self.hazard("divergence", op, sentence, [there])
        return np.flatnonzero(here.all(axis=1))

    def whole_warps(self, op: Operation) -> Lanes:
        """The lanes whose warps meet at `op`, all. Hazard if only part of a warp does."""
        if self.mask is None:
            return self.everyone
        warps = self.warp_of
        sizes, here = np.bincount(warps), np.bincount(warps[self.active], minlength=warps[-1] + 1)
        partly = (here > 0) & (here < sizes)
        if partly.any():
            members = warps == first_of(partly)
            there = first_of(members & self.mask)
            away = self.thread_of[first_of(members & ~self.mask)]
            sentence = f"all lanes of a warp must reach {op.name}, and thread {away} does not"
            raise self.hazard("divergence", op, sentence, [there])
        return self.active


def _raise(hazard: Hazard) -> None:
    raise hazard


def first_of(bad: NDArray[np.bool_]) -> int:
    """The position of the first that is true."""
    return int(np.argmax(bad))


def compressed(index: Index, lanes: Lanes, machine: Machine) -> Index:
    """An index value in these lanes."""
    return index if isinstance(index, int) or lanes is machine.everyone else index[lanes]
