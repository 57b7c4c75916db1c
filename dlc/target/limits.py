"""What is the same of all chips so far: limits, widths and alignments of hardware and drivers."""

from __future__ import annotations

KIB, MIB = 1 << 10, 1 << 20

MAX_THREADS = 1024
"""Threads that a block can have, on every chip."""
MAX_GRID = 2**31 - 1
"""Blocks that a one-dimensional grid can have, on every chip (CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability")."""
MAX_CLUSTER = 8
"""Blocks that a cluster can have, on every chip that has any (CUDA C++ Programming Guide, "Thread
Block Clusters")."""
MAX_REGISTERS = 255
"""Registers that a thread can have, on every chip; what is more lies in memory."""
WARP = 32
"""Lanes of a warp, on every chip so far: what shuffles, banks and copies go by. Estimates and
schedules go by `Target.warp`."""
WARPGROUP = 4 * WARP
"""Threads that `wgmma` is for: four warps that follow each other, the first one's number a multiple
of four (PTX ISA, "warpgroup")."""
WIDEST_ACCESS = 16
"""Bytes of the widest access of a thread, and what such an address has to be a multiple of (PTX
ISA, "Vector Data Types" and "cp.async")."""
TMA_ALIGNMENT = 128
"""Bytes that divide the address in shared memory of a box that the tensor memory accelerator copies
(PTX ISA, "cp.async.bulk.tensor")."""
BANKS, BANK_BYTES = 32, 4
"""Banks of shared memory, and the bytes of a bank's words, on every chip."""
SECTOR_BYTES = 32
"""Bytes that are fetched from global memory at once, on every chip."""
LINE_BYTES = 128
"""Bytes of a line of the L1 cache, on every chip (CUDA C++ Programming Guide, "Global Memory"): of
what a warp asks for at once, each line is taken to cost a clock."""
TENSOR_ALIGNMENT = 16
"""Bytes that divide the address and the strides of a tensor of which TMA copies boxes, and a box's
rows (CUDA driver API, cuTensorMapEncodeTiled)."""
PARAMETER_ALIGNMENT = 16
"""Bytes that divide the address of a kernel's first parameter, on every chip so far: sm_90 has it
at 0x210 (EIATTR_PARAM_CBANK of its cubins)."""
MBARRIER_BYTES = 8
"""Size and alignment of an mbarrier (PTX ISA, "mbarrier object")."""
BUFFER_ALIGNMENT = 256
"""Bytes that divide the address of any allocation of the CUDA driver or of PyTorch (CUDA C++
Programming Guide, "Device Memory Accesses")."""
BLOCK_THREADS = 256
"""Threads of a block that is free to have any number: a multiple of which every SM holds."""
REGISTER_UNIT, WARP_UNIT = 256, 4
"""Registers are dealt to a warp in units of so many, and to so many warps at once."""
REGISTER_STEP = REGISTER_UNIT // WARP
"""The same of a thread."""
FEWEST_SET_REGISTERS, MOST_SET_REGISTERS = 24, 256
"""Registers that a thread can set at least and at most, in such steps (PTX ISA, "setmaxnreg")."""
SHARED_UNIT = 128
"""Bytes of shared memory are dealt to a block in such units."""
STATIC_SHARED_LIMIT = 48 * KIB
"""Bytes of shared memory that a block gets without opting in, on every chip."""
