"""Loads the program of a command: text, a script, a model, or a module of any IR."""

from __future__ import annotations

import argparse
import ast
import errno
import os
import re
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlc.cli.observers import Timing
from dlc.cli.size_options import at_sizes, chosen_program, shapes_of
from dlc.diagnostics import UsageError, closest, with_hint, with_only_hint
from dlc.file_kinds import hint_for
from dlc.frontend.quick_imports import quick_imports
from dlc.garbage import uncollected
from dlc.ir.cached import cached
from dlc.precision import Precision
from dlc.target import DEFAULT_TARGET, precision_of, set_target, stated_target
from dlc.text import not_text

if TYPE_CHECKING:
    import torch
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from dlc.frontend.export.exported_call import ExportedCall
    from dlc.frontend.export.imported import ImportedProgram


MODEL_ID = re.compile(r"[\w-]+/[\w.-]+")
"""An id of the Hugging Face hub: owner and name."""

PROGRAMS = (
    "a program is a .py or .mlir file, IR from stdin (-), text (-c), or a model: a directory, a "
    "configuration file, or an id such as Qwen/Qwen2.5-7B"
)


@dataclass
class Loaded:
    """A module, and what it was imported from if it was: once the one or the other is asked for."""

    read: Callable[[], tuple[ModuleOp, ImportedProgram | None]]
    call: ExportedCall | None = None
    """What it is imported from."""
    args: tuple[Any, ...] = ()
    target: str | None = None
    """The target of such a program."""
    precision: Precision = "f32"
    """What its products of f32 may be computed in."""

    @staticmethod
    def of(module: ModuleOp) -> Loaded:
        return Loaded(lambda: (module, None))

    @property
    def is_imported(self) -> bool:
        """True if it is a program of PyTorch."""
        return self.call is not None

    @cached
    def _imported(self) -> tuple[ModuleOp, ImportedProgram | None]:
        return self.read()

    @property
    def module(self) -> ModuleOp:
        return self._imported[0]

    @property
    def program(self) -> ImportedProgram | None:
        return self._imported[1]

    def arguments(self, seed: int) -> list[torch.Tensor]:
        """The tensors that `@main` takes: those of the program, or else random ones."""
        from dlc.frontend.aten.draws import random_state

        if self.program is None:
            from dlc.judge.random_inputs import random_arguments  # with xDSL

            return random_arguments(self.module, seed)
        bound = [t.detach() for t in self.program.bind(self.args)]
        for argument in self.program.arguments:
            if argument.kind == "random":
                bound[argument.index] = random_state(seed)
        return bound


def load_module(
    ctx: Context, file: str, options: argparse.Namespace, sources: dict[str, str]
) -> ModuleOp:
    """
    The module in an .mlir file (`-`: on stdin), verified. `sources` gets its text; from there that
    of stdin is taken the second time. The target is the one in the options, or the module's own, or
    sm_90; the precision in the options, or the module's own, or f32.
    """
    from dlc.dialects.frozen import freeze
    from dlc.dialects.program_attributes import check_attributes
    from dlc.ir.dominance import verify_dominance
    from dlc.ir.locations import LocParser

    name = "<stdin>" if file == "-" else file
    try:
        if file == "-":
            text = sources[name] if name in sources else sys.stdin.read()
        else:
            with open(file, encoding="utf-8") as stream:
                text = stream.read()
    except UnicodeDecodeError as error:
        raise ValueError(not_text(name, error)) from None
    sources[name] = text
    try:
        module = LocParser(ctx, text, name).parse_module()
    except Exception as error:
        if file == "-" and _is_python(text):
            with_only_hint(error, "stdin takes IR, as in an .mlir file; -c takes a program as text")
        raise
    module.verify()
    verify_dominance(module)
    check_attributes(module, options.target)
    at_sizes(module, options.sizes)
    target = options.target or stated_target(module) or DEFAULT_TARGET
    set_target(module, target, options.precision or precision_of(module))
    if options.freeze:
        freeze(module)
    return module


def _is_python(text: str) -> bool:
    try:
        return bool(ast.parse(text).body)
    except (SyntaxError, ValueError):
        return False


def load_program(
    options: argparse.Namespace,
    text: str | None,
    script: str | None,
    target: str | None,
    timing: Timing,
) -> Loaded:
    """
    The program that a text or else a script is, imported; the options say the seed of the random
    tensors that it makes, and its arguments. ImportFailure as raised.
    """
    seed: int = options.seed
    given: Sequence[str] = options.arguments or ()
    with timing.phase("torch", "import of torch"), quick_imports():
        import torch.export._trace  # noqa: F401  pyright: ignore[reportUnusedImport]
    with timing.phase("dlc", "import of the frontend"), uncollected():
        from dlc.frontend.scripts.capture import capture_script, capture_text
    with timing.phase("torch", "the program's own code"):
        sizes = shapes_of(options.dynamic) or {}
        if text is not None:
            argv = ("-c", *given)
            module, args = capture_text(text, seed=seed, argv=argv, sizes=sizes)
        else:
            assert script is not None
            module, args = capture_script(script, seed, given, sizes)
    return _imported(module, args, target, timing, options)


def load_model_program(name: str, options: argparse.Namespace, timing: Timing) -> Loaded:
    """A Hugging Face model as the options say, imported; its weights are there if it is run."""
    with timing.phase("torch", "import of torch"), quick_imports():
        import torch.export._trace  # noqa: F401  pyright: ignore[reportUnusedImport]

        from dlc.models.find import find
        from dlc.models.load import ModelOptions, load_model

        found = find(name)
    with timing.phase("torch", "import of transformers"), quick_imports():
        import transformers  # noqa: F401  pyright: ignore[reportUnusedImport]
    with timing.phase("torch", "the model's own code"), quick_imports():
        wanted = ModelOptions(
            layer=options.layer,
            seq_len=options.seq_len,
            batch=options.batch,
            dtype=options.dtype,
            weights=needs_weights(options),
            random_weights=options.random_weights,
            seed=options.seed,
        )
        module, args = load_model(found, wanted)
    return _imported(module, args, options.target, timing, options)


def _imported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    target: str | None,
    timing: Timing,
    options: argparse.Namespace,
) -> Loaded:
    with timing.phase("dlc", "import of the frontend"), uncollected():
        from dlc.backend.executor import default_target
        from dlc.frontend.export.exported_call import export_call
        from dlc.precision import default_precision

        whole = _overloads(options)
    with timing.phase("dlc", "export, but for PyTorch's part"), uncollected():
        exporting = timing.phase("torch", "torch.export")
        shapes = shapes_of(options.dynamic)
        call = export_call(module, args, exporting=exporting, whole=whole, dynamic_shapes=shapes)
    chip = target or default_target()
    precision = options.precision or default_precision()

    def read() -> tuple[ModuleOp, ImportedProgram | None]:
        with timing.phase("dlc", "import to Torch IR"), uncollected():
            from dlc.dialects.frozen import freeze  # with xDSL
            from dlc.frontend.export.fx import import_call, sized_program

            imported = import_call(call)
            if call.sizes is None:
                module, program = imported.module, imported
            else:
                module, program = chosen_program(sized_program(call, imported), options)
        set_target(module, chip, precision)
        if options.freeze:
            freeze(module)
        return module, program

    if call.sizes is not None and options.sizes is not None:  # a program of no call that was made
        loaded = Loaded(read)
        loaded.module
        return loaded
    loaded = Loaded(read, call, args, chip, precision)
    if options.command != "run":  # which may know the program by what was exported
        loaded.module
    return loaded


def _overloads(options: argparse.Namespace) -> Container[str]:
    """The ATen overloads that dlc lowers; of a run, whose passes may have run, by name alone."""
    if options.command == "run":
        from dlc.kernel_cache import lowered_overloads

        return lowered_overloads()
    from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

    return DECOMPOSITIONS


def needs_weights(options: argparse.Namespace) -> bool:
    """True if the values of a model's parameters are used or written."""
    if options.command == "trace":
        return options.validate
    return options.command != "compile" or options.validate or options.with_weights


def kind_of(file: str) -> str:
    """
    `script`, `module` or `model`, by the name; UsageError for another kind of file, as
    `check_present` where there is none.
    """
    kind = {".mlir": "module", ".py": "script", ".json": "model"}.get(os.path.splitext(file)[1])
    if file == "-" or kind is not None:
        return kind or "module"
    if MODEL_ID.fullmatch(file) and not os.path.exists(file) and hint_for(file) is None:
        return "model"
    check_present(file, PROGRAMS)
    if not os.path.isdir(file):
        error = UsageError(f"{file}: expected a file whose name ends in .py or .mlir")
        raise with_hint(error, hint_for(file) or PROGRAMS)
    return "model"


def check_present(file: str, hint: str | None = None) -> None:
    """FileNotFoundError where there is no such file, with the name closest to it, or the hint."""
    if not os.path.exists(file):
        error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        raise with_hint(error, _close(file) or hint)


def _close(file: str) -> str | None:
    """A hint that names the file of that kind beside `file` whose name is closest."""
    folder, name = os.path.split(file)
    stem, suffix = os.path.splitext(name)
    try:
        there = [os.path.splitext(other) for other in os.listdir(folder or ".")]
    except OSError:
        return None
    stems = {other: end for other, end in there if end == suffix or not suffix}
    guess = closest(stem, stems)
    return None if guess is None else f"did you mean {os.path.join(folder, guess + stems[guess])}?"
