"""`dlc.load`: a file of any of dlc's IRs as a callable that runs its kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import ParseError

from dlc.backend.dtypes import user_dtype, user_shape
from dlc.backend.executor import Backend, BackendLike, Executor, default_target, get_backend
from dlc.diagnostics import did_you_mean, with_hint, with_only_hint
from dlc.dialects.layouts import DEFAULT_ALIGNMENT
from dlc.dialects.main_function import attributes_of, attributes_of_results, main_of
from dlc.dialects.program_attributes import check_attributes
from dlc.dialects.size import refuse_sizes
from dlc.dialects.user_outputs import mutated_by, outputs_of
from dlc.file_kinds import hint_for
from dlc.frontend.pairs import is_lazy, pairs_of, resolved
from dlc.ir.dominance import verify_dominance
from dlc.ir.leaves import returned_leaves
from dlc.ir.locations import LocParser
from dlc.missing_attributes import TellsOfMissing
from dlc.passes import Printed
from dlc.stages import Kernel, Stages, compiler_context
from dlc.target import TARGET_ATTRIBUTE, get_target
from dlc.text import counted, not_text

if TYPE_CHECKING:
    from dlc.simulator.checker import Verdict


def load(
    file: str | os.PathLike[str],
    target: str | None = None,
    backend: BackendLike = None,
    *,
    sync: bool = False,
    schedules: Mapping[str, str] | None = None,
) -> LoadedProgram:
    """
    The program in a file of Torch, Tensor, Loop, Tile or Kernel IR, as `dlc compile --ir` prints
    it and `dlc-opt` changes it. The target is the given one, or the file's own, or the GPU at hand;
    the other options are those of `dlc.compile`.

    To run a program from elsewhere is to run its code. Raises OSError for a file that cannot be
    read, TypeError for a text in the place of its name, ValueError for one that is no text,
    DiagnosticException with line and column for text that is no such IR or does not verify.
    """
    path = Path(file)
    if "\n" in str(path):
        error = TypeError(
            f"expected a file, found a text of {counted(len(str(path).splitlines()), 'line')}"
        )
        raise with_hint(error, "write it to a file whose name ends in .mlir")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise with_hint(ValueError(not_text(str(path), error)), hint_for(str(path))) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise type(error)(f"cannot load the program '{path}': {why}") from None
    try:
        module = LocParser(compiler_context(), text, str(path)).parse_module()
    except ParseError as error:
        raise with_only_hint(error, hint_for(str(path))) from None
    module.verify()
    verify_dominance(module)
    check_attributes(module, target)
    refuse_sizes(module)
    if target is not None or TARGET_ATTRIBUTE not in module.attributes:
        chip = get_target(target or default_target())
        module.attributes[TARGET_ATTRIBUTE] = StringAttr(chip.name)
    return LoadedProgram(Stages(module, schedules), get_backend(backend, sync))


class LoadedProgram(TellsOfMissing):
    """
    A program read from a file. It is called with the tensors that `@main` takes, in its order or by
    their names; TypeError says which they are where others are given, and refuses tensors that
    require a gradient while gradients are recorded: the IR is that of a forward. What it returns is
    what the user's program does: one value, or a tuple; arguments that it writes to are written to.
    A tensor that lies otherwise in memory than the IR says is copied for the call.
    """

    def __init__(self, stages: Stages, backend: Backend) -> None:
        self.stages = stages
        self.backend = backend
        self.main = main_of(self.module)
        attributes = attributes_of(self.main)
        stated = [a.get("dlc.name") for a in attributes]
        self.names = [
            s.data if isinstance(s, StringAttr) else argument.name_hint or f"argument {n}"
            for n, (s, argument) in enumerate(zip(stated, self.main.body.block.args, strict=True))
        ]
        """The names of the arguments of `@main`, in order."""
        strides = [a.get("dlc.strides") for a in attributes]
        self._strides = [
            tuple(int(n) for n in s.get_values()) if isinstance(s, DenseArrayBase) else None
            for s in strides
        ]
        stated = [a.get("dlc.align") for a in attributes]
        self._alignments = [
            s.value.data if isinstance(s, IntegerAttr) else DEFAULT_ALIGNMENT for s in stated
        ]
        types = self.main.function_type
        self._takes = [user_dtype(*pair) for pair in zip(types.inputs, attributes, strict=True)]
        marks = attributes_of_results(self.main)
        self._gives = [user_dtype(*pair) for pair in zip(types.outputs, marks, strict=True)]
        self._mutated = mutated_by(self.main)
        self._outputs = outputs_of(self.main)

    @property
    def module(self) -> ModuleOp:
        """The program as the file has it."""
        return self.stages.module(self.stages.first)

    @property
    def target(self) -> str:
        """The chip that schedules are made for."""
        attribute = self.module.attributes[TARGET_ATTRIBUTE]
        assert isinstance(attribute, StringAttr)
        return attribute.data

    @cached_property
    def executor(self) -> Executor:
        self.stages.dump("loaded")
        return Executor(self.stages.module("kernel"), self.backend)

    def __repr__(self) -> str:
        kernels = counted(len(self.executor.funcs), "kernel")
        takes = ", ".join(self.names)
        return f"<dlc program ({takes}) for {self.target} on {self.backend.name}: {kernels}>"

    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        given = [pairs_of(t) for t in self._arguments(args, kwargs)]
        laid = [self._laid_out(number, tensor) for number, tensor in enumerate(given)]
        computed = self.executor([t.detach() for t in laid], in_place=True)
        pairs = zip(computed, self._gives, strict=True)
        results = [r if dtype.is_complex else r.view(dtype) for r, dtype in pairs]
        with torch.no_grad():
            for result, argument in zip(results, self._mutated, strict=True):
                if argument is not None and given[argument].data_ptr() != result.data_ptr():
                    given[argument].copy_(result)
        leaves = returned_leaves(self._outputs, results, given)
        return leaves[0] if len(leaves) == 1 else tuple(leaves)

    def _arguments(
        self, args: Sequence[torch.Tensor], kwargs: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """The tensors for `@main`; TypeError if they are not what it takes."""
        named = dict(zip(self.names, args, strict=False))
        for name, tensor in kwargs.items():
            if name not in self.names or name in named:
                error = TypeError(f"expected no argument '{name}'")
                takes = f"the program takes {', '.join(self.names)}"
                raise with_hint(error, did_you_mean(name, self.names) or takes)
            named[name] = tensor
        if len(args) > len(self.names) or len(named) < len(self.names):
            missing = [name for name in self.names if name not in named]
            found = f"{missing[0]} missing" if missing else f"{len(args)}"
            raise TypeError(
                f"expected {counted(len(self.names), 'tensor')} ({', '.join(self.names)}), "
                f"found {found}"
            )
        arguments = zip(self.names, self.main.body.block.args, self._takes, strict=True)
        for name, argument, dtype in arguments:
            tensor, shape = named[name], user_shape(argument.type, dtype)
            wanted = (shape, dtype, torch.strided)
            if not isinstance(tensor, torch.Tensor) or wanted != (
                tensor.shape,
                tensor.dtype,
                tensor.layout,
            ):
                raise TypeError(f"expected {name} to be {dtype} {list(shape)}, found {_of(tensor)}")
            if tensor.requires_grad and torch.is_grad_enabled():
                error = TypeError(f"{name} requires a gradient, and a loaded program computes none")
                raise with_hint(error, "call it under torch.no_grad(), or detach the tensor")
        for number, name in enumerate(self.names):
            if number in self._mutated and is_lazy(named[name]):
                raise TypeError(
                    f"the program writes to {name}, whose memory holds its conjugates or "
                    "negatives: pass x.resolve_conj().resolve_neg() of it"
                )
        return [resolved(named[name]) for name in self.names]

    def _laid_out(self, number: int, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the program expects it in memory: itself, or a copy."""
        wanted = self._strides[number] or torch.empty(tensor.shape, device="meta").stride()
        pairs = zip(tensor.shape, tensor.stride(), wanted, strict=True)
        aligned = tensor.data_ptr() % self._alignments[number] == 0
        if aligned and all(n <= 1 or s == w for n, s, w in pairs):
            return tensor
        copy = torch.empty_strided(tensor.shape, wanted, dtype=tensor.dtype, device=tensor.device)
        return copy.copy_(tensor)

    def ir(self, stage: Printed) -> str:
        """The program's text at the file's stage or a later one."""
        return self.stages.text(stage)

    def explain(self) -> str:
        """For each kernel its schedule, what lost to it, and why."""
        return self.stages.explain()

    def check(self) -> list[Verdict]:
        """What the simulator finds in each kernel: see `Stages.check`."""
        return self.stages.check()

    def with_schedule(self, schedules: Mapping[str, str]) -> LoadedProgram:
        """The program with schedules of the user's for some kernels of the Loop IR, by name."""
        return LoadedProgram(self.stages.with_schedules(schedules), self.backend)

    @property
    def kernels(self) -> list[Kernel]:
        """In the order of their launches."""
        return [Kernel.of(func, self.stages) for func in self.executor.funcs]


def _of(value: object) -> str:
    if isinstance(value, torch.Tensor):
        layout = "" if value.layout is torch.strided else f" of layout {value.layout}"
        return f"{value.dtype} {list(value.shape)}{layout}"
    return f"an object of {type(value)}"
