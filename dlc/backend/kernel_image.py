"""
A kernel as it is launched: all that executors, backends and reports know of it beside its body.

What is known of a kernel is found out from its body, or was, and is given beside a way to read the
body: then nothing is parsed, nor Kernel IR's dialects imported, for as long as nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlc.ir.cached import cached

if TYPE_CHECKING:
    from dlc.analysis.kernel.tensor_maps import TensorMap
    from dlc.dialects.kernel import FuncOp


OF_ALL_SIZES = (
    "c_name", "source", "parameter_types", "shared_bytes", "dynamic_shared_bytes", "overlaps",
)  # fmt: skip
"""What is known of a kernel whatever its sizes are, and found out once."""


@dataclass(frozen=True)
class KernelImage:
    """One kernel of one module: images are equal that are of the same."""

    origin: Hashable = field(repr=False)
    read: Callable[[], FuncOp] = field(repr=False, compare=False)
    """Its body in Kernel IR."""

    @staticmethod
    def of(func: FuncOp) -> KernelImage:
        return KernelImage(func, lambda: func)

    @staticmethod
    def known(facts: Mapping[str, Any], read: Callable[[], FuncOp]) -> KernelImage:
        """An image of which `facts` are known, by the names of its attributes."""
        image = KernelImage(object(), read)
        image.__dict__.update(facts)
        return image

    @staticmethod
    def of_all_sizes(func: FuncOp) -> KernelImage:
        """The image of a kernel that what is known of it whatever its sizes are is kept in."""
        return vars(func).setdefault("kept_image", KernelImage.of(func))

    @staticmethod
    def at(func: FuncOp, bound: FuncOp, sizes: Mapping[str, int]) -> KernelImage:
        """
        A kernel as it is launched for these values of the sizes that it leaves open, by name, given
        what it is for these alone.
        """
        from dlc.backend.cuda.print.interface import tensor_maps
        from dlc.dialects.kernel_parts import kernel_sizes
        from dlc.dialects.size_index import SizeIndexOp

        names = {op.size.data for op in func.walk() if isinstance(op, SizeIndexOp)}
        own = tuple((name, sizes[name]) for name in sorted(names))
        if not own:
            return KernelImage.of(func)
        image = KernelImage((func, own), lambda: func)
        shared = KernelImage.of_all_sizes(func)
        image.__dict__.update(
            {name: getattr(shared, name) for name in OF_ALL_SIZES},
            grid_size=bound.grid_size,
            size_values=tuple(sizes[op.size.data] for op in kernel_sizes(func)),
            tensor_maps=tuple(tensor_maps(bound, func)),
        )
        return image

    @cached
    def size_values(self) -> tuple[int, ...]:
        """The numbers of the sizes that it takes beside buffers."""
        return ()

    @cached
    def func(self) -> FuncOp:
        return self.read()

    @cached
    def name_(self) -> str:
        """The name in the IR."""
        return self.func.name_

    @cached
    def c_name(self) -> str:
        """The name in C."""
        from dlc.backend.cuda.print.interface import c_name

        return c_name(self.func)

    @cached
    def schedule(self) -> str:
        """The line of text; empty if the kernel states none."""
        return "" if self.func.schedule is None else self.func.schedule.data

    @cached
    def target(self) -> str | None:
        """The chip that it is scheduled for, if that is stated."""
        from dlc.target import stated_target

        module = self.func.parent_op()
        return None if module is None else stated_target(module)

    @cached
    def grid_size(self) -> int:
        """Blocks."""
        return self.func.grid_size

    @cached
    def block_size(self) -> int:
        """Threads of a block."""
        return self.func.block_size

    @cached
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block, static or dynamic."""
        from dlc.backend.cuda.print.interface import shared_bytes

        return shared_bytes(self.func)

    @cached
    def dynamic_shared_bytes(self) -> int:
        """Bytes of shared memory to ask for at the launch: 0 where all of it is static."""
        from dlc.backend.cuda.print.interface import dynamic_shared_bytes

        return dynamic_shared_bytes(self.func)

    @cached
    def overlaps(self) -> bool:
        """True if it may begin before the launch ahead of it ends."""
        from dlc.dialects.kernel_grids import waits_for_grids

        return waits_for_grids(self.func)

    @cached
    def buffers(self) -> tuple[str, ...]:
        """Name and type of each buffer that it takes: inputs, then outputs."""
        return tuple(f"{ref.name_hint}: {ref.type}" for ref in self.func.refs)

    @cached
    def parameter_types(self) -> tuple[str, ...]:
        """The C types of its parameters: tensor maps, inputs, outputs, sizes."""
        from dlc.backend.cuda.print.interface import parameter_types

        return tuple(parameter_types(self.func))

    @cached
    def tensor_maps(self) -> tuple[tuple[int, TensorMap], ...]:
        """For each tensor map the number of its buffer, and what the map says."""
        from dlc.backend.cuda.print.interface import tensor_maps

        return tuple(tensor_maps(self.func))

    @cached
    def source(self) -> str:
        """CUDA C that compiles on its own."""
        from dlc.backend.cuda.print.printer import print_kernel

        return print_kernel(self.func)
