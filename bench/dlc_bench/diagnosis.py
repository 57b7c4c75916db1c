"""One line on what bounds a kernel, and what of it is weak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlc.target import Target
from dlc_bench.ceilings import Ceilings
from dlc_bench.ncu import Counters
from dlc_bench.statics import narrow, worst_ways

Row = dict[str, Any]
GLOBAL_LOADS = ("LDG", "LD", "LDGSTS")
GLOBAL_STORES = ("STG", "ST")
GOOD_FMA_SHARE = 0.85
FEW_WARPS = 0.25
IDLE_SMS = 0.5


def diagnose(
    kernel: Row, target: Target, counters: Counters | None = None, ceilings: Ceilings | None = None
) -> str:
    """
    Such as "memory-bound, 71 % of copy bandwidth; 4 of 8 loads are less than 16 bytes wide". The
    kernel is one of `statics.examine`; without counters nothing is said of how fast it runs.
    """
    bound = bound_of(kernel, target)
    weak = list(_weaknesses(kernel, bound, counters))
    parts = [", ".join([f"{bound}-bound", *_reached(kernel, bound, counters, ceilings, target)])]
    return "; ".join([*parts, *(weak or ["nothing weak is seen"])])


def bound_of(kernel: Row, target: Target) -> str:
    """`compute`, `memory`, or `launch` where the work is less than what starting it takes."""
    compute = kernel["flops"] / target.flops
    memory = kernel["memory_bytes"] / target.memory_bandwidth
    if max(compute, memory) < target.launch_seconds:
        return "launch"
    return "compute" if compute > memory else "memory"


def _reached(
    kernel: Row,
    bound: str,
    counters: Counters | None,
    ceilings: Ceilings | None,
    target: Target,
) -> Iterator[str]:
    """How close to its bound a kernel came, where it ran."""
    if counters is None or not counters.microseconds:
        yield f"{kernel['predicted_us']:.3g} us predicted"
        return
    yield f"{counters.microseconds:.3g} us"
    seconds = counters.microseconds / 1e6
    if bound == "compute":
        yield f"{kernel['flops'] / seconds / target.flops:.0%} of the fp32 peak"
    elif bound == "memory":
        reached = counters.dram_bandwidth or kernel["memory_bytes"] / seconds
        if ceilings is not None:
            yield f"{reached / ceilings.copy_bandwidth:.0%} of copy bandwidth"
        else:
            yield f"{reached / target.memory_bandwidth:.0%} of the memory's bandwidth"


def _weaknesses(kernel: Row, bound: str, counters: Counters | None) -> Iterator[str]:
    if kernel["spill_bytes"]:
        yield f"{kernel['spill_bytes']} bytes of registers are spilled"
    if kernel.get("serialized"):
        yield "ptxas serializes products of warpgroups, or ignores their registers (C75xx)"
    for what, kinds in (("loads", GLOBAL_LOADS), ("stores", GLOBAL_STORES)):
        if few := narrow(kernel["accesses"], kinds):
            total = sum(n for a, n in kernel["accesses"].items() if a.split(".")[0] in kinds)
            yield f"{few} of {total} {what} are less than 16 bytes wide"
    ways = worst_ways(kernel) if counters is None else counters.conflict_ways
    if ways is not None and ways > 1.05:
        yield f"shared memory conflicts, {ways:.3g} ways"
    loop = kernel["loop"]
    if bound == "compute" and kernel["contraction"] and loop and loop["fma_share"] < GOOD_FMA_SHARE:
        yield f"multiply-adds are {loop['fma_share']:.0%} of the loop"
    if kernel["fill"] < IDLE_SMS:
        yield f"{kernel['ctas']} blocks use {kernel['fill']:.0%} of the SMs' time"
    if bound == "memory" and kernel["occupancy"] < FEW_WARPS:
        yield f"few warps, {kernel['occupancy']:.0%} ({kernel['occupancy_limit']})"
    if counters is not None and counters.stalls:
        reason, warps = next(iter(counters.stalls.items()))
        waiting = f"{warps:.1f} warps wait for {reason.replace('_', ' ')}"
        share = counters.issue_share
        yield waiting if share is None else f"{share:.0%} of the issue slots are used, {waiting}"
