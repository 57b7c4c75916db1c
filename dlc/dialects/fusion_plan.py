"""
Plans of which kernels merge, as text: `exp,add+sum`.

    FusionPlan.of("exp,add+sum").write(module)     # Loop IR that is not fused yet
    run_pipeline(ctx, module, "kernel", [FusionPlan.of("exp,add+sum")])

A plan is groups of kernels by their names before `fuse-loops`: those of a group become one kernel,
and merge with none that is not in it. A kernel in two groups is computed in both. Of kernels that
are in no group the estimate decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from dlc.diagnostics import did_you_mean, with_hint
from dlc.dialects.loop import KernelOp
from dlc.passes import Step, step_before
from dlc.remarks import Remark

FUSE = "fuse"
"""The attribute of a kernel that forces (`"always"`) or forbids (`"never"`) merging it into the
kernels that read its result."""
WISHES = ("always", "never")
GROUPS = "groups"
"""The attribute of a kernel that has the texts of its groups in a plan."""
MEMBERS = "members"
"""The attribute of a kernel that has the names of those before fusion that it was made of."""
FUSING = "fuse-loops"
"""The pass before which plans are written."""

Group = tuple[str, ...]


def has_wishes(kernel: KernelOp) -> bool:
    """True if it is said of a kernel what it shall merge with."""
    return not {FUSE, GROUPS}.isdisjoint(kernel.attributes)


@dataclass(frozen=True)
class FusionPlan:
    """A plan; as an observer of the pipeline, it is written where kernels are about to merge."""

    groups: tuple[Group, ...] = ()
    """Of names of kernels."""

    @staticmethod
    def of(text: str) -> FusionPlan:
        """The plan of a text; ValueError for one that is none."""
        groups = [tuple(name.strip() for name in part.split("+")) for part in text.split(",")]
        for group in groups:
            if not all(name.replace("_", "").isalnum() for name in group):
                error = ValueError(
                    f"expected names of kernels with + between them, found '{'+'.join(group)}'"
                )
                raise with_hint(error, "such as exp,add+sum")
        return FusionPlan(tuple(dict.fromkeys(groups)))

    @staticmethod
    def written(module: ModuleOp) -> FusionPlan:
        """The plan that was written on the kernels of a module."""
        found = dict.fromkeys(group for k in _kernels(module) for group in groups_of(k))
        return FusionPlan(tuple(tuple(group.split("+")) for group in found))

    @staticmethod
    def made(module: ModuleOp) -> FusionPlan:
        """
        The plan by which a module became what it is, all kernels in a group, where `note_members`
        was called before fusion; what it noted is gone.
        """
        members = (_texts(k.attributes.pop(MEMBERS, None)) for k in _kernels(module))
        return FusionPlan(tuple(dict.fromkeys(tuple(names) for names in members if names)))

    def write(self, module: ModuleOp) -> None:
        """Writes it on the kernels of a module; ValueError if it has no such kernel."""
        kernels = _kernels(module)
        names = [kernel.name_ for kernel in kernels]
        for name in (name for group in self.groups for name in group):
            if name not in names:
                error = ValueError(f"the plan names '{name}', and there is no such kernel")
                known = f"before fusion they are {', '.join(dict.fromkeys(names))}"
                raise with_hint(error, did_you_mean(name, names) or known)
        for kernel in kernels:
            own = ["+".join(group) for group in self.groups if kernel.name_ in group]
            if own:
                kernel.attributes[GROUPS] = ArrayAttr(map(StringAttr, own))

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        pass

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == step_before(FUSING):
            self.write(module)

    def __str__(self) -> str:
        return ",".join(map("+".join, self.groups))


def groups_of(kernel: Operation) -> list[str]:
    """The texts of the groups of a kernel in a plan."""
    return _texts(kernel.attributes.get(GROUPS))


def note_members(module: ModuleOp) -> None:
    """Writes on each kernel its name, so that one that was merged says which it was made of."""
    for kernel in _kernels(module):
        kernel.attributes[MEMBERS] = ArrayAttr([StringAttr(kernel.name_)])


def join_members(merged: KernelOp, origins: Iterable[Operation]) -> None:
    """Writes on a kernel the names of those that it was made of, where they were noted."""
    found = dict.fromkeys(n for op in origins for n in _texts(op.attributes.get(MEMBERS)))
    if found:
        merged.attributes[MEMBERS] = ArrayAttr(map(StringAttr, found))


def _texts(attribute: object) -> list[str]:
    if not isinstance(attribute, ArrayAttr):
        return []
    return [item.data for item in attribute.data if isinstance(item, StringAttr)]


def _kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]
