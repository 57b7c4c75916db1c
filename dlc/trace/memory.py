"""Launches and memory of a program whose buffers are planned, for the page."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.host_program import HostProgram
from dlc.backend.memory_use import MemoryUse, lifetimes
from dlc.dialects import host
from dlc.trace.model import Block, Memory


def memory_of(module: ModuleOp) -> Memory | None:
    """
    What a call launches and where tensors lie in between. A tensor that a loop carries is used by
    the launches from the first to the last of the loop.
    """
    if not any(isinstance(op, host.LaunchOp) for op in module.walk()):
        return None
    program = HostProgram.of(module).bind()
    if not program.planned:
        return None
    use, found = MemoryUse.of(program), lifetimes(program)
    times = [time for time, _ in found.launches]
    blocks = [
        Block(
            life.slice.name,
            life.slice.offset,
            life.buffer.size,
            min(bisect_left(times, life.buffer.first), len(times) - 1),
            max(bisect_right(times, life.buffer.last) - 1, 0),
        )
        for life in found.lives
    ]
    names = [launch.func.name_ for _, launch in found.launches]
    return Memory(names, use.workspace, use.results, blocks)
