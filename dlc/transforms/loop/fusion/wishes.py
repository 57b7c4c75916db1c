"""What is said of which kernels merge: by their attribute `fuse`, and by groups of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import DiagnosticException

from dlc.dialects.fusion_plan import FUSE, WISHES, groups_of
from dlc.dialects.loop import KernelOp


def forbidden(producer: KernelOp, consumers: Sequence[KernelOp]) -> str | None:
    """The reason why a kernel shall not be merged into those that read its result, if any."""
    if _wish(producer) == "never":
        return "the attribute `fuse` forbids it"
    own = set(groups_of(producer))
    for consumer, theirs in zip(consumers, _groups(consumers), strict=True):
        if (own or theirs) and not own & theirs:
            return f"the plan has @{consumer.name_}, which reads it, in another group"
    return None


def demanded(producer: KernelOp, consumers: Sequence[KernelOp]) -> bool:
    """True if a kernel shall be merged into those that read its result even if it does not pay."""
    own = set(groups_of(producer))
    return _wish(producer) == "always" or all(own & theirs for theirs in _groups(consumers))


def share_a_group(one: KernelOp, other: KernelOp) -> bool:
    """True if a plan has two kernels in one group."""
    return not set(groups_of(one)).isdisjoint(groups_of(other))


def check_wishes(kernels: Iterable[KernelOp]) -> None:
    """DiagnosticException for a kernel whose attribute `fuse` says what none may say."""
    for kernel in kernels:
        _wish(kernel)


def planned(kernels: Iterable[KernelOp]) -> list[str]:
    """The texts of the groups that kernels are in."""
    return list(dict.fromkeys(group for kernel in kernels for group in groups_of(kernel)))


def check_groups(
    groups: Iterable[str], kernels: Sequence[KernelOp], kept: Mapping[KernelOp, object]
) -> None:
    """DiagnosticException if the kernels of a group did not become one, with the reason."""
    for group in groups:
        members = [kernel for kernel in kernels if group in groups_of(kernel)]
        if not members:
            raise DiagnosticException(
                f"the plan's group {group} makes no kernel: others compute all of it themselves"
            )
        made = {result for kernel in members for result in kernel.results}
        # What is stored in one tensor, piece by piece, is a kernel for each piece.
        wholes = [k for k in members if not made.intersection(k.updated_of(k.inputs))]
        if len(wholes) > 1:
            names = ", ".join(kernel.name_ for kernel in wholes)
            reasons = (f"{k.name_} is kept apart: {kept[k]}" for k in wholes if k in kept)
            why = next(reasons, "none of them reads what another one computes")
            raise DiagnosticException(
                f"the plan's group {group} cannot be one kernel, but is {names}: {why}"
            )


def _groups(kernels: Iterable[KernelOp]) -> list[set[str]]:
    return [set(groups_of(kernel)) for kernel in kernels]


def _wish(kernel: KernelOp) -> str | None:
    attribute = kernel.attributes.get(FUSE)
    if attribute is None:
        return None
    if not isinstance(attribute, StringAttr) or attribute.data not in WISHES:
        raise DiagnosticException(
            f'kernel \'{kernel.name_}\': expected `{FUSE}` to be "always" or "never", '
            f"found {attribute}"
        )
    return attribute.data
