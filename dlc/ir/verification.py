"""
Verification of a module that changes, pass after pass: what is known to be valid is not looked at
again.

Whether a kernel is valid follows from its structure (`dlc.ir.structure`) alone, as it sees nothing
of what is around it: of two kernels that do the same, and of one that a pass left as it was, the
inside is verified once. All else is verified whenever anything of the module has changed; but what
an operation's IRDL declaration demands, only where something has changed that it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from inspect import getclosurevars

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove, OpTrait
from xdsl.utils.exceptions import VerifyException

from dlc.ir.declared_form import attributes_in, declared_form
from dlc.ir.dominance import verify_dominance
from dlc.ir.structure import structure


class SoundByStructure(Operation):
    """Mixin of operations that are isolated from above, and whose validity is their structure's."""


class Verifier:
    """
    Verifies one module, as often as it changes. Where it `is_compared` with what it was, what has
    not changed is not looked at again: to know that takes a third of the time of looking at all.
    """

    def __init__(self, *, is_compared: bool = True) -> None:
        self._is_compared = is_compared
        self._state: list[object] = []
        self._structures: dict[Operation, Hashable] = {}
        """The structures of the kernels of the module when it was found valid."""
        self._valid: set[Hashable] = set()
        self._declared: dict[Hashable, object] = {}
        """
        The forms of operations whose declarations were found to hold, each with the attributes that
        are named in it by their identities, so that none is another's later.
        """

    def verify(self, module: ModuleOp) -> None:
        """Raises what the verifiers of operations and `verify_dominance` do."""
        if not self._is_compared:
            self._verify(module, frozenset())
            verify_dominance(module)
            return
        structures: dict[Operation, Hashable] = {}
        state = list(_state(module, structures))
        if state == self._state:  # as after half of all passes
            return
        sound: set[Operation] = set()
        valid = self._valid.copy()
        for kernel, key in structures.items():
            # A comparison with what it was is faster than a hash of what it is.
            if self._structures.get(kernel) == key:
                sound.add(kernel)
                continue
            known = len(valid)
            valid.add(key)
            if len(valid) == known:
                sound.add(kernel)
        self._verify(module, sound)
        verify_dominance(module, sound)
        self._valid, self._state, self._structures = valid, state, structures

    def _verify(self, op: Operation, sound: AbstractSet[Operation]) -> None:
        """As `op.verify()`, which is asked wherever something may be wrong, and says what."""
        if op.regions and op not in sound:
            for region in op.regions:
                for block in region.blocks:
                    if block.parent is not region or block.first_op is None:
                        region.verify()
                    for inner in block.ops:
                        if inner.parent is not block:
                            block.verify()
                        self._verify(inner, sound)
        written = _written(type(op).verify_)
        form = None if written is None else declared_form(op)
        if form is None or form not in self._declared:
            op.verify(verify_nested_ops=False)
            if form is not None:
                self._declared[form] = attributes_in(op)
            return
        assert written is not None
        try:
            for trait in _demanding(type(op)):
                trait.verify(op)
            written(op)
        except VerifyException:
            op.verify(verify_nested_ops=False)


@cache
def _written(verify: Callable[[Operation], None]) -> Callable[[Operation], None] | None:
    """
    What a class's verifier does once the declaration is known to hold: what the class's author
    wrote, which `irdl_op_definition` keeps in a closure, or nothing if there is but the
    declaration. None for a verifier that it did not make.
    """
    kept = getclosurevars(verify).nonlocals
    return kept.get("custom_verify", _nothing if [*kept] == ["op_def"] else None)


def _nothing(op: Operation) -> None:
    """Verifies nothing."""


@cache
def _demanding(kind: type[Operation]) -> list[OpTrait]:
    """The traits of a class that verify something; isolation is verified with dominance."""
    return [
        trait
        for trait in kind.traits
        if type(trait).verify is not OpTrait.verify and not isinstance(trait, IsolatedFromAbove)
    ]


def _facts(op: Operation) -> tuple[object, ...]:
    """
    All that an operation's declaration and the rules of terminators speak of; operations and blocks
    equal only themselves.
    """
    block = op.parent
    return (
        [value.type for value in op.operands],
        (*op.successors,),
        op.attributes.copy(),
        op.properties.copy(),
        op.result_types,
        [[(block, block.arg_types) for block in region.blocks] for region in op.regions],
        block,
        (op.parent_op(), block.prev_block, block.next_block) if block and not op.next_op else None,
    )


def _state(op: Operation, structures: dict[Operation, Hashable]) -> Iterator[object]:
    """
    All that verifiers see of an operation, where values equal only themselves. The structures of
    the kernels in it are also put into `structures`.
    """
    yield op
    yield (*op.operands,)
    yield _facts(op)
    if isinstance(op, SoundByStructure):
        structures[op] = structure(op)
        yield structures[op]
        return
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _state(inner, structures)
