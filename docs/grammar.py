"""
The pages of the six IRs: the grammar of each dialect, read off its definitions in xDSL, and one
program in each.

    pages()          # {"irs/torch.md": "# Torch IR …", …}
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from xdsl.ir import Dialect, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, OpDef, ParamAttrDef

from dlc import plugins
from dlc.compiler import CompiledProgram, compile
from dlc.ir.scalar_ops import SCALARS
from dlc.passes import Printed

IRS: dict[Printed, tuple[str, tuple[str, ...], str]] = {
    "torch": (
        "Torch IR",
        ("torch", "size"),
        "The graph that PyTorch exports, an operation a line.",
    ),
    "tensor": ("Tensor IR", ("tensor_ir", "flow"), "What is computed, by few operations."),
    "loop": ("Loop IR", ("loop",), "Which operations share a kernel: one kernel, one nest."),
    "tile": ("Tile IR", ("tile",), "Where each loop runs: the schedule, done."),
    "kernel": ("Kernel IR", ("kernel", "host"), "One operation is one primitive of the hardware."),
    "cuda": ("CUDA C", (), "The text that nvcc compiles, a line for an operation or less."),
}
"""Title, dialects and first sentence of each IR, in their order."""

KINDS = {"Opt": "optional", "Var": "any number"}


def pages() -> dict[str, str]:
    """The text of each page by its path."""
    made = {f"irs/{stage}.md": "\n\n".join(filter(None, _page(stage))) + "\n" for stage in IRS}
    return {**made, "irs/scalars.md": _scalars()}


@cache
def example() -> CompiledProgram:
    """The program whose text the pages show: a product and an activation, compiled for sm_90."""
    import torch

    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w)

    program = compile(linear, (torch.empty(64, 64), torch.empty(64, 64)), "sm_90", "host")
    program.variant((torch.empty(64, 64), torch.empty(64, 64)))
    return program


def dialect(name: str) -> Dialect:
    """A dialect of dlc's by its name."""
    return plugins.resolve(plugins.DIALECTS, name)


def _page(stage: Printed) -> Iterator[str]:
    title, names, says = IRS[stage]
    yield f"# {title}"
    yield f"{says} `dlc compile --ir {stage}` prints it."
    language = "cuda" if stage == "cuda" else "mlir"
    yield "## An example"
    yield "`torch.relu(x @ w)`, both 64 x 64, by its default schedule:"
    yield f"```{language}\n{example().ir(stage).strip()}\n```"
    for name in names:
        yield from _dialect(name)


def _dialect(name: str) -> Iterator[str]:
    found = dialect(name)
    where, _, _ = plugins.DIALECTS[name].partition(":")
    yield f"## The dialect `{name}`"
    yield inspect.cleandoc(import_module(where).__doc__ or "")
    for op in found.operations:
        yield from _operation(op)
    for attribute in found.attributes:
        yield f"### `{'!' if _is_type(attribute) else '#'}{attribute.name}`"
        yield inspect.getdoc(attribute) or ""
        if issubclass(attribute, ParametrizedAttribute):
            parameters = attribute.get_irdl_definition().parameters
            yield _table("parameter", [(key, _parameter(given)) for key, given in parameters])


def _operation(op: type[Operation]) -> Iterator[str]:
    assert issubclass(op, IRDLOperation)
    given: OpDef = op.get_irdl_definition()
    yield f"### {op.name}"
    yield inspect.cleandoc(op.__doc__ or "")
    if given.assembly_format is not None:
        yield f"Assembly format:\n\n```\n{given.assembly_format}\n```"
        known = {directive.__name__: directive for directive in op.custom_directives}
        used = dict.fromkeys(re.findall(r"custom<(\w+)>", given.assembly_format))
        said = [(name, inspect.getdoc(known[name]) or "") for name in used if name in known]
        yield _table("directive", said)
    groups = {
        "operand": given.operands,
        "property": given.properties.items(),
        "attribute": given.attributes.items(),
        "result": given.results,
    }
    for kind, members in groups.items():
        yield _table(kind, [(name, _member(what)) for name, what in members])
    if given.regions:
        yield f"Regions: {', '.join(f'`{name}`' for name, _ in given.regions)}."
    if traits := sorted(type(trait).__name__.strip("_") for trait in given.traits.traits):
        yield f"Traits: {', '.join(traits)}."


def _is_type(attribute: type[Any]) -> bool:
    from xdsl.ir import TypeAttribute

    return issubclass(attribute, TypeAttribute)


def _parameter(given: ParamAttrDef | Any) -> str:
    return constraint(getattr(given, "constr", given))


def _member(what: Any) -> str:
    """What an operand, a result or a property may be."""
    kind = next((word for key, word in KINDS.items() if type(what).__name__.startswith(key)), "")
    return ", ".join(filter(None, [constraint(what.constr), kind]))


def constraint(given: Any) -> str:
    """A constraint of xDSL in a few words."""
    match type(given).__name__:
        case "RangeOf" | "MessageConstraint":
            return constraint(given.constr)
        case "RangeLengthConstraint":
            return constraint(given.constraint)
        case "BaseAttr":
            return _named(given.attr)
        case "ParamAttrConstraint":
            return _named(given.base_attr)
        case "EqAttrConstraint":
            return f"`{given.attr}`"
        case "ArrayOfConstraint":
            return f"an array of {constraint(given.elem_range_constraint)}"
        case "AnyOf":
            return " or ".join(map(constraint, given.attr_constrs))
        case "SymbolNameConstraint":
            return "a symbol"
        case "VarConstraint":
            return constraint(given.constraint)
        case "AnyAttr":
            return "any"
        case _:
            return f"`{type(given).__name__}`"


def _named(attribute: type[Any]) -> str:
    return f"`{attribute.name}`"


def _table(kind: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of names and what they are; nothing without any."""
    if not rows:
        return ""
    cells = [f"| `{name}` | {_cell(said)} |" for name, said in rows]
    return "\n".join([f"| {kind} | |", "|---|---|", *cells])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _scalars() -> str:
    """The table of scalar operations, which all IRs from Tensor IR on share."""
    rows = []
    for name, row in SCALARS.items():
        written = row.helper or row.call or row.infix
        calls = ", ".join(f"`{op}`" for op in row.aten)
        rows.append(f"| `{name}` | `{_cell(written)}` | {row.cost:g} | {calls} |")
    head = [
        "# Scalar operations",
        "",
        "What stands between loads and stores, in each IR: operations of `arith` and `math`, rows "
        "of `dlc/ir/scalar_ops.py`. The price is in issue slots of a thread, roughly.",
        "",
        "| operation | in CUDA C | price | of ATen |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"
