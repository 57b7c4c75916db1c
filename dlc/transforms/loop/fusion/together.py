"""Merges that pay together, and perhaps not one by one; see `together`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.merging import MAX_COPIED, MAX_OPS, Merged, Merges
from dlc.transforms.loop.fusion.wishes import demanded

MOST_STEPS = 4
"""Most kernels that are merged into another together: scores, a largest, a sum, a quotient."""
HOPELESS = 8
"""How many times slower a kernel may be than those that it is made of for others to be merged into
it: no sweep less makes up for more."""

Obstacle = Callable[[KernelOp, Sequence[KernelOp]], str | None]
"""The reason why a kernel is not merged into those that read its result, if any."""


@dataclass(frozen=True)
class Together:
    """Kernels that become one with what reads them all in the end."""

    steps: tuple[tuple[KernelOp, Merged], ...]
    """Each kernel, and what the last one is when it computes its result, too, in this order."""
    seconds: float
    """Of the kernel that all become."""
    apart: float
    """Of all of them."""
    demanded: bool
    """True if it shall be done even if it does not pay."""

    @property
    def worth(self) -> tuple[int, float]:
        return len(self.steps) if self.demanded else 0, self.apart - self.seconds


def together(last: KernelOp, merges: Merges, obstacle: Obstacle) -> Together | None:
    """
    What pays most of merging into `last` what it reads, what that reads, and so on, as far as
    nobody else reads it; None where two or more such merges do not pay together.

    One merge after the other is worked out, whether it pays or not, where the next ones may make up
    for it: where reduces are a cascade, which becomes one sweep, or where a kernel is read by two
    of which one reads the other.
    """
    growing = _Growing(last, merges, obstacle)
    found = max(growing.run(), key=lambda one: one.worth, default=None)
    growing.erase()
    return found


@dataclass
class _Growing:
    """A kernel into which those that it reads are merged, inserted nowhere."""

    last: KernelOp
    merges: Merges
    obstacle: Obstacle
    members: list[KernelOp] = field(default_factory=list)
    """The kernels that it is made of."""
    built: list[KernelOp] = field(default_factory=list)

    def run(self) -> Iterator[Together]:
        """What it is after each step with which all steps so far pay."""
        self.members.append(self.last)
        kernel, steps, must = self.last, list[tuple[KernelOp, Merged]](), True
        while len(steps) < MOST_STEPS and (step := self._next(kernel)) is not None:
            producer, merged = step
            steps.append(step)
            must = must and demanded(producer, self._readers(producer))
            self.members.append(producer)
            apart = sum(self.merges.facts(k).seconds for k in self.members)
            seconds = self.merges.facts_of(merged).seconds
            if len(steps) > 1 and (must or seconds < apart):
                yield Together(tuple(steps), seconds, apart, must)
            if not must and seconds > HOPELESS * apart:
                return
            kernel = self.merges.build(merged, [producer], kernel)
            self.built.append(kernel)

    def erase(self) -> None:
        for kernel in reversed(self.built):
            kernel.erase()

    def _next(self, kernel: KernelOp) -> tuple[KernelOp, Merged] | None:
        """The merge of what `kernel` reads that adds least to its time."""
        found = [
            (facts.seconds - self.merges.facts(producer).seconds, producer, merged)
            for producer in self._producers(kernel)
            if (merged := self.merges.merge(producer, kernel)) is not None
            and (facts := self.merges.facts_of(merged)).size <= MAX_OPS
        ]
        if not found:
            return None
        _, producer, merged = min(found, key=lambda one: one[0])
        return producer, merged

    def _producers(self, kernel: KernelOp) -> Iterator[KernelOp]:
        """The kernels that nobody else reads, and whose merge may pay with others."""
        for value in dict.fromkeys(kernel.inputs):
            producer = value.owner
            if not isinstance(producer, KernelOp) or producer.parent is not self.last.parent:
                continue
            readers = {u.operation for r in producer.results for u in r.uses}
            if not readers <= {*self.members, *self.built} or len(producer.results) != 1:
                continue
            if not self._may_pay(producer, kernel):
                continue
            if self.merges.copied(producer, kernel) > MAX_COPIED:
                continue
            if self.obstacle(producer, [*self._readers(producer), self.last]) is None:
                yield producer

    def _readers(self, producer: KernelOp) -> list[KernelOp]:
        """The kernels as they were that read the result of one."""
        readers = {use.operation for result in producer.results for use in result.uses}
        return [member for member in self.members if member in readers]

    def _may_pay(self, producer: KernelOp, kernel: KernelOp) -> bool:
        """True if one kernel is the last of a diamond, or both may be parts of a cascade."""
        if len(self._readers(producer)) > 1 or _are_two_of_three(producer, kernel):
            return True
        return self.merges.facts(producer if kernel is self.last else kernel).cascades


def _are_two_of_three(producer: KernelOp, kernel: KernelOp) -> bool:
    """True if what a kernel computes is read by both of two, of which one reads the other."""
    return any(isinstance(v.owner, KernelOp) for v in {*producer.inputs} & {*kernel.inputs})
