"""
The part of the `tile` dialect that computes slabs in shared memory: see `ComputeOp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Region
from xdsl.irdl import irdl_op_definition, result_def, traits_def
from xdsl.traits import Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import LoadOpBase, YieldOpBase
from dlc.dialects.axes import THREAD, AxesOp, Over, axes_properties
from dlc.dialects.directives import MemRef
from dlc.dialects.layouts import shape_of
from dlc.dialects.staging import SharedAttr, verify_buffer


@irdl_op_definition
class ComputeOp(AxesOp):
    """
    A slab of which the threads of the block together compute each element once.

    ```
    %h = tile.compute thread(%p in 128, %q in 16) {
      %g = tile.load %g_smem[%p, %q] : memref<128x16xf32, #tile.shared>
      %v = math.tanh %g : f32
      tile.yield %v where (%ko * 16 + %q < 2040) : f32
    } : memref<128x16xf32, #tile.shared>
    ```

    The axes are the dimensions of the slab; its elements are dealt over all threads like those of
    a copy. The element where a condition is false is 0. What is yielded may vary along block and
    serial axes around, not along what the threads hold of their own.
    """

    name = "tile.compute"
    result = result_def(MemRefType)
    custom_directives = (Over, MemRef)
    assembly_format = (
        "custom<Over>($extents, $kinds, $body) attr-dict `:` custom<MemRef>(type($result))"
    )
    traits = traits_def(RecursiveMemoryEffect())

    KINDS: ClassVar = (THREAD,)

    def __init__(self, extents: Sequence[int], element: Attribute, body: Region) -> None:
        super().__init__(
            regions=[body],
            properties=axes_properties(type(self), extents, [THREAD] * len(extents)),
            result_types=[MemRefType(element, extents, memory_space=SharedAttr())],
        )

    @property
    def result_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.result.type, MemRefType)
        return self.result.type

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extents of the slab."""
        return shape_of(self.result_type)

    def verify_(self) -> None:
        self.verify_axes()
        element = self.result_type.element_type
        extents = list(self.static_extents)
        if 0 in extents:
            raise VerifyException(f"expected extents of at least 1, found {extents}")
        verify_buffer(
            self.result.type, MemRefType(element, extents, memory_space=SharedAttr()), "a result"
        )
        last = self.body.block.last_op
        found = [v.type for v in last.values] if isinstance(last, YieldOpBase) else []
        if found != [element]:
            raise VerifyException(
                f"expected a body that yields ({element}), found ({', '.join(map(str, found))})"
            )
        for op in self.body.block.ops:
            if not isinstance(op, LoadOpBase) and (op.regions or not op.has_trait(Pure)):
                raise VerifyException(f"expected a body of loads and arithmetic, found '{op.name}'")
