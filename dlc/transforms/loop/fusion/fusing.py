"""Merging the kernels of a block, one with another, while that pays; see `Fusion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.updates import changed_by
from dlc.dialects.loop import KernelOp
from dlc.remarks import remark
from dlc.schedule.estimate import beside_seconds
from dlc.schedule.heuristics import seconds_together
from dlc.target import Target
from dlc.text import unique_name
from dlc.transforms.loop.fusion.apart import swept_apart
from dlc.transforms.loop.fusion.beside import pairs
from dlc.transforms.loop.fusion.chaining import chain_into
from dlc.transforms.loop.fusion.concatenating import Piece, in_pieces
from dlc.transforms.loop.fusion.merge_order import STAGES, Stage, anything, chains, folds, follows
from dlc.transforms.loop.fusion.merging import MAX_COPIED, MAX_OPS, Facts, Merged, Merges
from dlc.transforms.loop.fusion.naming import joined_name, name_of
from dlc.transforms.loop.fusion.side_by_side import copied_by, groups_in, moved
from dlc.transforms.loop.fusion.storing import earliest, stand_first
from dlc.transforms.loop.fusion.together import together
from dlc.transforms.loop.fusion.wishes import (
    check_groups,
    demanded,
    forbidden,
    planned,
    share_a_group,
)


@dataclass(frozen=True)
class _Trial:
    """A merge that was estimated; seconds of all kernels concerned."""

    producer: KernelOp
    consumers: tuple[KernelOp, ...]
    merged: float
    apart: float
    is_bound: bool = False
    """True if `merged` is a lower bound, which was enough to tell that the merge does not pay."""

    @property
    def saved(self) -> float:
        """Seconds."""
        return self.apart - self.merged

    def __str__(self) -> str:
        names = ", ".join(f"@{kernel.name_}" for kernel in self.consumers)
        least = "at least " if self.is_bound else ""
        times = f"{least}{self.merged * 1e6:.1f} us instead of {self.apart * 1e6:.1f} us"
        return f"merged @{self.producer.name_} into {names}: {times}"


@dataclass
class Fusion:
    """
    Fuses the kernels of one block, in the stages of `dlc.transforms.loop.fusion.merge_order`. In
    each, producers are tried from the last to the first, so that a chain is one consumer by the
    time that its head is tried.
    """

    block: Block
    target: Target
    name: str
    elsewhere: AbstractSet[str]
    """The names of kernels of other blocks."""

    def __post_init__(self) -> None:
        self.merges = Merges(self.target)
        self.merges.normalize(self._kernels())
        self.groups = planned(self._kernels())
        self.kept: dict[KernelOp, str | _Trial] = {}
        self.history: dict[KernelOp, tuple[str, ...]] = {}
        """The merges that made a kernel."""
        self.tried: set[tuple[KernelOp, ...]] = set()
        self.forces = False
        """True if merges that shall be done are, though they do not pay: after all those that do"""
        self.names = {k.name_ for k in self._kernels()} | self.elsewhere
        self.places: dict[KernelOp, int] = {}
        """Where the kernels that are tried one after the other stand."""

    def run(self) -> None:
        for stage in STAGES:
            if stage is follows:
                for kernel in list(self._kernels()):
                    self._try_in_pieces(kernel)
            while any([self._try(k, stage) for k in self._from_the_last()]):
                pass
        while any([self._try_together(k) for k in reversed(list(self._kernels()))]):
            pass
        self.forces = True
        while any([self._try(k, anything) for k in self._from_the_last()]):
            pass
        while any([self._try_storing(k) for k in reversed(list(self._kernels()))]):
            pass
        while self._try_beside():
            pass
        while self._try_side_by_side():
            pass
        self._rename()
        check_groups(self.groups, list(self._kernels()), self.kept)
        for kernel in self._kernels():
            self.merges.fill(kernel)
            for text in dict.fromkeys(self.history.get(kernel, ())):
                remark(self.name, kernel.name_, text)
            for text in swept_apart(kernel):
                remark(self.name, kernel.name_, text)
            if kernel in self.kept:
                remark(self.name, kernel.name_, f"kept apart: {self.kept[kernel]}")

    def _rename(self) -> None:
        """Names kernels after the program's operations, one of each structure first."""
        kernels = list(self._kernels())
        firsts = {self.merges.form(k): k for k in reversed(kernels)}
        self.names = {*self.elsewhere}
        for kernel in sorted(kernels, key=lambda k: firsts[self.merges.form(k)] is not k):
            name = unique_name(name_of(kernel), self.names)
            kernel.sym_name = StringAttr(name)

    def _from_the_last(self) -> Iterator[KernelOp]:
        """The kernels as they are now, those last that others read."""
        kernels = list(self._kernels())
        self.places = {kernel: n for n, kernel in enumerate(kernels)}
        return reversed(kernels)

    def _kernels(self) -> Iterator[KernelOp]:
        return (op for op in self.block.ops if isinstance(op, KernelOp))

    def _try(self, producer: KernelOp, stage: Stage) -> bool:
        """Merges `producer` into its consumers if the stage allows it, it is legal and it pays."""
        users = dict.fromkeys(u.operation for r in producer.results for u in r.uses)
        # A body computes again and again: what is computed before it stays there.
        consumers = [u for u in users if isinstance(u, KernelOp) and u.parent is self.block]
        if not consumers:
            return False
        must = self.forces and demanded(producer, consumers)
        if (producer, *consumers) in self.tried and not must:
            return False
        if (obstacle := self._obstacle(producer, consumers)) is not None:
            self.kept[producer] = obstacle
            return False
        if not all(stage(self.merges, producer, c) for c in consumers):
            return False
        if stage is chains and self._chained(producer, consumers[0]):
            return True
        self.tried.add((producer, *consumers))
        stays = len(users) > len(consumers)
        old = [*consumers] if stays else [*consumers, producer]
        trial, merged = self._merged(producer, consumers, old, must=must)
        if isinstance(trial, str) or len(merged) < len(consumers):
            self.kept[producer] = trial
            return False
        if (
            len(users) > 1
            and self.merges.facts(producer).reduces
            and not demanded(producer, consumers)
        ):
            stored = self._storing(producer)
            if stored is not None and stored[0].saved > trial.saved:
                self._store(*stored)
                return True
        for consumer, new in zip(consumers, merged, strict=True):
            self._replace([producer], consumer, new, str(trial), rename=not stays)
        if not stays:
            self._erase(producer)
        return True

    def _chained(self, producer: KernelOp, last: KernelOp) -> bool:
        """Merges `producer` and what it reads into `last` in one step, if that pays."""
        if self.groups:  # what a plan says is looked at for each merge
            return False
        producers = chain_into(last, producer, self.places, self.merges, self._obstacle)
        if len(producers) < 2:
            return False
        merged = self.merges.merge_all(producers, last)
        seconds = self.merges.facts_of(merged).seconds
        apart = sum(self.merges.facts(k).seconds for k in (*producers, last))
        if seconds >= apart:
            return False
        names = ", ".join(f"@{kernel.name_}" for kernel in producers)
        times = f"{seconds * 1e6:.1f} us instead of {apart * 1e6:.1f} us"
        told = f"merged {names} into @{last.name_}: {times}"
        self._replace(producers, last, merged, told, rename=True)
        for kernel in producers:
            self._erase(kernel)
        return True

    def _merged(
        self,
        producer: KernelOp,
        consumers: Sequence[KernelOp],
        old: Sequence[KernelOp],
        *,
        must: bool,
    ) -> tuple[_Trial | str, list[Merged]]:
        """
        The merge of `producer` into each of its consumers, which take the place of `old`, or why it
        is not done: then there are fewer. One that does not pay ends where that is known, unless it
        `must` be done: no kernel takes less than a launch, or than what it must repeat.
        """
        apart = sum(self.merges.facts(k).seconds for k in old)
        must_pay = not must and not self.merges.facts(producer).copies
        least = [self.target.launch_seconds for _ in consumers]
        for number, consumer in enumerate(consumers if must_pay else ()):
            least[number] = self.merges.least_seconds(producer, consumer)
            if sum(least) >= apart:
                return _Trial(producer, tuple(consumers), sum(least), apart, is_bound=True), []
        merged: list[Merged] = []
        seconds = 0.0
        for number, consumer in enumerate(consumers, 1):
            if (found := self.merges.merge(producer, consumer)) is None:
                return "it scans, and what reads it does not follow it point by point", []
            facts = self.merges.facts_of(found)
            if facts.size > MAX_OPS:
                return f"merged, a kernel would have {facts.size} operations", []
            seconds += facts.seconds
            if must_pay and (known := seconds + sum(rest := least[number:])) >= apart:
                return _Trial(producer, tuple(consumers), known, apart, bool(rest)), []
            merged.append(found)
        if must_pay and self._share_a_launch(producer, consumers):
            costs = [self.merges.facts_of(found).cost for found in merged]
            own = beside_seconds([self.merges.facts(k).cost for k in consumers], self.target)
            for consumer in consumers:
                self.merges.fill(consumer)
            tiled = seconds_together(consumers, self.target)
            apart = own if tiled is None else min(own, tiled)
            apart += sum(self.merges.facts(k).seconds for k in old if k not in consumers)
            seconds = beside_seconds(costs, self.target)
            if seconds >= apart:
                return _Trial(producer, tuple(consumers), seconds, apart), []
        return _Trial(producer, tuple(consumers), seconds, apart), merged

    def _share_a_launch(self, producer: KernelOp, consumers: Sequence[KernelOp]) -> bool:
        """True if products of rows that are folded read the same, as queries, keys and values do:
        their launches are joined, with the fold in them or without."""
        products = all(self.merges.facts(consumer).operands for consumer in consumers)
        return len(consumers) > 1 and products and self.merges.facts(producer).reduces

    def _obstacle(self, producer: KernelOp, consumers: Sequence[KernelOp]) -> str | None:
        """The reason why a kernel is not merged into those that read its result, if any."""
        if (reason := forbidden(producer, consumers)) is not None:
            return reason
        updating = [c for c in consumers if c.updates is not None]
        if any(producer.outputs[0] in c.updated_of(c.inputs) for c in updating):
            return "its result is updated in place"
        if any(changed_by(consumer, producer.inputs) for consumer in consumers):
            return "it reads what is updated in place before its result is read"
        if (reason := self.merges.facts(producer).obstacle) is not None:
            return reason
        return next(filter(None, (self._copies(producer, c) for c in consumers)), None)

    def _copies(self, producer: KernelOp, consumer: KernelOp) -> str | None:
        """The reason not to merge two kernels, if that would copy too much."""
        copied = self.merges.copied(producer, consumer)
        return f"merged, {copied} operations would be copied" if copied > MAX_COPIED else None

    def _try_together(self, last: KernelOp) -> bool:
        """Merges into `last` what it reads, and what that reads, if all of it pays together."""
        found = together(last, self.merges, self._obstacle) if last.parent else None
        if found is None:
            return False
        times = f"{found.seconds * 1e6:.1f} us instead of {found.apart * 1e6:.1f} us"
        names = ", ".join(f"@{producer.name_}" for producer, _ in reversed(found.steps))
        told = f"merged {names} into @{last.name_}, which pays together: {times}"
        for producer, merged in found.steps:
            last = self._replace([producer], last, merged, told, rename=True)
            self._erase(producer)
        return True

    def _try_in_pieces(self, kernel: KernelOp) -> None:
        """
        Has the kernels that reduce what `kernel` stores piece by piece, and nobody else reads,
        store their pieces themselves, if that pays more than merging one of them into it.
        """
        producers = {v: p for v in kernel.inputs if (p := self._folded_for(kernel, v))}
        if not producers:
            return
        self.merges.fill(kernel)
        if not (found := in_pieces(kernel, list(producers))):
            return
        merged = [self._piece_merged(piece, producers) for piece in found]
        seconds = sum(facts.seconds for facts, _ in merged)
        otherwise = self._seconds_whole(kernel, list(producers.values()))
        if seconds >= otherwise or any(facts.size > MAX_OPS for facts, _ in merged):
            for piece in reversed(found):
                piece.kernel.erase()
            return
        times = f"{seconds * 1e6:.1f} us instead of {otherwise * 1e6:.1f} us"
        told = f"stored in {len(found)} pieces, by what computes them: {times}"
        self.names.discard(kernel.name_)
        for piece in found:
            Rewriter.insert_op(piece.kernel, InsertPoint.before(kernel))
            piece.kernel.sym_name = StringAttr(unique_name(kernel.name_, self.names))
            self.history[piece.kernel] = (*self.history.get(kernel, ()), told)
        Rewriter.replace_op(kernel, [], found[-1].kernel.results)
        for piece, (_, new) in zip(found, merged, strict=True):
            if piece.tensor is not None and new is not None:
                producer = producers[piece.tensor]
                self._replace([producer], piece.kernel, new, told, rename=True)
                self._erase(producer)

    def _try_beside(self) -> bool:
        """Has one kernel do what two do at the same points, if both read a tensor and that pays."""
        kernels = list(self._kernels())
        for kernel in kernels:
            self.merges.fill(kernel)
        for earlier, later in pairs(kernels):
            users = {use.operation for use in earlier.results[0].uses}
            readers = {op for u in users if (op := self.block.find_ancestor_op_in_block(u))}
            facts = [self.merges.facts(kernel) for kernel in (earlier, later)]
            if all(f.operands for f in facts) or forbidden(earlier, [later]):
                continue  # two products of one operand: their tilings are theirs
            if changed_by(later, earlier.inputs):
                continue
            if later not in stand_first({later, *readers}):
                continue
            merged = self.merges.put_beside(earlier, later)
            found, apart = self.merges.facts_of(merged), sum(f.seconds for f in facts)
            must = share_a_group(earlier, later)
            if found.size <= MAX_OPS and (must or found.seconds < apart):
                self._store(_Trial(earlier, (later,), found.seconds, apart), merged)
                return True
        return False

    def _try_side_by_side(self) -> bool:
        """Stores in one tensor what is read as parts of one, if that does not cost anything."""
        kernels = list(self._kernels())
        for kernel in kernels:
            self.merges.fill(kernel)
        for group in groups_in(kernels):
            found = moved(group, kernels)
            seconds = sum(self.merges.facts(k).seconds for k in found.values())
            if seconds > sum(self.merges.facts(k).seconds for k in found):
                for kernel in reversed(found.values()):
                    kernel.erase()
                continue
            told = f"stored in one tensor, as parts of which {len(group.places)} are read"
            for old, new in found.items():
                Rewriter.insert_op(new, InsertPoint.before(old))
                self.history[new] = (*self.history.get(old, ()), told)
                if old in self.kept:
                    self.kept[new] = self.kept[old]
                if old.outputs[0] not in group.places:
                    for output, other in zip(old.outputs, new.outputs, strict=True):
                        output.replace_all_uses_with(other)
            for old in reversed(found):
                old.detach()
                old.erase()
            for new in found.values():
                if (whole := copied_by(new)) is not None:
                    new.outputs[0].replace_all_uses_with(whole)
                    self._erase(new)
            return True
        return False

    def _folded_for(self, kernel: KernelOp, tensor: SSAValue) -> KernelOp | None:
        """The kernel that folds a tensor which `kernel` alone reads, if it may be merged."""
        producer = tensor.owner
        if not isinstance(producer, KernelOp) or producer.parent is not self.block:
            return None
        if {use.operation for use in tensor.uses} != {kernel}:
            return None
        facts = self.merges.facts(producer)
        if not facts.reduces or facts.scans or self._obstacle(producer, [kernel]):
            return None
        return producer

    def _piece_merged(
        self, piece: Piece, producers: Mapping[SSAValue, KernelOp]
    ) -> tuple[Facts, Merged | None]:
        """A piece, computed by what makes the tensor that it reads."""
        if piece.tensor is None:
            return self.merges.facts(piece.kernel), None
        merged = self.merges.merge(producers[piece.tensor], piece.kernel)
        assert merged is not None, "a piece reads what is folded, not what is scanned"
        return self.merges.facts_of(merged), merged

    def _seconds_whole(self, kernel: KernelOp, producers: Sequence[KernelOp]) -> float:
        """The seconds of kernels with at most one of the producers merged into their reader."""
        seconds = {k: self.merges.facts(k).seconds for k in (kernel, *producers)}
        found = ((p, self.merges.merge(p, kernel)) for p in producers)
        saved = (
            seconds[p] + seconds[kernel] - self.merges.facts_of(merged).seconds
            for p, merged in found
            if merged is not None
        )
        return sum(seconds.values()) - max(0.0, *saved)

    def _erase(self, producer: KernelOp) -> None:
        self.names.discard(producer.name_)
        producer.detach()
        producer.erase()

    def _try_storing(self, producer: KernelOp) -> bool:
        """
        Merges `producer`, whose result several operations read, into the one of them with which
        that pays most, which stores it for the others.
        """
        if (found := self._storing(producer)) is None:
            return False
        trial, merged = found
        (consumer,) = trial.consumers
        if trial.merged >= trial.apart and not demanded(producer, [consumer]):
            return False
        self._store(trial, merged)
        return True

    def _storing(self, producer: KernelOp) -> tuple[_Trial, Merged] | None:
        """The best merge of `producer` into one of those that read its result, if any is legal."""
        uses = [use.operation for result in producer.results for use in result.uses]
        users = {op for use in uses if (op := self.block.find_ancestor_op_in_block(use))}
        if len(users) < 2:
            return None
        found: list[tuple[_Trial, Merged]] = []
        for consumer in stand_first(users):
            if consumer.updated_refs or self._obstacle(producer, [consumer]) is not None:
                continue
            if (merged := self.merges.merge(producer, consumer, stores=True)) is not None:
                facts, apart = self.merges.facts_of(merged), self.merges.facts(producer).seconds
                apart += self.merges.facts(consumer).seconds
                if facts.size <= MAX_OPS:
                    found.append((_Trial(producer, (consumer,), facts.seconds, apart), merged))
        return max(found, key=lambda pair: pair[0].saved, default=None)

    def _store(self, trial: _Trial, merged: Merged) -> None:
        """Does a merge whose kernel stores what the producer did, ahead of all that read it."""
        producer, (consumer,) = trial.producer, trial.consumers
        told, result = f"{trial}, the result of @{producer.name_} stored, too", producer.results[0]
        kernel = self._replace([producer], consumer, merged, told, rename=True)
        result.replace_all_uses_with(kernel.results[-1])
        self._erase(producer)
        readers = {use.operation for use in kernel.results[-1].uses}
        here = earliest({kernel, *filter(None, map(self.block.find_ancestor_op_in_block, readers))})
        if here is not kernel:
            kernel.detach()
            Rewriter.insert_op(kernel, InsertPoint.before(here))

    def _replace(
        self,
        producers: Sequence[KernelOp],
        consumer: KernelOp,
        merged: Merged,
        trial: str,
        *,
        rename: bool,
    ) -> KernelOp:
        kernel = self.merges.build(merged, producers, consumer)
        before = [
            text for k in (*reversed(producers), consumer) for text in self.history.get(k, ())
        ]
        self.history[kernel] = (*before, trial, *merged.remarks)
        name = consumer.name_
        for producer in producers:
            if rename and not folds(self.merges, producer, consumer):
                name = joined_name(producer.name_, name)
        self.names.discard(consumer.name_)
        kernel.sym_name = StringAttr(unique_name(name, self.names))
        Rewriter.replace_op(consumer, kernel, kernel.results[: len(consumer.results)])
        return kernel
