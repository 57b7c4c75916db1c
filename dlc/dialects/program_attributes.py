"""The attributes `dlc.…` of a module and of `@main`, which somebody may have misspelt."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr, TensorType
from xdsl.ir import Operation

from dlc.diagnostics import TextError, did_you_mean, with_hint
from dlc.dialects.frozen import FROZEN
from dlc.dialects.main_function import attributes_of, attributes_of_results
from dlc.ir.elements import ELEMENTS, find_element
from dlc.target import ONE_LAUNCH_ATTRIBUTE, PRECISION_ATTRIBUTE, TARGET_ATTRIBUTE, target_of

PLUGINS = "dlc.plugins"
"""The attribute of a module that says of the steps of plug-ins which bring them."""
OF_MODULES = (TARGET_ATTRIBUTE, PRECISION_ATTRIBUTE, ONE_LAUNCH_ATTRIBUTE, PLUGINS, FROZEN)
OF_ARGUMENTS = tuple(
    f"dlc.{name}" for name in ("name", "kind", "draws", "dtype", "strides", "align", "bounds")
)
OF_MAIN = ("dlc.outputs",)
OF_RESULTS = tuple(f"dlc.{name}" for name in ("dtype", "mutates", "strides"))
KINDS = ("input", "parameter", "buffer", "constant", "random")
"""What an argument of `@main` may be."""


def check_attributes(module: ModuleOp, target: str | None = None) -> None:
    """
    TextError for attributes that dlc does not know, kinds of arguments and types of elements that
    it has not, and, without a `target` in its place, a target that there is none of.
    """
    _check_names(module, module.attributes, OF_MODULES, "a module")
    if target is None:
        try:
            target_of(module)
        except ValueError as error:
            stated = module.attributes[TARGET_ATTRIBUTE]
            wrong = str(error).rpartition("'")[0].rpartition("'")[2]
            new = _at(module, wrong or str(stated), str(error))
            new.__notes__ = getattr(error, "__notes__", [])
            raise new from None
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main" and op.body.blocks:
            _check_main(op)


def _check_main(main: func.FuncOp) -> None:
    _check_names(main, main.attributes, OF_MAIN, "@main")
    for attributes in attributes_of(main):
        _check_names(main, attributes, OF_ARGUMENTS, "an argument")
        kind = attributes.get("dlc.kind")
        if isinstance(kind, StringAttr) and kind.data not in KINDS:
            message = f"unknown dlc.kind '{kind.data}', expected one of {', '.join(KINDS)}"
            raise with_hint(_at(main, kind.data, message), did_you_mean(kind.data, KINDS))
    for attributes in attributes_of_results(main):
        _check_names(main, attributes, OF_RESULTS, "a result")
    for type in (*main.function_type.inputs, *main.function_type.outputs):
        if isinstance(type, TensorType | MemRefType) and find_element(type.element_type) is None:
            known = [str(element.type) for element in ELEMENTS]
            unknown = str(type.element_type)
            message = f"unknown element type '{unknown}', expected one of {', '.join(known)}"
            raise with_hint(_at(main, f"x{unknown}", message, 1), did_you_mean(unknown, known))


def _check_names(op: Operation, found: Iterable[str], known: Iterable[str], what: str) -> None:
    for name in found:
        if name.startswith("dlc.") and name not in known:
            message = f"unknown attribute '{name}' of {what}"
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise with_hint(_at(op, name, message), hint)


def _at(op: Operation, text: str, message: str, skip: int = 0) -> TextError:
    """An error at the first such text in that of `op`, but for so many characters."""
    return TextError(op, message, text, (skip, len(text)), (0, len(text)))
