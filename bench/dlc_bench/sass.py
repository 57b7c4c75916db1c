"""
What ptxas made of a kernel: its SASS, by nvdisasm, and the loop where its time goes.

Loops are the natural loops of the control flow graph (Aho, Lam, Sethi, Ullman: "Compilers",
section 9.6): a branch back is one only where its target dominates it, so that the jumps back out of
the slow paths that ptxas moves to the end of a kernel are none. Mnemonics are those of NVIDIA's
"CUDA Binary Utilities".
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import itertools
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dlc.backend import BackendError
from dlc.backend.cache import content_key, lookup_or_build
from dlc.backend.cuda.run.nvcc import find_tool

_WHEEL = "nvidia-cuda-nvdisasm"
_INSTALL = f"install the CUDA toolkit, or the wheel with: pip install '{_WHEEL}==13.2.51'"

ACCESSES = ("LDG", "STG", "LDS", "STS", "LDGSTS", "LDL", "STL", "LD", "ST")
"""Accesses of global, shared, both (cp.async), local and unknown memory, each with its width."""
TENSOR_ACCESSES = ("UTMALDG", "UTMASTG", "UTMAREDG")
"""Copies of whole boxes, by the TMA unit."""
FMA = ("FFMA", "FFMA2")
_FLOAT = (*FMA, "FADD", "FADD2", "FMUL", "FMUL2", "FMNMX", "FMNMX3", "FSETP", "MUFU")
_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_TRIPS = 8
"""How often a loop is taken to run, to weigh it against the loops around it."""

_SECTION = re.compile(r'\s*\.section\s+\.text\.([^,\s"]+)')
_LABEL = re.compile(r"(\.L_\w+):")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P[T\d]+)\s+)?([A-Z][\w.]*)([^;]*)")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_ENDS = ("EXIT", "RET", "BRX", "JMP", "JMX", "KILL")


@dataclass(frozen=True)
class Instruction:
    """One line of SASS."""

    predicate: str
    """Such as `@!P0`, or empty."""
    mnemonic: str
    """With modifiers, such as `LDG.E.128.CONSTANT`."""
    operands: str

    @property
    def opcode(self) -> str:
        return self.mnemonic.partition(".")[0]

    @property
    def runs(self) -> bool:
        """False for ptxas's dummies, whose predicate is never true (`@!PT LDS RZ, [RZ]`)."""
        return self.predicate not in ("@!PT", "@!UPT")

    @property
    def access(self) -> tuple[str, int] | None:
        """The kind and the width in bits of a memory access; 0 bits for boxes of the TMA unit."""
        if not self.runs:
            return None
        if self.opcode in TENSOR_ACCESSES:
            return self.opcode, 0
        if self.opcode not in ACCESSES:
            return None
        widths = [_BITS[part] for part in self.mnemonic.split(".") if part in _BITS]
        return self.opcode, widths[-1] if widths else 32

    @property
    def target(self) -> str | None:
        """The label that a branch names."""
        found = _TARGET.search(self.operands)
        return found[1] if found else None

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may follow."""
        if self.opcode == "BRA":  # the condition is a predicate or an operand before the label
            return bool(self.predicate) or not self.operands.startswith("`")
        return self.opcode not in _ENDS or bool(self.predicate)


@dataclass(frozen=True)
class Loop:
    """A natural loop, of basic blocks by number."""

    header: int
    blocks: frozenset[int]
    depth: int
    """1 for a loop that is in no other."""


@dataclass(frozen=True)
class Function:
    """The SASS of a kernel."""

    name: str
    instructions: list[Instruction]
    labels: dict[str, int]
    """The number of the instruction after each label."""

    @cached_property
    def blocks(self) -> list[range]:
        """Basic blocks, as numbers of instructions."""
        count = len(self.instructions)
        starts = {0, *self.labels.values()}
        for number, instruction in enumerate(self.instructions):
            if instruction.opcode in ("BRA", "BSYNC", *_ENDS):
                starts.add(number + 1)
        edges = [*sorted(start for start in starts if start < count), count]
        return [range(start, end) for start, end in itertools.pairwise(edges)]

    @cached_property
    def successors(self) -> list[set[int]]:
        """
        The blocks that may follow each block. A BSYNC goes on where the BSSY before it with the
        same barrier register says; calls come back.
        """
        block_at = {span.start: number for number, span in enumerate(self.blocks)}
        joins: dict[str, str | None] = {}
        result: list[set[int]] = []
        for number, span in enumerate(self.blocks):
            for instruction in self.instructions[span.start : span.stop]:
                if instruction.opcode == "BSSY":
                    joins[instruction.operands.split(",")[0]] = instruction.target
            last, label, falls = self.instructions[span[-1]], None, True
            if last.opcode == "BRA":
                label, falls = last.target, last.falls_through
            elif last.opcode == "BSYNC":
                label = joins.get(last.operands)
                falls = label is None
            else:
                falls = last.falls_through
            following = {block_at[self.labels[label]]} if label in self.labels else set[int]()
            if falls and number + 1 < len(self.blocks):
                following.add(number + 1)
            result.append(following)
        return result

    @cached_property
    def loops(self) -> list[Loop]:
        """All loops in the order of their headers."""
        if not self.blocks:
            return []
        dominator = _dominators(self.successors)
        before: dict[int, set[int]] = {}
        for block in dominator:
            for after in self.successors[block]:
                before.setdefault(after, set()).add(block)
        bodies: dict[int, set[int]] = {}
        for block in dominator:
            for header in self.successors[block]:
                if _dominates(header, block, dominator):
                    body = bodies.setdefault(header, {header})
                    body |= _reaching(block, header, before)
        return [
            Loop(header, frozenset(body), sum(body <= other for other in bodies.values()))
            for header, body in sorted(bodies.items())
        ]

    def body(self, loop: Loop) -> list[Instruction]:
        """What one round executes: the instructions of the loop that are in no loop within it."""
        inner = [other.blocks for other in self.loops if other.blocks < loop.blocks]
        return [
            self.instructions[number]
            for block in sorted(loop.blocks.difference(*inner))
            for number in self.blocks[block]
            if self.instructions[number].runs
        ]

    @cached_property
    def hot_loop(self) -> Loop | None:
        """
        Where the time goes, told without running: the loop with the most multiply-adds in its own
        body, those of inner loops counting as eight rounds; without multiply-adds, the most other
        floating-point operations, then instructions. None where there is no loop.
        """
        for opcodes in (FMA, _FLOAT, None):
            weights = {loop: self._weight(loop, opcodes) for loop in self.loops}
            if any(weights.values()):
                return max(weights, key=lambda loop: weights[loop])
        return None

    def _weight(self, loop: Loop, opcodes: Collection[str] | None) -> int:
        counted = [i for i in self.body(loop) if opcodes is None or i.opcode in opcodes]
        return len(counted) * _TRIPS**loop.depth


def accesses(instructions: Iterable[Instruction]) -> Counter[tuple[str, int]]:
    """How many memory accesses there are of each kind and width in bits."""
    return Counter(found for i in instructions if (found := i.access) is not None)


def fma_share(instructions: Collection[Instruction]) -> float:
    """The share of fp32 multiply-adds in what is issued; 0 where nothing is."""
    return sum(i.opcode in FMA for i in instructions) / max(1, len(instructions))


def _dominators(successors: list[set[int]]) -> dict[int, int]:
    """
    The immediate dominator of every block that can be reached from block 0, in reverse postorder
    (Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm").
    """
    order: list[int] = []
    seen, stack = {0}, [(0, iter(sorted(successors[0])))]
    while stack:
        block, rest = stack[-1]
        after = next((s for s in rest if s not in seen), None)
        if after is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(sorted(successors[after]))))
    order.reverse()
    rank = {block: number for number, block in enumerate(order)}
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for after in successors[block]:
            before[after].append(block)
    found = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [b for b in before[block] if b in found]
            common = known[0]
            for other in known[1:]:
                while common != other:
                    if rank[common] > rank[other]:
                        common = found[common]
                    else:
                        other = found[other]
            changed |= found.get(block) != common
            found[block] = common
    return {block: found[block] for block in order}


def _dominates(one: int, other: int, dominator: Mapping[int, int]) -> bool:
    while other != one and dominator[other] != other:
        other = dominator[other]
    return other == one


def _reaching(block: int, stop: int, before: Mapping[int, set[int]]) -> set[int]:
    """The blocks from which `block` can be reached without passing `stop`."""
    found, stack = {stop}, [block]
    while stack:
        block = stack.pop()
        if block not in found:
            found.add(block)
            stack.extend(before.get(block, ()))
    return found


def parse(text: str) -> list[Function]:
    """The kernels in what `nvdisasm -c` prints."""
    functions: list[Function] = []
    for line in text.splitlines():
        if section := _SECTION.match(line):
            functions.append(Function(section[1], [], {}))
        elif not functions:
            continue
        elif label := _LABEL.match(line):
            functions[-1].labels[label[1]] = len(functions[-1].instructions)
        elif found := _INSTRUCTION.match(line):
            predicate, mnemonic, operands = found.groups()
            instruction = Instruction(predicate or "", mnemonic, operands.strip())
            functions[-1].instructions.append(instruction)
    return functions


def find_nvdisasm() -> Path:
    """
    nvdisasm from PATH or a toolkit, else from the installed wheel. BackendError says what to
    install if there is none.
    """
    if found := find_tool("nvdisasm"):
        return found
    try:
        files = importlib.metadata.files(_WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.parts[-2:] in (("bin", "nvdisasm"), ("bin", "nvdisasm.exe")):
            return Path(str(file.locate())).resolve()
    raise BackendError(f"nvdisasm was not found on PATH, in $CUDA_HOME or as a wheel; {_INSTALL}")


def disassemble(cubin: Path) -> str:
    """The SASS of a cubin as text, cached by content. BackendError with nvdisasm's message."""
    tool = find_nvdisasm()
    content = hashlib.sha256(cubin.read_bytes()).hexdigest()

    def build(directory: Path) -> dict[str, int]:
        (directory / "kernel.sass").write_text(_run(tool, "-c", str(cubin)))
        return {}

    key = content_key(content, str(tool), _version(tool))
    return lookup_or_build("sass", key, "kernel.sass", build).path.read_text()


@functools.cache
def _version(tool: Path) -> str:
    return _run(tool, "--version")


def _run(tool: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(tool), *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = (done.stderr + done.stdout).strip() or f"exit code {done.returncode}"
        raise BackendError(f"{tool} {' '.join(arguments)} fails: {said}")
    return done.stdout
