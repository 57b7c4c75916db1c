"""
Plans of which kernels merge, as text: `exp:never,add:always`.

    FusionPlan.of("exp:never").write(module)       # Loop IR that is not fused yet
    run_pipeline(ctx, module, "kernel", [FusionPlan.of("exp:never")])

A plan names kernels as they are before `fuse-loops`, each with what its attribute `fuse` shall say;
of all others the estimate decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.diagnostics import did_you_mean, with_hint
from dlc.dialects.loop import KernelOp
from dlc.passes import Step, step_before
from dlc.remarks import Remark

FUSE = "fuse"
"""The attribute of a kernel that forces (`"always"`) or forbids (`"never"`) merging it into the
kernels that read its result."""
WISHES = ("always", "never")
FUSING = "fuse-loops"
"""The pass before which plans are written."""


@dataclass(frozen=True)
class FusionPlan:
    """A plan; as an observer of the pipeline, it is written where kernels are about to merge."""

    wishes: tuple[tuple[str, str], ...] = ()
    """Kernels by name, each with `never` or `always`."""

    @staticmethod
    def of(text: str) -> FusionPlan:
        """The plan of a text; ValueError for one that is none."""
        pairs = [part.strip().partition(":") for part in text.split(",")]
        for name, _, wish in pairs:
            if not name or wish not in WISHES:
                found = f"{name}:{wish}" if wish else name
                error = ValueError(f"expected a kernel and always or never, found '{found}'")
                raise with_hint(error, "such as exp:never,add:always")
        return FusionPlan(tuple((name, wish) for name, _, wish in pairs))

    @staticmethod
    def written(module: ModuleOp) -> FusionPlan:
        """What the kernels of a module say."""
        said = [(kernel.name_, kernel.attributes.get(FUSE)) for kernel in _kernels(module)]
        return FusionPlan(tuple((n, a.data) for n, a in said if isinstance(a, StringAttr)))

    def write(self, module: ModuleOp) -> None:
        """Says it of the kernels of a module; ValueError if it has no such kernel."""
        kernels = _kernels(module)
        names = [kernel.name_ for kernel in kernels]
        for name, wish in self.wishes:
            if name not in names:
                error = ValueError(f"the plan names '{name}', and there is no such kernel")
                known = f"before fusion they are {', '.join(dict.fromkeys(names))}"
                raise with_hint(error, did_you_mean(name, names) or known)
            for kernel in kernels:
                if kernel.name_ == name:
                    kernel.attributes[FUSE] = StringAttr(wish)

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        pass

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == step_before(FUSING):
            self.write(module)

    def __str__(self) -> str:
        return ",".join(f"{name}:{wish}" for name, wish in self.wishes)


def _kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]
