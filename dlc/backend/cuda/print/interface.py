"""The interface of a printed kernel, for its launch: name, parameters and shared memory."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.analysis.kernel.block_parts import parts_of
from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.analysis.kernel.tensor_maps import TensorMap, tensor_map, tma_obstacle
from dlc.backend.cuda.print.c_text import c_type, kernel_name
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.access import element_type
from dlc.dialects.kernel_parts import kernel_sizes
from dlc.dialects.kernel_registers import sets_registers
from dlc.target import MAX_REGISTERS, STATIC_SHARED_LIMIT, get_target, stated_target


def parameter_types(func: kernel.FuncOp) -> list[str]:
    """The C types of a kernel's parameters: tensor maps, inputs, outputs, sizes."""
    sizes = kernel_sizes(func)
    count = len(func.tensor_maps if sizes else tensor_maps(func))
    maps = ["const __grid_constant__ tensor_map"] * count
    inputs = [f"const {c_element(ref, func)}*" for ref in func.input_refs]
    outputs = [f"{c_element(ref, func)}*" for ref in func.output_refs]
    return maps + inputs + outputs + ["int"] * len(sizes)


def tensor_maps(
    func: kernel.FuncOp, of_all_sizes: kernel.FuncOp | None = None
) -> list[tuple[int, TensorMap]]:
    """
    For each tensor map of a kernel: the number of its argument, and what the map says. Where the
    kernel is one for all sizes that is bound, its maps have the dimensions of those of that one,
    also where an extent has become 1.
    """
    found: list[tuple[int, TensorMap]] = []
    dims = [op.dims for op in (of_all_sizes or func).tensor_maps]
    for op, own in zip(func.tensor_maps, dims, strict=True):
        ref = op.ref
        assert isinstance(ref, BlockArgument)
        if obstacle := tma_obstacle(op.type, op.box_sizes, func.alignment(ref)):
            fail(op, f"no tensor map can be made of %{ref.name_hint}: {obstacle}")
        found.append((ref.index, tensor_map(op, own)))
    return found


def blocks_at_once(func: kernel.FuncOp) -> list[int]:
    """
    So many blocks on an SM, at least, where nvcc must know: of a kernel that sets registers from
    the number at the entry, and where shared memory leaves room for no more than can have all the
    registers that a thread may, which nvcc would spill to make room for others.
    """
    if sets_registers(func):
        return [1]
    module = func.parent_op()
    target = None if module is None else stated_target(module)
    if target is None:
        return []
    chip, shared = get_target(target), shared_bytes(func)
    room = occupancy(chip, func.block_size, 1, shared)
    held = occupancy(chip, func.block_size, MAX_REGISTERS, shared)
    return [held.blocks] if room.limit == "shared" and room.blocks == held.blocks > 0 else []


def shared_bytes(func: kernel.FuncOp) -> int:
    """The bytes of shared memory of a block, static or dynamic."""
    return shared_slots(func)[1]


def dynamic_shared_bytes(func: kernel.FuncOp) -> int:
    """
    The bytes of shared memory to ask for at the launch: 0 where all of it is static. What parts of
    the blocks use in one place is declared by no C.
    """
    total = shared_bytes(func)
    return total if total > STATIC_SHARED_LIMIT or parts_of(func) else 0


def c_name(func: kernel.FuncOp) -> str:
    """The kernel's name in C: its own, unless that is one of the C library's."""
    return kernel_name(func.name_)


def check_names(funcs: Iterable[kernel.FuncOp]) -> None:
    """OpError for kernels that are to stand in one program and have one name in C."""
    known: dict[str, kernel.FuncOp] = {}
    for func in funcs:
        if (other := known.setdefault(c_name(func), func)) is not func:
            fail(
                func,
                f"expected kernels of different names in C, found that @{func.name_} and "
                f"@{other.name_} are both {c_name(func)}",
                "rename one of them",
            )


def c_element(ref: SSAValue, op: Operation) -> str:
    """The C type of a memref's elements."""
    name = c_type(element_type(ref.type))
    if name is None:
        fail(
            op,
            f"the CUDA printer has no C type for elements of {ref.type}",
            "floats of 8 to 64 bits, booleans and integers of 8 to 64 bits have one",
        )
    return name
