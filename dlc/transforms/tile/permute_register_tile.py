"""A thread's register tile is dealt out in strips or interleaved, to meet distinct banks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from dlc.analysis.tile.register_pairs import Pair, register_pairs
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER
from dlc.registry import OptionError
from dlc.schedule.strips import choose_strips, dealt
from dlc.transforms.axes.deal_out import deal_out
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_options import by_name, divisors, looking_for
from dlc.transforms.step_space import Domain


@dataclass(frozen=True)
class PermuteRegisterTilePass(SchedulingPass):
    """
    The register tile of a thread is dealt out anew, so that a warp's loads hit distinct banks.

    *Legal when* every expression mentions a thread axis of T points and a register axis of R points
    only as `%t * R + %r`: any other way to number the T * R points serves as well. Strips of S,
    `%ro * (S * T) + %t * S + %ri`, are one; strips of 1 are interleaving, `%r * T + %t`.
    *Faster because* conflicting loads from shared memory are served one after the other, and
    because neighbouring threads that store neighbouring elements fill whole sectors.

    ```
    tile.launch … thread(%tj in 16) register(%rj in 8) {
      %b = tile.load %Bs[%ki, %tj * 8 + %rj]
    ```
    becomes, with `axes=rj strip=4`,
    ```
    tile.launch … thread(%tj in 16) register(%rjo in 2, %rji in 4) {
      %b = tile.load %Bs[%ki, %rjo * 64 + %tj * 4 + %rji]
    ```
    """

    name = "permute-register-tile"

    axes: tuple[str, ...] = ()
    """The register axes to deal out; all that can be if none is named."""
    strip: tuple[int, ...] | None = None
    """Neighbouring points of a thread along each of the axes, or along all; divides the axis. What
    conflicts least (`dlc.schedule.strips`) if the step is bare."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "axes": Domain(((),)),
        "strip": Domain((None, (1,), (2,), (4,)), least=1),
    }

    def decided(self, kernel: tile.KernelOp, module: ModuleOp) -> tuple[Self, str]:
        if self.strip is not None:
            return self, ""
        pairs = _pairs(kernel.launch)
        strips, notes = choose_strips(kernel, deal_out)
        if not strips:
            raise Decline("no order of its register tile conflicts less")
        kept = {pair: kernel.launch.extent(axis) for pair, axis in pairs.items()}
        names = tuple(axis.name_hint or "r" for axis in pairs.values())
        step = type(self)(names, tuple((kept | {**strips}).values()))
        return step, "; ".join(notes)

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        with looking_for(self.axes, "axes"):
            pairs = {axis: pair for pair, axis in _pairs(launch).items()}
        assert self.strip is not None
        named = [(axis.name_hint or "r", axis) for axis in pairs]
        given = by_name(named, "register axis", self.axes, self.strip, ("axes", "strip"))
        strips: dict[Pair, int] = {}
        for axis, strip in given.items():
            extent = launch.extent(axis)
            if extent % strip:
                message = f"strips of {strip} do not divide the {extent} points of a thread"
                raise OptionError("strip", message, divisors(extent))
            if strip < extent:
                strips[pairs[axis]] = strip
        if not strips:
            raise Decline("its register tile stays as it is")
        done = [
            f"%{launch.axes[pair.thread].name_hint}, %{launch.axes[pair.register].name_hint} "
            f"{dealt(strip)}"
            for pair, strip in strips.items()
        ]
        deal_out(launch, strips)
        return "; ".join(done)


def _pairs(launch: tile.LaunchOp) -> dict[Pair, BlockArgument]:
    """The pairs that can be dealt out anew, with their register axes."""
    if not launch.axes_of(REGISTER):
        raise Decline("it has no register axis (register-tile makes them)")
    pairs = register_pairs(launch)
    if not pairs:
        raise Decline("its thread and register axes are not mentioned as %t * R + %r")
    return {pair: launch.axes[pair.register] for pair in pairs}
