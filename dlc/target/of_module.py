"""For which chip, in which precision and in which launches a module says that it is compiled."""

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
ONE_LAUNCH_ATTRIBUTE = "dlc.one_launch"


def set_target(
    module: ModuleOp, target: str, precision: str = "f32", *, one_launch: bool | None = None
) -> None:
    """
    Schedules of `module` are to be made for `target`, with products of f32 in `precision`, and with
    sums that end in one launch or however is fastest, as it says already if None is asked for;
    ValueError if there is none such.
    """
    from xdsl.dialects.builtin import StringAttr, UnitAttr

    module.attributes[TARGET_ATTRIBUTE] = StringAttr(get_target(target).name)
    module.attributes.pop(PRECISION_ATTRIBUTE, None)
    if get_precision(precision) != "f32":
        module.attributes[PRECISION_ATTRIBUTE] = StringAttr(precision)
    if one_launch is False:
        module.attributes.pop(ONE_LAUNCH_ATTRIBUTE, None)
    elif one_launch:
        module.attributes[ONE_LAUNCH_ATTRIBUTE] = UnitAttr()


def target_of(module: ModuleOp) -> Target:
    """
    The target of a module's attribute `dlc.target`, by default sm_90, the precision of its
    attribute `dlc.precision`, by default f32, and whether sums end in one launch, which its
    attribute `dlc.one_launch` asks for. ValueError if there is none such.
    """
    chip = get_target(stated_target(module) or DEFAULT_TARGET)
    return _asked(chip, precision_of(module), ONE_LAUNCH_ATTRIBUTE in module.attributes)


@lru_cache
def _asked(target: Target, precision: Precision, one_launch: bool) -> Target:
    if (precision, one_launch) == (target.precision, target.one_launch):
        return target
    return replace(target, precision=precision, one_launch=one_launch)


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
