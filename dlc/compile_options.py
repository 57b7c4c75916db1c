"""How a program is compiled: what `dlc.compile` takes beside the program and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.executor import Backend
from dlc.dialects.frozen import freeze
from dlc.dialects.fusion_plan import FusionPlan
from dlc.judge.tuned_schedules import objectives_for
from dlc.precision import Precision, get_precision
from dlc.stages import Stages, by_kernel
from dlc.target import set_target


@dataclass(frozen=True)
class CompileOptions:
    """
    The arguments of `dlc.compile` of these names, which says what they mean. TypeError for a flag
    that is neither True nor False and for schedules that are no mapping of texts, ValueError for an
    unknown precision. Equal ones compile alike; they have no hash, as mappings have none.
    """

    __hash__ = None  # pyright: ignore

    graph: bool = False
    schedules: Mapping[str, str] = field(default_factory=dict[str, str])
    tuned: bool = False
    plan: str | None = None
    precision: str | None = None
    dynamic_shapes: Any = None
    overlap: bool = False
    freeze: bool = False
    one_launch: bool = False

    def __post_init__(self) -> None:
        for name in ("graph", "tuned", "overlap", "freeze", "one_launch"):
            check_flag(name, getattr(self, name))
        object.__setattr__(self, "schedules", by_kernel(self.schedules))  # a copy
        if self.precision is not None:
            get_precision(self.precision)

    def with_schedules(self, schedules: Mapping[str, str]) -> CompileOptions:
        """The same, with schedules for some kernels more, or in place of what these had."""
        return replace(self, schedules={**self.schedules, **by_kernel(schedules)})

    def stages(
        self, module: ModuleOp, target: str, precision: Precision, backend: Backend
    ) -> Stages:
        """What an imported program is compiled in, of which products of f32 are of `precision`."""
        set_target(module, target, precision, one_launch=self.one_launch)
        if self.freeze:
            freeze(module)
        return Stages(
            module,
            self.schedules,
            tuned=objectives_for(backend.name) if self.tuned else (),
            plan=None if self.plan is None else FusionPlan.of(self.plan),
            overlap=self.overlap,
        )


def check_flag(name: str, value: object) -> None:
    """TypeError for what is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"expected True or False for {name}, found {value!r}")
