"""
Random programs for all sizes: some extents of their inputs have names, as far as PyTorch's export
keeps them, and the kernels that these share are run with several numbers for each name.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.export import Dim
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ModuleOp

from dlc.analysis.kernel.instruction_counts import counts_of
from dlc.backend.host.host_backend import HostBackend
from dlc.cli.check import as_array
from dlc.compile_options import CompileOptions
from dlc.compiler import CompiledProgram
from dlc.diagnostics import OpError
from dlc.dialects import kernel
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import ImportFailure, UnsupportedError
from dlc.judge.conditioning import Expected
from dlc.simulator import run_module
from dlc.variant import Variant
from fuzzing.programs import NAMES, Program, random_text

NUMBERS = (2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 40, 64, 65)
"""What a name may be; 0 and 1 are programs of their own."""
BINDINGS = 3
MOST = 8192
"""Elements of an input at most."""
MOST_STEPS = 2e7
"""Instructions of all threads up to which kernels are simulated, which takes about a minute."""


def steps_of(kernels: ModuleOp) -> float:
    """Instructions of all threads of all kernels."""
    funcs = (op for op in kernels.walk() if isinstance(op, kernel.FuncOp))
    return sum(counts_of(f).slots * f.grid_size * f.block_size for f in funcs)


@dataclass(frozen=True)
class Named:
    """A program, and numbers for those extents of its inputs that have names, by their own."""

    program: Program
    bindings: tuple[Mapping[int, int], ...]
    target: str
    on_host: bool

    @property
    def text(self) -> str:
        where = " --backend host" if self.on_host else ""
        told = "; ".join(str(dict(binding)) for binding in self.bindings)
        return f"--target {self.target}{where}, sizes {told}\n{self.program.text}"


def random_named(rng: random.Random, program: Program, target: str, on_host: bool) -> Named | None:
    """One or two extents of a program get names, and three numbers each, the first their own."""
    values = program.values()
    shapes = [values[s.name].shape for s in program.inputs]
    extents = sorted({n for shape in shapes for n in shape if n > 1})
    if not extents:
        return None
    named = rng.sample(extents, min(len(extents), rng.choice((1, 1, 2))))
    drawn = [{n: rng.choice(NUMBERS) for n in named} for _ in range(BINDINGS - 1)]
    fit = [
        binding
        for binding in drawn
        if all(torch.Size(_at(shape, binding)).numel() <= MOST for shape in shapes)
    ]
    return Named(program, ({n: n for n in named}, *fit), target, on_host)


def smaller(named: Named) -> list[Named]:
    """With a statement less, a binding less, or a name less."""
    first, *others = named.bindings
    found = [replace(named, program=program) for program in named.program.smaller()]
    found += [replace(named, bindings=(first, one)) for one in others if len(others) > 1]
    if len(first) > 1:
        for n in first:
            fewer = tuple({m: k for m, k in b.items() if m != n} for b in named.bindings)
            found.append(replace(named, bindings=fewer))
    return [replace(named, on_host=False), *found] if named.on_host else found


def complaint(named: Named) -> tuple[str, str]:
    """What is wrong, or else why no two bindings share kernels; both empty where all is right."""
    warnings.simplefilter("ignore")
    try:
        module, args = capture_text(named.program.text)
        if len(args) != len(named.program.inputs):
            return "", "an input that the program does not read"
        shapes = tuple(_marks(t, named.bindings[0]) for t in args)
        program = CompiledProgram(
            module, named.target, HostBackend(), CompileOptions(dynamic_shapes=shapes)
        )
        program.variant(args)
    except (ImportFailure, UnsupportedError, OpError) as error:
        return "", str(error).split("error: ")[-1].strip()
    except Exception as error:
        return f"{type(error).__name__} at import: {error}", ""
    shared = 0
    for binding in named.bindings:
        given = inputs_at(named.program, binding)
        if not _is_taken(module, named.program, given):
            continue
        try:
            variant = program.variant(given)
            if variant.sizes:
                shared += 1
                if said := _judged(variant, module, given, named.on_host):
                    return f"{said} (sizes {variant.sizes})", ""
        except (ImportFailure, UnsupportedError):
            continue
        except Exception as error:
            return f"{type(error).__name__}: {error} (of {dict(binding)})", ""
    if shared < 2:
        said = program.shared.obstacle.splitlines()
        return "", f"kernels of one size: {said[0] if said else 'no name is left'}"
    return "", ""


def inputs_at(program: Program, binding: Mapping[int, int]) -> tuple[torch.Tensor, ...]:
    """Inputs of a program with other extents, from the same random numbers at each call."""
    values = Program(program.inputs, ()).values()
    torch.manual_seed(1)
    likes = [values[s.name] for s in program.inputs]
    texts = [random_text(like.new_empty(_at(like.shape, binding))) for like in likes]
    return tuple(eval(text, dict(NAMES)) for text in texts)


def _at(shape: Sequence[int], binding: Mapping[int, int]) -> list[int]:
    return [binding.get(n, n) for n in shape]


def _marks(tensor: torch.Tensor, binding: Mapping[int, int]) -> dict[int, Any]:
    """Which dimensions have names, of `dynamic_shapes`."""
    return {d: Dim.AUTO for d, n in enumerate(tensor.shape) if n in binding}


def _is_taken(module: torch.nn.Module, program: Program, given: Sequence[torch.Tensor]) -> bool:
    """Does PyTorch run the program for such inputs, within the range of f16?"""
    try:
        with torch.no_grad():
            module(*(t.clone() for t in given))
        return not program.overflows(given)
    except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
        return False


def _judged(
    variant: Variant, module: torch.nn.Module, given: Sequence[torch.Tensor], on_host: bool
) -> str:
    """What is wrong with the kernels that the sizes of a call share, and with PyTorch's results."""
    arguments = [t.detach().clone() for t in variant.program.bind(given)]
    expected = Expected(variant.program.module, arguments)
    with torch.no_grad():
        eager = tree_leaves(module(*(t.clone() for t in given)))
    if len(eager) == len(expected.exact) and all(
        r.argument is None for r in variant.program.results
    ):
        if said := expected.complaint(eager):
            return f"the program differs from PyTorch's: {said}"
    kernels = variant.bound.module("kernel")
    if steps_of(kernels) > MOST_STEPS:
        return ""
    results = run_module(kernels, [as_array(t) for t in arguments])
    if said := expected.complaint([torch.from_numpy(np.array(a)) for a in results]):
        return f"wrong in the interpreter: {said}"
    if on_host:
        found = variant.executor([t.clone() for t in arguments])
        if said := expected.complaint(found):
            return f"wrong on the host: {said}"
    return ""


def shrunk(named: Named, fails: Callable[[Named], bool]) -> Named:
    """The smallest program and fewest numbers on the way down that still fail."""
    while (found := next(filter(fails, smaller(named)), None)) is not None:
        named = found
    return named
