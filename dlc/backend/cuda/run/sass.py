"""
What ptxas made of a kernel: its SASS, by nvdisasm, and the loop where its time goes.

A loop is what stands between a branch back and its target. Behind the end of a kernel, ptxas puts
slow paths, which jump back into it, and subroutines, which end in RET: they have no loops that
count. Mnemonics are those of NVIDIA's "CUDA Binary Utilities".
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dlc.backend import BackendError
from dlc.backend.cache import content_key, lookup_or_build
from dlc.backend.cuda.run.tools import find_tool

_WHEEL = "nvidia-cuda-nvdisasm"
_INSTALL = f"install the CUDA toolkit, or the wheel with: pip install '{_WHEEL}==13.2.51'"

ACCESSES = ("LDG", "STG", "LDS", "STS", "LDGSTS", "LDL", "STL", "LD", "ST")
"""Accesses of global, shared, both (cp.async), local and unknown memory, each with its width."""
LOCAL = ("LDL", "STL")
"""Accesses of local memory: of arrays that are indexed, and of registers that are spilled."""
TENSOR_ACCESSES = ("UTMALDG", "UTMASTG", "UTMAREDG")
"""Copies of whole boxes, by the TMA unit."""
FMA = ("FFMA", "FFMA2")
TENSOR = ("HMMA", "IMMA", "QMMA", "HGMMA")
"""Products of matrices on tensor cores."""
_FLOAT = (*FMA, "FADD", "FADD2", "FMUL", "FMUL2", "FMNMX", "FMNMX3", "FSETP", "MUFU")
_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
_TRIPS = 8
"""How often a loop is taken to run, to weigh it against the loops around it."""

SECTION = re.compile(r'\s*\.section\s+\.text\.([^,\s"]+)')
LABEL = re.compile(r"(\.L_\w+):")
INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P[T\d]+)\s+)?([A-Z][\w.]*)([^;]*)")
_TARGET = re.compile(r"`\((\.L_\w+)\)")


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
    def ends(self) -> bool:
        """True if nothing runs after it."""
        return self.opcode in ("EXIT", "RET") and not self.predicate


@dataclass(frozen=True)
class Loop:
    """The instructions from the target of branches back to the last of these."""

    span: range
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
    def loops(self) -> list[Loop]:
        """All loops in the order of their beginnings."""
        spans: dict[int, range] = {}
        for number, instruction in enumerate(self.instructions):
            start = self.labels.get(instruction.target or "", number + 1)
            if instruction.opcode == "BRA" and start <= number < self._exit_after(start):
                spans[start] = range(start, number + 1)
        return [
            Loop(span, sum(_is_in(span, other) for other in spans.values()))
            for _, span in sorted(spans.items())
        ]

    def _exit_after(self, start: int) -> int:
        """The number of the instruction that ends what begins at `start`; -1 if it is no EXIT."""
        for number in range(start, len(self.instructions)):
            if self.instructions[number].ends:
                return number if self.instructions[number].opcode == "EXIT" else -1
        return -1

    def body(self, loop: Loop) -> list[Instruction]:
        """What one round executes: the instructions of the loop that are in no loop within it."""
        inner = [
            other.span for other in self.loops if other != loop and _is_in(other.span, loop.span)
        ]
        return [
            self.instructions[number]
            for number in loop.span
            if self.instructions[number].runs and not any(number in span for span in inner)
        ]

    @cached_property
    def hot_loop(self) -> Loop | None:
        """
        Where the time goes, told without running: the loop with the most products of matrices in
        its own body, those of inner loops counting as eight rounds; without any, the most
        multiply-adds, then other floating-point operations, then instructions. None where there is
        no loop.
        """
        for opcodes in (TENSOR, FMA, _FLOAT, None):
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


def _is_in(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def parse(text: str) -> list[Function]:
    """The kernels in what `nvdisasm -c` prints."""
    functions: list[Function] = []
    for line in text.splitlines():
        if section := SECTION.match(line):
            functions.append(Function(section[1], [], {}))
        elif not functions:
            continue
        elif label := LABEL.match(line):
            functions[-1].labels[label[1]] = len(functions[-1].instructions)
        elif found := INSTRUCTION.match(line):
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


def disassemble(cubin: Path, *options: str) -> str:
    """
    The SASS of a cubin as text, cached by content; by further options of nvdisasm's, if given.
    BackendError with nvdisasm's message.
    """
    tool = find_nvdisasm()
    content = hashlib.sha256(cubin.read_bytes()).hexdigest()

    def build(directory: Path) -> dict[str, int]:
        (directory / "kernel.sass").write_text(_run(tool, "-c", *options, str(cubin)))
        return {}

    key = content_key(content, str(tool), _version(tool), *options)
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
