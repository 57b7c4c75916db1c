"""For which chip, and in which precision, a module says that it is compiled."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dlc.precision import Precision, get_precision
from dlc.target.chip import Target
from dlc.target.chip_table import get_target

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

DEFAULT_TARGET = "sm_90"
TARGET_ATTRIBUTE = "dlc.target"
PRECISION_ATTRIBUTE = "dlc.precision"


def set_target(module: ModuleOp, target: str, precision: str = "f32") -> None:
    """
    Schedules of `module` are to be made for `target`, with products of f32 in `precision`;
    ValueError if there is none such.
    """
    from xdsl.dialects.builtin import StringAttr

    module.attributes[TARGET_ATTRIBUTE] = StringAttr(get_target(target).name)
    module.attributes.pop(PRECISION_ATTRIBUTE, None)
    if get_precision(precision) != "f32":
        module.attributes[PRECISION_ATTRIBUTE] = StringAttr(precision)


def target_of(module: ModuleOp) -> Target:
    """
    The target of a module's attribute `dlc.target`, by default sm_90, and the precision of its
    attribute `dlc.precision`, by default f32. ValueError if there is none such.
    """
    return _asked(get_target(stated_target(module) or DEFAULT_TARGET), precision_of(module))


@lru_cache
def _asked(target: Target, precision: Precision) -> Target:
    return target if precision == target.precision else replace(target, precision=precision)


def stated_target(module: Operation) -> str | None:
    """What a module's attribute `dlc.target` says, if it has one."""
    return _stated(module, TARGET_ATTRIBUTE)


def precision_of(module: Operation) -> Precision:
    """What products of f32 in a module may be computed in."""
    return get_precision(_stated(module, PRECISION_ATTRIBUTE) or "f32")


def _stated(module: Operation, name: str) -> str | None:
    from xdsl.dialects.builtin import StringAttr

    attribute = module.attributes.get(name)
    return attribute.data if isinstance(attribute, StringAttr) else None
