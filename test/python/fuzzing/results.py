"""
Random programs that return what they are given, write to, or have views of, in nested structures.

Their arithmetic is exact, so all ways to run one must give what eager PyTorch gives, bit by bit:
values, order, strides, which results share memory with each other and with arguments, which are the
very objects, and what is left in arguments and buffers.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

import dlc
from dlc.backend.export import export_program
from dlc.ir.locations import LocParser
from dlc.pipeline import text_of
from dlc.stages import compiler_context

SHAPES = ((4,), (3, 4), (2, 6), (2, 3, 4), (1, 4), (3, 1), (0, 4), ())
VIEWS = (
    "{}.t() if {}.ndim == 2 else {}.flatten()",
    "{}[0] if {}.ndim else {}",
    "{}[1:] if {}.ndim else {}",
    "{}[..., None]",
    "{}.expand(2, *{}.shape)",
    "{}.reshape(-1)",
    "{}.transpose(0, -1) if {}.ndim else {}",
    "{}.chunk(2, -1)[0] if {}.ndim else {}",
    "{}.detach()",
    "{}.view({}.shape)",
    "{}[..., ::2] if {}.ndim else {}",
    "{}.contiguous()",
)
COMPUTED = (
    "{} + 1",
    "{} * 2",
    "{} - {}",
    "{}.flip(0) if {}.ndim else {} * 3",
    "{}.clone()",
    "{}.sum()",
    "torch.cat([{}.reshape(-1), {}.reshape(-1)])",
    "torch.zeros(3)",
)
WRITES = (
    "{}.add_(1)",
    "{}.mul_(2)",
    "{}.copy_({} + 3)",
    "{}.zero_()",
    "{}[..., :1].add_(5) if {}.ndim else {}.add_(5)",
    "{}.t().mul_(3) if {}.ndim == 2 else {}.mul_(3)",
    "{}.fill_(4)",
    "{}.flatten()[:2].add_(1)",
)
CONSTANTS = ("None", "3", "2.5", "True", "'text'", "{}.shape[-1] if {}.ndim else 0")


@dataclass(frozen=True)
class Returning:
    """Arguments, buffers of the module, statements, and what is returned, as text."""

    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    buffers: tuple[tuple[str, tuple[int, ...]], ...]
    statements: tuple[str, ...]
    returned: str

    @property
    def text(self) -> str:
        names = "".join(f", {name}" for name, _ in self.inputs)
        lines = [
            "class M(torch.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            *(f"        self.register_buffer('{n}', numbers{shape})" for n, shape in self.buffers),
            f"    def forward(self{names}):",
            *(f"        {statement}" for statement in self.statements),
            f"        return {self.returned}",
            f"M()({', '.join(f'numbers{shape}' for _, shape in self.inputs)})",
        ]
        return "\n".join(lines) + "\n"

    def made(self) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        """The module and arguments for it; the same each time."""
        scope: dict[str, Any] = {"torch": torch, "numbers": numbers}
        exec(self.text.rpartition("M()(")[0], scope)
        return scope["M"](), tuple(numbers(*shape) for _, shape in self.inputs)

    def smaller(self) -> Iterator[Returning]:
        """Programs with one statement less."""
        for n in range(len(self.statements)):
            rest = (*self.statements[:n], *self.statements[n + 1 :])
            yield replace(self, statements=rest)


def numbers(*shape: int) -> torch.Tensor:
    """Small integers, so that sums of products are exact."""
    return torch.arange(torch.Size(shape).numel()).remainder(7).float().reshape(shape)


def random_returning(rng: random.Random) -> Returning:
    """A program that eager PyTorch runs."""
    while True:
        program = _drawn(rng)
        try:
            module, args = program.made()
            with torch.no_grad():
                module(*args)
        except (RuntimeError, IndexError, TypeError, ValueError):
            continue
        return program


def _drawn(rng: random.Random) -> Returning:
    shape = rng.choice(SHAPES)
    shapes = [shape, shape, rng.choice(SHAPES)]
    inputs = tuple((f"x{n}", rng.choice(shapes)) for n in range(rng.randint(1, 3)))
    buffers = tuple((f"c{n}", rng.choice(shapes)) for n in range(rng.randint(0, 2)))
    names = [name for name, _ in inputs] + [f"self.{name}" for name, _ in buffers]
    statements: list[str] = []

    def filled(template: str) -> str:
        first, other = rng.choice(names[-4:]), rng.choice(names)
        count = template.count("{}")
        apart = template in ("{} - {}", "{}.copy_({} + 3)") or template.startswith("torch.cat")
        return template.format(*([first, other] if apart else [first] * count))

    for n in range(rng.randint(1, 6)):
        kind = rng.choice((VIEWS, VIEWS, COMPUTED, WRITES))
        text = filled(rng.choice(kind))
        if kind is WRITES:
            statements.append(text)
        else:
            statements.append(f"v{n} = {text}")
            names.append(f"v{n}")
    return Returning(inputs, buffers, tuple(statements), _structure(rng, names, filled, 0))


def _structure(
    rng: random.Random, names: list[str], filled: Callable[[str], str], depth: int
) -> str:
    if depth > 0 and (depth > 2 or rng.random() < 0.7):
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(names)
        return filled(rng.choice(VIEWS if kind < 0.85 else CONSTANTS))
    parts = [_structure(rng, names, filled, depth + 1) for _ in range(rng.randint(1, 4))]
    match rng.choice(("tuple", "list", "dict", "one" if depth == 0 else "tuple")):
        case "list":
            return f"[{', '.join(parts)}]"
        case "dict":
            return f"{{{', '.join(f'{name!r}: {part}' for name, part in zip('bacd', parts))}}}"
        case "one":
            return rng.choice(names)
        case _:
            return f"({', '.join(parts)},)"


@dataclass(frozen=True)
class Outcome:
    """What a call gives and leaves, as plain data that is compared."""

    structure: str
    leaves: list[object]
    """Of a tensor its shape, strides, type and numbers."""
    sharing: list[int]
    """For each tensor the first tensor in whose memory it lies: buffers, arguments, results."""
    objects: list[int]
    """For each tensor the first place of the very object."""

    @staticmethod
    def of(module: torch.nn.Module, args: tuple[torch.Tensor, ...], found: object) -> Outcome:
        results, structure = tree_flatten(found)
        leaves = [*(b for _, b in sorted(module.named_buffers())), *args, *results]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        places = [t.untyped_storage().data_ptr() for t in tensors]
        memory = [p if t.numel() else -n for n, (t, p) in enumerate(zip(tensors, places))]
        objects = [id(t) for t in tensors]
        return Outcome(
            str(structure),
            [_plain(leaf) for leaf in leaves],
            [memory.index(m) for m in memory],
            [objects.index(o) for o in objects],
        )

    def difference(self, other: Outcome) -> str:
        """What differs in another outcome; empty if nothing does."""
        if self.structure != other.structure:
            return f"expected the structure {self.structure}, found {other.structure}"
        for n, (leaf, found) in enumerate(zip(self.leaves, other.leaves, strict=True)):
            if leaf != found:
                return f"expected {leaf} as leaf {n}, found {found}"
        if self.sharing != other.sharing:
            return f"expected memory to be shared as {self.sharing}, found {other.sharing}"
        if self.objects != other.objects:
            return f"expected the same objects as {self.objects}, found {other.objects}"
        return ""


def _plain(leaf: object) -> object:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    steps = zip(leaf.shape, leaf.stride(), strict=True)
    strides = [s for n, s in steps if n > 1] if leaf.numel() else []
    return list(leaf.shape), strides, str(leaf.dtype), leaf.tolist()


def complaint(program: Returning, build: bool = False) -> str:
    """What is wrong with a program's results; with `build`, exported and run without dlc, too."""
    torch._dynamo.reset()
    with torch.no_grad():
        module, args = program.made()
        eager = Outcome.of(module, args, module(*args))
        module, args = program.made()
        f = dlc.compile(module, args, backend="host")
        if said := eager.difference(Outcome.of(module, args, f(*args))):
            return f"dlc.compile: {said}"
        module, args = program.made()
        compiled = torch.compile(module, backend="dlc")
        if said := eager.difference(Outcome.of(module, args, compiled(*args))):
            return f"torch.compile: {said}"
        return _complaint_of_export(program, f) if build else ""


def _complaint_of_export(program: Returning, f: dlc.CompiledProgram) -> str:
    """Exported from the text of its Kernel IR, built for the CPU, and run without dlc."""
    module, args = program.made()
    held = dict(module.named_buffers())
    text = text_of(f.variants[0].module("kernel"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_program(LocParser(compiler_context(), text, "k.mlir").parse_module(), folder)
        made = subprocess.run(
            ["make", "-s", "HOST=1", "-C", name], capture_output=True, text=True, check=False
        )
        if made.returncode:
            return f"make: {made.stderr}"
        manifest = json.loads((folder / "manifest.json").read_text())
        given = {n: t for (n, _), t in zip(program.inputs, args, strict=True)} | held
        for entry in manifest["inputs"]:
            array = given[entry["name"]].numpy()
            np.save(folder / f"{entry['file']}.npy", array.copy(order="C"))
        (folder / "out").mkdir()
        ran = subprocess.run(
            [folder / "run", folder, folder / "out"], capture_output=True, text=True, check=False
        )
        if ran.returncode:
            return f"run: {ran.stderr}"
        leaves, _ = tree_flatten(module(*args))
        for number, (leaf, told) in enumerate(zip(leaves, manifest["results"], strict=True)):
            if not isinstance(leaf, torch.Tensor):
                if told.get("constant") != leaf:
                    return f"expected {leaf} as result {number}, found {told}"
                continue
            found = np.load(folder / "out" / told["file"])
            if found.shape != leaf.shape or found.tolist() != leaf.tolist():
                return f"expected {leaf} as result {number} of the exported program, found {found}"
        for entry in manifest["mutations"]:
            found = np.load(folder / "out" / entry["file"])
            if found.tolist() != given[entry["name"]].tolist():
                return f"expected {given[entry['name']]} in {entry['name']}, found {found}"
        return ""


def shrunk(program: Returning, fails: Callable[[Returning], bool]) -> Returning:
    """The smallest program on the way down that still fails."""
    for candidate in program.smaller():
        if fails(candidate):
            return shrunk(candidate, fails)
    return program
