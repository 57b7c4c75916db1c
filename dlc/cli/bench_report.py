"""`dlc run --bench`: the program by dlc and by PyTorch, checked and timed side by side."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext

import torch
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.executor import Executor, default_backend
from dlc.backend.kept_copy import to_device
from dlc.cli.status_line import progress
from dlc.diagnostics import UsageError, did_you_mean, with_hint
from dlc.frontend.export.imported import ImportedProgram
from dlc.target import precision_of
from dlc.variant import Variant
from dlc_bench.ceilings import measure_ceilings
from dlc_bench.contender import AUTOTUNE, COMPILE, DLC, EAGER, PEERS, Contender, dlc_module
from dlc_bench.device import find_device
from dlc_bench.environment import settle_tf32, tf32_allowed
from dlc_bench.measure import make_timer, measure
from dlc_bench.program import module_subject, program_subject
from dlc_bench.table import device_lines, results_table

DEFAULT = {"cuda": (DLC, EAGER, COMPILE, AUTOTUNE), "host": (DLC, EAGER, COMPILE)}
"""Contenders by backend: on the host, Inductor's autotuning has nothing to choose from."""


def bench_device(options: argparse.Namespace) -> AbstractContextManager[object]:
    """In here, programs make their tensors where they are measured."""
    if (options.backend or default_backend()) == "host":
        return nullcontext()
    return torch.device("cuda", torch.cuda.current_device())


def contender_names(given: str | None, backend: str) -> tuple[str, ...]:
    """The names in `--contenders`, such as `dlc,eager`. UsageError for an unknown one."""
    if given is None:
        return DEFAULT[backend]
    names = tuple(name.strip() for name in given.split(","))
    for name in names:
        if name not in (DLC, *PEERS):
            hint = did_you_mean(name, (DLC, *PEERS))
            found = with_hint(UsageError(f"unknown contender '{name}'"), hint)
            raise with_hint(found, f"there are {', '.join((DLC, *PEERS))}")
    return names


def report_bench(
    executor: Executor,
    arguments: list[torch.Tensor],
    program: ImportedProgram | None,
    torch_ir: ModuleOp | None,
    longest_reduction: int,
    options: argparse.Namespace,
) -> int:
    """
    Prints what was measured; 1 where a contender has wrong results or an impossible time. A module
    that comes from no program runs alone and unchecked.
    """
    precision = "f32" if torch_ir is None else precision_of(torch_ir)
    settle_tf32(precision == "tf32")
    device = find_device(executor.backend.name)
    arguments = [to_device(t, device.torch) for t in arguments]
    names = contender_names(options.contenders, device.backend)
    with torch.no_grad():
        if program is None or torch_ir is None:
            subject, own = module_subject(arguments), dlc_module(executor)
        else:
            subject = program_subject(program, torch_ir, arguments)
            own = dlc_module(executor, Variant(program, executor.backend).finish)
        made = {DLC: lambda: own} | PEERS
        peers = names if program is not None else (DLC,)
        contenders: list[Contender] = [made[name]() for name in peers]
        timer = make_timer(device)
        with progress("measuring …"):
            ceilings = measure_ceilings(device)
            results = measure(
                subject,
                contenders,
                device,
                longest_reduction=longest_reduction,
                precision=precision,
                timer=timer,
            )
    device = device.measured(ceilings.gemm_flops, ceilings.copy_bandwidth)
    print(device_lines(device, ceilings, timer.method, tf32_allowed()))
    print()
    print(results_table(results, subject.work, device))
    errors = {name: result.error for name, result in results.items() if result.error}
    for name, error in errors.items():
        print(f"{name}: {error}")
    if program is None:
        print("not checked: nothing is known of what this module computes; -c TEXT says it")
    return 1 if errors else 0
