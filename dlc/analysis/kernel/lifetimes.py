"""When the tensors of a program hold data, in steps: launches, and ends of control flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from dlc.diagnostics import fail
from dlc.dialects import flow, kernel


@dataclass
class Lifetimes:
    """
    Where the tensors of a function are, and when these places hold data. A place is named by the
    tensor that is there first: an argument, what a launch gives, what a loop stacks or a branch
    gives.
    """

    places: dict[SSAValue, tuple[SSAValue, ...]] = field(default_factory=dict)
    """The places where a tensor may be: what a loop carries is in one of two."""
    first: dict[SSAValue, int] = field(default_factory=dict)
    last: dict[SSAValue, int] = field(default_factory=dict)
    now: int = 0

    @staticmethod
    def of(function: func.FuncOp) -> Lifetimes:
        """OpError where what a loop carries or stacks, or a branch gives, is no launch's alone."""
        found = Lifetimes()
        found._visit(function.body.block)
        return found

    def _visit(self, block: Block) -> list[SSAValue]:
        """Follows a block; the places that it uses."""
        used: list[SSAValue] = []
        for op in block.ops:
            self.now += 1
            if isinstance(op, kernel.LaunchOp):
                self._update(op)
                for value in (*op.inputs, *op.outputs):
                    used += self._use(value)
            elif isinstance(op, kernel.ViewOp):
                self.places[op.result] = self._places_of(op.source)
            elif isinstance(op, kernel.WholeOp):
                self.places[op.result] = self._places_of(op.view)
            elif isinstance(op, flow.FLOW):
                used += self._control(op)
            elif isinstance(op, flow.YieldOp):
                for value in op.operands:
                    used += self._use(value)
        return used

    def _update(self, op: kernel.LaunchOp) -> None:
        """Outputs that are inputs' memory are where these are."""
        assert op.callee is not None
        pairs = dict(zip(op.callee.refs, (*op.inputs, *op.outputs), strict=True))
        for output, input in op.callee.updated_refs.items():
            places = self._places_of(pairs[input])
            if pairs[output] in self.places:
                what = f"{_shown(pairs[output])}, which lies where {_shown(pairs[input])} does"
                fail(op, f"expected control flow to carry something else than {what}")
            self.places[pairs[output]] = places

    def _places_of(self, value: SSAValue) -> tuple[SSAValue, ...]:
        return self.places.setdefault(value, (value,))

    def _use(self, value: SSAValue) -> Sequence[SSAValue]:
        places = self._places_of(value)
        for place in places:
            self.first.setdefault(place, self.now)
            self.last[place] = self.now
        return places

    def _control(self, op: Operation) -> list[SSAValue]:
        begin = self.now
        through = self._name_places(op)
        used: list[SSAValue] = []
        for value in (*op.operands, *through):
            used += self._use(value)
        for region in op.regions:
            used += self._visit(region.block)
        self.now += 1
        loops = not isinstance(op, flow.IfOp)
        for place in used:
            # What a loop finds when it begins is there in each turn.
            if self.first[place] <= begin and (loops or place in through):
                self.last[place] = self.now
        return used

    def _name_places(self, op: Operation) -> list[SSAValue]:
        """Names the places of what control flow gives; those that hold data to its end."""
        through: list[SSAValue] = []
        if isinstance(op, flow.IfOp):
            for region in op.regions:
                pairs = zip(flow.yielded(region), op.outputs, strict=True)
                for value, result in pairs:
                    self._put(value, region.block, result)
            return [*op.outputs]
        assert isinstance(op, flow.ForOp | flow.WhileOp)
        count, given = len(op.inits), flow.yielded(op.body)
        for number, (init, next) in enumerate(zip(op.inits, given, strict=False)):
            if op.parent is None or not _is_launched_in(init, op.parent):
                fail(op, f"expected to carry what a launch gives for it, found {_shown(init)}")
            self._put(next, op.body.block, next)
            pair = (init, next)
            arguments = [region.block.args[number] for region in op.regions]
            for value in (*arguments, op.last[number]):
                self.places[value] = pair
            through += pair
        if isinstance(op, flow.ForOp):
            for piece, source in zip(op.pieces, op.scanned, strict=True):
                self.places[piece] = self.places.get(source, (source,))
            for value, stack in zip(given[count:], op.stacked, strict=True):
                self._put(value, op.body.block, stack)
                through.append(stack)
        return through

    def _put(self, value: SSAValue, block: Block, place: SSAValue) -> None:
        if not _is_launched_in(value, block) or value in self.places:
            end = block.last_op
            assert end is not None
            fail(
                end,
                f"expected a body that yields what a launch gives for it, found {_shown(value)}",
            )
        self.places[value] = (place,)


def _is_launched_in(value: SSAValue, block: Block) -> bool:
    return isinstance(value.owner, kernel.LaunchOp) and value.owner.parent is block


def _shown(value: SSAValue) -> str:
    return f"%{value.name_hint or 'value'}"
