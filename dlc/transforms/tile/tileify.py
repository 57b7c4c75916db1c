"""Every point of the free loops gets a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.dialects.access import StoreOpBase
from dlc.dialects.axes import THREAD
from dlc.dialects.scan_ops import AlongOpBase
from dlc.registry import OptionError
from dlc.schedule.repeats import reduces_updated, repeat_reduces
from dlc.text import counted
from dlc.transforms.axes.loop_to_tile import as_tile
from dlc.transforms.step import Decline, Kernel, SchedulingPass
from dlc.transforms.step_space import Domain, Value

TILED = "the kernel is tiled already"


@dataclass(frozen=True)
class TileifyPass(SchedulingPass):
    """
    The outer free loops of a kernel become thread axes of a tile kernel.

    *Legal always*: the points of a free loop are independent. A loop inside is taken along while
    what stands beside it is cheap to repeat, that is, holds no reduce and no other loop; not one
    along which a scan goes.
    *Faster because* every point gets a thread of its own.

    ```
    loop.for %i in 100, %j in 64 { %s = loop.reduce add %k in 8 -> f32 { … } … }
    ```
    becomes
    ```
    tile.launch thread(%i in 100, %j in 64) { %s = tile.reduce add serial(%k in 8) -> f32 { … } … }
    ```

    With `repeat=true`, reduces before the loop are repeated, too: where few rows are reduced before
    they are read at many points, each point becomes a row of its own.
    """

    name = "tileify"

    repeat: bool = False
    """Whether reduces are repeated at each point of a loop behind them."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "repeat": Domain((False, True), narrowed=lambda _: _decided()),
    }

    def rewrite(self, kernel: Kernel, module: ModuleOp) -> tuple[Self, str]:
        if isinstance(kernel, tile.KernelOp):
            return super().rewrite(kernel, module)
        if self.repeat and reduces_updated(kernel):
            message = "it updates its input in place, which points reduce that come later"
            raise OptionError("repeat", message, "leave it out")
        repeated = repeat_reduces(kernel) if self.repeat else 0
        if self.repeat and not repeated:
            message = "no reduce stands before a loop that is the only one beside it"
            raise OptionError("repeat", message, "leave it out")
        launch = as_tile(kernel).launch
        while inner := _sole_loop(launch):
            _absorb(launch, inner)
        threads = ", ".join(f"%{a.name_hint}" for a in launch.axes)
        done = f"thread axes {threads}" if launch.axes else "one thread"
        again = f", {counted(repeated, 'reduce')} at each of their points" if repeated else ""
        return self, done + again

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline(TILED)


def _decided() -> Iterable[Value]:
    """None: a kernel of the tile dialect has its axes."""
    raise Decline(TILED)


def _sole_loop(launch: tile.LaunchOp) -> tile.ForOp | None:
    """The only op with a body or effect in the launch, if that is a for loop with free axes."""
    nested = [op for op in launch.body.block.ops if op.regions or isinstance(op, StoreOpBase)]
    if len(nested) != 1 or not isinstance(nested[0], tile.ForOp):
        return None
    scanned = any(isinstance(op, AlongOpBase) for op in nested[0].body.block.ops)
    return None if scanned else nested[0]


def _absorb(launch: tile.LaunchOp, inner: tile.ForOp) -> None:
    """Makes the axes of a loop in the launch thread axes of the launch."""
    block = launch.body.block
    extents = [*map(launch.extent, launch.axes), *map(inner.extent, inner.axes)]
    for axis in inner.axes:
        new = block.insert_arg(axis.type, len(block.args))
        new.name_hint = axis.name_hint
        axis.replace_all_uses_with(new)
    for op in list(inner.body.block.ops):
        op.detach()
        if not isinstance(op, tile.YieldOp):
            block.insert_op_before(op, inner)
    inner.detach()
    inner.erase()
    launch.set_axes(extents, [THREAD] * len(extents))
    launch.location = inner.location
