"""
Writes docs/passes.md: every pass in the order of the pipeline, as its own docstring tells it, and
one product of matrices in CUDA after each of the scheduling steps, and attention in Tile IR.

    python docs/passes.py          # CI checks that the page is what this makes
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from dlc.backend.cuda.print.printer import print_module
from dlc.cli.pass_list import options_of, typed
from dlc.compiler import CompiledProgram, compile
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.tile import KernelOp
from dlc.passes import APART, STEPS, Stage, Step
from dlc.remarks import collect
from dlc.stages import compiler_context
from dlc.text import diff

PAGE = Path(__file__).with_name("passes.md")

CHAPTERS: dict[Stage, str] = {
    "tensor": "Torch IR to Tensor IR: what is computed",
    "loop": "Tensor IR to Loop IR: which operations share a kernel",
    "tile": "Loop IR to Tile IR: the sixteen scheduling steps",
    "kernel": "Tile IR to Kernel IR: hardware primitives",
}

LADDER_PROGRAM = "relu(x @ w.t())"
LADDER_TARGET = "sm_90"


def page() -> str:
    """The text of docs/passes.md."""
    parts = [
        "# Passes",
        "Made by `python docs/passes.py` from the passes' own docstrings. The list is that of "
        "`dlc/passes.py`; a pass is a file in `dlc/transforms/`, its tests are "
        "`test/filecheck/transforms/NAME.mlir`. At the end, [a ladder](#a-ladder): one product of "
        "matrices in CUDA after each of the scheduling steps; and [attention]"
        "(#a-ladder-of-attention), in Tile IR.",
    ]
    for stage, title in CHAPTERS.items():
        steps = [step for step in (*STEPS, *APART) if step.stage == stage]
        parts += [f"## {title}", *(text for step in steps for text in _chapter(step))]
    parts += [*_ladders()]
    return "\n\n".join(parts) + "\n"


def pass_class(step: Step) -> type[ModulePass]:
    """The class of a pass."""
    module, name = step.location
    return getattr(import_module(module), name)


def _chapter(step: Step) -> Iterator[str]:
    """What a pass says of itself and of its options."""
    cls = pass_class(step)
    yield f"### {step.pass_name}"
    place = f"`{step.number}`" if step in STEPS else "For `dlc-opt`"
    yield f"{place}, `{step.location[0].replace('.', '/')}.py`"
    yield _emphasized(inspect.getdoc(cls) or "")
    if options := options_of(cls):
        rows = [
            f"| `{o.name}` | `{_escaped(typed(o.type, o.bounds))}` | {o.meaning} |" for o in options
        ]
        yield "\n".join(["| option | type | meaning |", "|---|---|---|", *rows])


def _escaped(cell: str) -> str:
    """A text that ends no cell of a table."""
    return cell.replace("|", "\\|")


def _emphasized(doc: str) -> str:
    """Legality and reason stand out."""
    said = r"^\*(Legal when|Legal always|Faster because|Why)\*"
    return re.sub(said, r"**\1**", doc, flags=re.MULTILINE)


def _ladders() -> Iterator[str]:
    """CUDA text of a product after each scheduling step, Tile IR of attention, and what is said."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w.t())

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    yield "## A ladder"
    square = torch.empty(2048, 2048)
    program = compile(linear, (square, square), target=LADDER_TARGET, backend="host")
    yield from _rungs(program, f"`{LADDER_PROGRAM}`, both 2048 x 2048,", "cuda", _cuda)
    yield "## A ladder of attention"
    heads = torch.empty(1, 32, 512, 64)
    program = compile(attention, (heads, heads, heads), target=LADDER_TARGET, backend="host")
    of = "`scaled_dot_product_attention(q, k, v, is_causal=True)`, 32 heads of 512 x 64,"
    yield from _rungs(program, of, "mlir", _tile)


def _rungs(
    program: CompiledProgram, of: str, language: str, printed: Callable[[ModuleOp], str]
) -> Iterator[str]:
    """A program after each scheduling step, and what the step said."""
    module = program.variants[0].module("loop").clone()
    before = ""
    for step in (s for s in STEPS if s.stage == "tile"):
        with collect() as remarks:
            pass_class(step)().apply(compiler_context(), module)
        text = printed(module)
        if not before:
            yield _introduction(module, of)
        yield f"### After {step.pass_name}"
        yield "\n".join(
            f"- `{r.kernel}`: {r.text}" for r in remarks if r.pass_name == step.pass_name
        )
        if not before:
            yield f"```{language}\n{text}\n```"
        elif text != before:
            yield f"```diff\n{diff(before, text)}\n```"
        before = text
    yield f"### The kernel\n\n```{language}\n{before}\n```"


def _introduction(module: ModuleOp, of: str) -> str:
    schedule = next(
        found.data
        for op in module.walk()
        if isinstance(found := op.properties.get("schedule"), StringAttr)
    )
    return (
        f"{of} for {LADDER_TARGET}, by its default schedule:\n\n"
        f"```\n{schedule}\n```\n\n"
        "Below, what is printed if the schedule ends after each of its steps: the whole kernel "
        "after the first, then what a step changes. Each of these kernels is right, and runs."
    )


def _tile(module: ModuleOp) -> str:
    """The kernel of a module in Tile IR, without the schedule, which stays the same."""
    (kernel,) = kernels_in(module, KernelOp)
    return re.sub(r' schedule "(?:[^"\\]|\\.)*"', "", str(kernel)).strip()


def _cuda(module: ModuleOp) -> str:
    """The kernel in CUDA of a module as scheduled so far."""
    scheduled = module.clone()
    for step in STEPS:
        if step.stage == "kernel":
            pass_class(step)().apply(compiler_context(), scheduled)
    return _body(print_module(scheduled))


def _body(text: str) -> str:
    """The kernel itself: without what it calls, and without the schedule, which stays the same."""
    kernel = text[text.index("// grid ") :]
    return re.sub(r"; schedule: .*\n(//.*\n)*", "\n", kernel).strip()


if __name__ == "__main__":
    PAGE.write_text(page())
