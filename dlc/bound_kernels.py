"""Kernel IR of all sizes at some of them: what is launched, and what that is predicted to take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.bound_program import BoundProgram
from dlc.backend.host_program import HostProgram
from dlc.backend.kernel_image import KernelImage
from dlc.dialects import host
from dlc.dialects.kernel import FuncOp, LaunchOp
from dlc.dialects.main_function import main_of
from dlc.pipeline import apply_pass, apply_step
from dlc.schedule.kernel_table import turns_around
from dlc.schedule.scheduled_time import scheduled_seconds
from dlc.stages import compiler_context
from dlc.target import target_of
from dlc.transforms.kernel.plan_buffers import PlanBuffersPass
from dlc.transforms.tensor.specialize import specialize


def seconds_at(kernels: ModuleOp, sizes: Mapping[str, int]) -> float:
    """What the launches are predicted to take, as often as loops of the host are known to run."""
    target = target_of(kernels)
    if sizes:
        kernels = kernels.clone()
        specialize(kernels, sizes)
        apply_step(compiler_context(), kernels, "canonicalize")  # how often loops run
    launches = Counter[FuncOp]()
    for op in main_of(kernels).walk():
        if isinstance(op, LaunchOp | host.LaunchOp) and op.callee is not None:
            launches[op.callee] += turns_around(op)
    return sum(scheduled_seconds(func, target) * times for func, times in launches.items())


def kernels_at(kernels: ModuleOp, sizes: Mapping[str, int]) -> ModuleOp:
    """A copy for these numbers alone, whose host program has its memory."""
    copy = kernels.clone()
    specialize(copy, sizes)
    apply_pass(compiler_context(), copy, PlanBuffersPass.name)
    return copy


def program_at(kernels: ModuleOp, sizes: Mapping[str, int]) -> BoundProgram:
    """
    The host program for values of all sizes, by name, which launches the kernels that there are for
    all of them. OpError where a value is missing, or is one that a kernel is not made for.
    """
    if not sizes:
        return HostProgram.of(kernels).bind()
    general = {op.name_: op for op in kernels.ops if isinstance(op, FuncOp)}
    images: dict[str, KernelImage] = {}

    def image(func: FuncOp) -> KernelImage:
        if func.name_ not in images:
            images[func.name_] = KernelImage.at(general[func.name_], func, sizes)
        return images[func.name_]

    return HostProgram.of(kernels_at(kernels, sizes)).bind(image)
