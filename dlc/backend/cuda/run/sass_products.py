"""
Whether SASS leaves alone what products of warpgroups are still adding to.

HGMMA and the like are asynchronous: between one and the wait for it, `WARPGROUP.DEPBAR.LE gsb0, N`,
its sums are in no state to be read or written but by products that add to the same ones, and its
factors that lie in registers are not to be written. ptxas 13.0 has broken the first of texts that
are right (bench/NOTES.md), which only a GPU shows, by wrong numbers.

An HGMMA with the operand `gsb0` closes a group, of all before it that are in none; a wait for N
leaves the newest N groups unfinished, and an open one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlc.backend import BackendError
from dlc.backend.cuda.run.sass import Function, Instruction, disassemble, parse

_PRODUCTS = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")
_OLDEST = 16
"""Groups behind which no more are told apart; more than a wait can leave unfinished."""

_SHAPE = re.compile(r"\.64x(\d+)x\d+")
_WAIT = re.compile(r"gsb0, (0x[0-9a-f]+|\d+)")
_REGISTER = re.compile(r"(?<![\w.])R(\d+)")
_PREDICATE = re.compile(r"U?P[T\d]")
_WIDTH = re.compile(r"\.(64|128|256)\b")
_LEFT = ("ST", "RED", "ATOMS", "UT")
"""How instructions begin whose first operand is no result."""
_MATRICES = {"HMMA": (4, 4, 2, 4), "IMMA": (4, 4, 2, 4), "QMMA": (4, 4, 2, 4)}
_CALLS = ("CALL", "BRX", "JMX", "JMP", "BRXU", "JMXU")
"""What goes where the listing does not say, or on elsewhere."""


@dataclass(frozen=True)
class Early:
    """An access of what a product may not have finished with."""

    access: Instruction
    at: int
    """Its number."""
    product: Instruction
    register: int

    def __str__(self) -> str:
        a, p = (f"{i.mnemonic} {i.operands}" for i in (self.access, self.product))
        return f"{a}, instruction {self.at}, accesses R{self.register} before {p} is waited for"


@dataclass(frozen=True)
class _Use:
    """Of a register by a product that is not finished: the least age on any way here."""

    product: int
    sums: bool
    """False for a factor, which may be read."""
    age: int
    """Groups that were closed since the product was asked for, its own among them."""


# A group of products in the printer's texts that is in flight at the end of what it stands in.
_IN_FLIGHT = re.compile(r"\bwgmma_commit\(\);\s*(\}|wgmma_wait<[1-9])")
_State = dict[tuple[int, bool], _Use]
"""By register, and whether it has sums."""


def check_products(source: str, cubin: Path) -> None:
    """
    BackendError if machine code does not leave alone what products are adding to, of a text that
    leaves some in flight: of others, each group is waited for at once. nvdisasm takes 0.4 s.
    """
    if not _IN_FLIGHT.search(source):
        return
    for function in parse(disassemble(cubin)):
        if early := early_accesses(function):
            raise BackendError(
                f"nvcc's machine code of {function.name} is wrong (kept in {cubin}): {early[0]}; "
                "take another nvcc, or leave `products` out of its pipeline-k-outer"
            )


def early_accesses(function: Function) -> list[Early]:
    """What accesses sums, or writes factors, of products that may not have been waited for."""
    if not any(i.opcode in _PRODUCTS for i in function.instructions):
        return []
    states: dict[int, _State] = {0: {}}
    found: dict[int, Early] = {}
    waiting = [0]
    while waiting:
        at = waiting.pop()
        state = states[at]
        if early := _early(function, at, state):
            found[at] = early
        after = _after(function.instructions[at], at, state)
        for to in _next(function, at):
            if to not in states or _join(states[to], after):
                states.setdefault(to, dict(after))
                waiting.append(to)
    return [found[at] for at in sorted(found)]


def _join(into: _State, other: _State) -> bool:
    """Adds what is known on one more way; whether that is anything new."""
    new = {key: use for key, use in other.items() if key not in into or use.age < into[key].age}
    into.update(new)
    return bool(new)


def _next(function: Function, at: int) -> Iterator[int]:
    """The instructions that may follow."""
    here = function.instructions[at]
    ends = here.opcode in ("EXIT", "RET", "BRA", "BRX", "JMP") and not here.predicate
    ends = ends and not (here.opcode == "BRA" and _is_conditional(here))
    if not ends and at + 1 < len(function.instructions):
        yield at + 1
    if here.opcode == "BRA" and here.runs and here.target in function.labels:
        to = function.labels[here.target]
        if to < len(function.instructions):
            yield to


def _is_conditional(branch: Instruction) -> bool:
    """True for `BRA.U UP0, …` and `BRA.DIV UR4, …`, whose condition is an operand."""
    return not branch.operands.startswith("`")


def _after(here: Instruction, at: int, state: _State) -> _State:
    wait = _WAIT.search(here.operands) if here.opcode == "WARPGROUP" else None
    if wait and not here.predicate:  # what need not run has waited for nothing
        left = int(wait[1], 0)
        return {key: use for key, use in state.items() if use.age <= left}
    if here.opcode not in _PRODUCTS or not here.runs:
        return state
    after = dict(state)
    sums, factor = _product(here)
    for registers, are_sums in ((sums, True), (factor, False)):
        after |= {(n, are_sums): _Use(at, are_sums, 0) for n in registers}
    if "gsb0" in here.operands:
        after = {
            key: _Use(use.product, use.sums, min(use.age + 1, _OLDEST))
            for key, use in after.items()
        }
    return after


def _early(function: Function, at: int, state: _State) -> Early | None:
    here = function.instructions[at]
    if not state or not here.runs:
        return None
    if here.opcode in _CALLS:
        use = next(iter(state.values()))
        return Early(here, at, function.instructions[use.product], min(n for n, _ in state))
    for register, written in _accessed(here):
        use = state.get((register, True)) or (state.get((register, False)) if written else None)
        if use is None:
            continue
        product = function.instructions[use.product]
        if use.sums and written and here.opcode in _PRODUCTS:
            if _product(here)[0] == _product(product)[0]:
                continue
        return Early(here, at, product, register)
    return None


def _product(here: Instruction) -> tuple[range, range]:
    """The registers of the sums, and of a factor that lies in some."""
    first, second, *_ = here.operands.split(", ")
    shape = _SHAPE.search(here.mnemonic)
    assert shape is not None, f"expected a shape in {here.mnemonic}"
    packed = ".F16" in here.mnemonic and ".F32" not in here.mnemonic
    count = int(shape[1]) // (4 if packed else 2)
    return _from(first, count), _from(second, 4)


def _from(operand: str, count: int) -> range:
    """So many registers from the one of an operand on; none if it is no register."""
    found = _REGISTER.match(operand)
    return range(int(found[1]), int(found[1]) + count) if found else range(0)


def _accessed(here: Instruction) -> Iterator[tuple[int, bool]]:
    """The registers that an instruction reads or writes, and whether it may write them."""
    if here.opcode in _PRODUCTS:
        sums, factor = _product(here)
        yield from ((n, True) for n in sums)
        yield from ((n, False) for n in factor)
        return
    operands = re.split(r", (?![^\[]*\])", here.operands)
    if ".WIDE" in here.mnemonic and _PREDICATE.fullmatch(operands[1]):  # a carry
        del operands[1]
    results = 0 if here.opcode.startswith(_LEFT) else 1
    if _PREDICATE.fullmatch(operands[0]) and "SETP" not in here.opcode:  # of two results
        results = 2
    for number, operand in enumerate(operands):
        for found in _REGISTER.finditer(operand):
            first = int(found[1])
            written = number < results and "[" not in operand
            for n in range(first, first + _width(here, number, operand, found)):
                yield n, written


def _width(here: Instruction, number: int, operand: str, found: re.Match[str]) -> int:
    """How many registers an operand is, the most that it may be."""
    if "[" in operand:  # an address
        return 2 if operand[found.end() :].startswith(".64") else 1
    if here.opcode in _MATRICES:
        return _MATRICES[here.opcode][min(number, 3)]
    if here.opcode in ("LDSM", "STSM"):
        return int(here.mnemonic[-1]) if here.mnemonic[-1].isdigit() else 1
    if ".WIDE" in here.mnemonic:
        return 2 if number in (0, 3) else 1
    if here.opcode in ("DADD", "DMUL", "DFMA", "DSETP", "CS2R"):
        return 2
    width = _WIDTH.search(here.mnemonic)
    return int(width[1]) // 32 if width else 1
