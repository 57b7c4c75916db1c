"""What `dlc compile` and `dlc run` are given: text, a script, or a module of any IR."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.diagnostics import UsageError, with_hint
from dlc.ir.dominance import verify_dominance
from dlc.ir.locations import LocParser
from dlc.schedule.target import DEFAULT_TARGET, TARGET_ATTRIBUTE, get_target
from dlc.tools.observers import Timing

if TYPE_CHECKING:
    import torch

    from dlc.frontend.program import ImportedProgram


@dataclass
class Loaded:
    """A module, and what it was imported from if it was."""

    module: ModuleOp
    program: ImportedProgram | None = None
    args: tuple[Any, ...] = ()

    def arguments(self, seed: int) -> list[torch.Tensor]:
        """The tensors that `@main` takes: those of the program, or else random ones."""
        from dlc.tools.random_inputs import random_arguments

        if self.program is None:
            return random_arguments(self.module, seed)
        return [t.detach() for t in self.program.bind(self.args)]


def load_module(ctx: Context, file: str, target: str | None, sources: dict[str, str]) -> ModuleOp:
    """
    The module in an .mlir file (`-`: on stdin), verified. `sources` gets its text. The target is
    the given one, or the module's own, or sm_90.
    """
    name = "<stdin>" if file == "-" else file
    try:
        if file == "-":
            text = sys.stdin.read()
        else:
            with open(file, encoding="utf-8") as stream:
                text = stream.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not text: it is not UTF-8 at offset {error.start}") from None
    sources[name] = text
    module = LocParser(ctx, text, name).parse_module()
    module.verify()
    verify_dominance(module)
    if target is not None or TARGET_ATTRIBUTE not in module.attributes:
        module.attributes[TARGET_ATTRIBUTE] = StringAttr(get_target(target or DEFAULT_TARGET).name)
    return module


def load_program(
    text: str | None, script: str | None, target: str | None, timing: Timing, seed: int
) -> Loaded:
    """
    The last expression of a text or else of a script, imported; `seed` is that of the random
    tensors that it makes. ImportFailure as raised.
    """
    with timing.phase("torch", "import of torch"):
        import torch  # noqa: F401  pyright: ignore[reportUnusedImport]
    with timing.phase("dlc", "import of the frontend"):
        from dlc.backend.executor import default_target
        from dlc.compiler import set_target
        from dlc.frontend.capture import capture_script, capture_text
        from dlc.frontend.fx import import_program
    with timing.phase("torch", "the program's own code"):
        if text is not None:
            module, args = capture_text(text, seed=seed)
        else:
            assert script is not None
            module, args = capture_script(script, seed)
    with timing.phase("dlc", "import to Torch IR"):
        exporting = timing.phase("torch", "torch.export")
        program = import_program(module, args, exporting=exporting)
    gc.freeze()  # PyTorch's objects stay; a collection that looks at them takes 0.15 s
    set_target(program.module, target or default_target())
    return Loaded(program.module, program, args)


def kind_of(file: str) -> str:
    """`script` or `module`, by the name of the file; UsageError for another one."""
    if file == "-" or file.endswith(".mlir"):
        return "module"
    if file.endswith(".py"):
        return "script"
    error = UsageError(f"expected a file whose name ends in .py or .mlir, found {file}")
    raise with_hint(error, "- reads a module from stdin, and -c takes a program as text")
