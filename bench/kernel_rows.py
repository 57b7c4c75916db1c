"""What is known of a program without running it: its work, its roofline, and its estimate."""

from __future__ import annotations

import gc
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dlc.target import get_target, target_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import SSAValue

    from dlc.schedule.estimate import Cost

Row = dict[str, Any]
Maker = Callable[[], tuple[Any, tuple[Any, ...]]]


class TooSlow(BaseException):
    """A program took longer than it may; no `except Exception` on the way holds it up."""


def start_worker() -> None:
    """Imports what all programs need, once a process."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_device("meta")
    signal.signal(signal.SIGALRM, _stop)


def _stop(number: int, frame: object) -> None:
    raise TooSlow


def measure(text: str, target: str, seconds: int, with_sass: bool = False) -> Row:
    """
    What is known of a program: work, roofline, estimate, kernels; `error` where it does not compile
    or takes more than `seconds`. For a process that `start_worker` has prepared.
    """
    from xdsl.utils.exceptions import ArgSpecParseError

    from dlc.cli.error_text import describe

    signal.alarm(seconds)
    try:
        return _measure(text, target, with_sass)
    except TooSlow:
        return {"error": f"more than {seconds} s"}
    except (Exception, ArgSpecParseError) as error:
        return {"error": describe(error, {})}
    finally:
        signal.alarm(0)


def _measure(text: str, target: str, with_sass: bool) -> Row:
    from dlc.pipeline import run_pipeline
    from dlc.stages import compiler_context

    module, flops, size = imported(text, target)
    begin = time.perf_counter()
    run_pipeline(compiler_context(), module, "loop")
    took = time.perf_counter() - begin
    kernels = loop_kernels(module)
    row = summary(kernels, flops, size, target)
    row |= {"compile_seconds": took, "kernels": kernels}
    return row | ({"sass": _sass(module, target)} if with_sass else {})


def imported(given: str | Maker, target: str) -> tuple[ModuleOp, float, float]:
    """
    A program, a text or what makes its module and example inputs, as Torch IR for a chip; the
    flops of its products, and the bytes that it must move.
    """
    from dlc.frontend.export.fx import import_program
    from dlc.frontend.scripts.capture import capture_text
    from dlc.target import set_target
    from dlc.transforms.tensor.decompositions import DECOMPOSITIONS
    from dlc_bench.work import compulsory_bytes, product_flops

    function, arguments = capture_text(given) if isinstance(given, str) else given()
    program = import_program(function, arguments, whole=DECOMPOSITIONS)
    flops = product_flops(program.module)
    size = compulsory_bytes(program.module, program.bind(arguments, {}))
    set_target(program.module, target)
    gc.freeze()  # as `dlc compile` does
    return program.module, flops, size


def loop_kernels(module: ModuleOp) -> list[Row]:
    """Of scheduled Loop IR: each kernel's launches and, for one, time and bytes."""
    from dlc.dialects.kernel import LaunchOp
    from dlc.dialects.loop import KernelOp
    from dlc.schedule.estimate import estimate

    again = Counter(op.launched for op in module.walk() if isinstance(op, LaunchOp))
    rows: list[Row] = []
    for op in module.walk():
        if isinstance(op, KernelOp):
            cost = estimate(op, target_of(module))
            rows.append({
                "name": op.name_,
                "launches": (1 + again[op]) * (2 if cost.combine_seconds else 1),
                "estimate_us": cost.seconds * 1e6 * (1 + again[op]),
                "one_us": cost.seconds * 1e6,
                "memory_bytes": cost.memory_bytes * (1 + again[op]),
                "flops": cost.flops * (1 + again[op]),
                "sms_used": cost.share,
                "schedule": "" if op.schedule is None else op.schedule.data,
            })  # fmt: skip
    return rows


def costs_by_value(loops: ModuleOp) -> dict[str, Cost]:
    """Of scheduled Loop IR: the cost of the kernel that gives a value of the program."""
    from dlc.dialects.kernel import LaunchOp
    from dlc.dialects.loop import KernelOp
    from dlc.ir.provenance import values_of
    from dlc.schedule.estimate import estimate

    target, found = target_of(loops), dict[str, "Cost"]()
    for op in loops.walk():
        one = op.launched if isinstance(op, LaunchOp) else op
        if isinstance(one, KernelOp):
            cost = estimate(one, target)
            found |= {text: cost for text in values_of(op, len(op.results)) if text}
    return found


def saved_seconds(costs: Mapping[str, Cost], compiled: ModuleOp) -> float:
    """
    What launches save that do what several kernels of the Loop IR do: all of them, or what combines
    their parts, whose launch and start are one then; so is what is before, if one launch has it.
    """
    from dlc.dialects.host import LaunchOp
    from dlc.ir.provenance import values_of
    from dlc.schedule.estimate import beside_seconds

    target, saved = target_of(compiled), 0.0
    wrote: dict[SSAValue, LaunchOp] = {}
    for op in compiled.walk():
        if not isinstance(op, LaunchOp):
            continue
        before = {wrote[ref] for ref in op.inputs if ref in wrote}
        wrote |= dict.fromkeys(op.outputs, op)
        texts = values_of(op, len(op.outputs))
        group = list({id(c): c for t in texts if (c := costs.get(t)) is not None}.values())
        if len(group) < 2:
            continue
        combining = sum(cost.combine_seconds > 0 for cost in group)
        saved += max(combining - 1, 0) * (target.launch_seconds + target.start_seconds)
        if combining and len(before) > 1:
            continue
        first = [replace(c, seconds=c.seconds - c.combine_seconds) for c in group]
        saved += sum(cost.seconds for cost in first) - beside_seconds(first, target)
    return saved


def summary(kernels: Sequence[Row], flops: float, size: float, target_name: str) -> Row:
    """What is said of a whole program; times in microseconds."""
    target = get_target(target_name)
    busy = max(flops / target.flops, size / target.memory_bandwidth)
    roofline = (busy + target.launch_seconds) * 1e6
    predicted = sum(kernel["estimate_us"] for kernel in kernels)
    return {
        "flops": flops,
        "compulsory_bytes": size,
        "roofline_us": roofline,
        "estimate_us": predicted,
        "times_roofline": predicted / roofline,
        "times_bytes": sum(k["memory_bytes"] for k in kernels) / size if size else 1.0,
        "launches": sum(kernel["launches"] for kernel in kernels),
    }


def _sass(module: ModuleOp, target: str) -> list[Row]:
    """Of scheduled Loop IR: what ptxas made of each launch's kernel, and its instructions."""
    from dlc.pipeline import run_pipeline
    from dlc.stages import compiler_context
    from dlc_bench import statics

    known = statics.estimates(module)
    run_pipeline(compiler_context(), module, "tile")
    ways = statics.bank_ways(module)
    run_pipeline(compiler_context(), module, "kernel")
    return [statics.examine(kernel, target) for kernel in statics.kernels(module, known, ways)]
