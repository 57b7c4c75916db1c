"""
The `dlc` command: compiles PyTorch programs through the six IRs, and runs them.

    dlc compile -c "torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))" --ir loop
    dlc run script.py
    dlc trace -c "torch.relu(torch.randn(64))" -o page.html
    dlc check -c "torch.randn(64,64) @ torch.randn(64,64)" --target sm_90
    dlc compile Qwen/Qwen2.5-7B --layer 0 --seq-len 128
    dlc generate DIRECTORY --prompt "Once upon a time" --stats
    dlc run edited.mlir -c "torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))"

An error is a sentence on stderr and exit code 1, of usage 2; a traceback only with `--debug`.
Neither PyTorch nor xDSL is imported before it is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from dlc import __version__, plugins
from dlc.cli.ctrl_c import CODE, ctrl_c_ends_imports
from dlc.cli.generate_options import DESCRIPTION, SUMMARY, add_generate_options
from dlc.cli.model_options import add_model_options, at_least
from dlc.cli.size_options import add_size_options
from dlc.cli.usage import CommandParser
from dlc.passes import PRINTED, STAGES
from dlc.precision import PRECISIONS

_PROGRAM = """
A program is text (-c), a script, a file of any of dlc's IRs, or a model. Tensors that a text or
script makes with torch.randn and the like become inputs; all that computes with them is compiled,
and returns what it computes last. torch, nn, F and math are at hand. What stands behind -- are
the arguments of the text or script: dlc run script.py -- --size 3.
"""


def make_parser() -> CommandParser:
    """The parser of all commands."""
    parser = CommandParser(
        "dlc", description="Compiles PyTorch programs to CUDA kernels, through six IRs."
    )
    parser.add_argument("--version", action="version", version=f"dlc {__version__}")
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="compile | run | check | bisect | tune | trace | generate",
    )
    for name, (summary, description, add_options) in COMMANDS.items():
        add_options(commands.add_parser(name, help=summary, description=description))
    parser.commands = commands.choices
    return parser


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; where a command comes first, no other's parser is made."""
    if not argv or argv[0] not in COMMANDS:
        return make_parser().parse_command(argv)
    _, description, add_options = COMMANDS[argv[0]]
    parser = CommandParser(f"dlc {argv[0]}", description=description)
    parser.set_defaults(command=argv[0])
    add_options(parser)
    return parser.parse_command(argv[1:], lambda: make_parser().commands)


def _add_compile_options(command: argparse.ArgumentParser) -> None:
    flag = partial(command.add_argument, action="store_true")
    command.add_argument("--ir", choices=PRINTED, help="what to print [cuda]")
    flag(
        "--cubin",
        help="compile the kernels with nvcc, for a GPU to find them in the cache, and print what "
        "they use, not the IR",
    )
    command.add_argument(
        "-o", metavar="FILE | DIR/", help="print to FILE; or write the program and a launcher"
    )
    command.add_argument(
        "--reproduce",
        metavar="KERNEL",
        help="print a script that runs one kernel against the operations it implements, not the IR",
    )
    flag("--with-weights", help="with -o DIR/, write the weights, too")
    command.add_argument(
        "--lines",
        choices=STAGES,
        help="with -o DIR/, write that IR, too, and #line directives into the kernels, so that "
        "profilers and debuggers show its lines",
    )
    flag(
        "--explain",
        help="print why each kernel is scheduled as it is, and what was declined, not the IR",
    )
    command.add_argument(
        "--seed", type=int, help="of weights and inputs, with --with-weights or --validate [0]"
    )
    _add_tuned(command)
    _add_trace(command)
    _add_validate(command)
    _add_common_options(command)


def _add_tuned(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tuned",
        action="store_true",
        help="take schedules that dlc tune has found for such kernels",
    )
    command.add_argument("--db", metavar="FILE", help="of tuned schedules [beside the cache]")
    _add_plan(command)


def _add_plan(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--plan",
        metavar="TEXT",
        help="groups of kernels that merge, such as exp,add+sum [what is estimated to be faster]",
    )


def _add_run_options(command: argparse.ArgumentParser) -> None:
    flag = partial(command.add_argument, action="store_true")
    command.add_argument(
        "--backend", metavar="NAME", help="host or cuda, where it runs [cuda or host]"
    )
    flag(
        "--sync",
        help="on a GPU, wait for each kernel, so that one that fails is named, and check indices",
    )
    command.add_argument(
        "--order",
        choices=("forward", "reverse", "random"),
        help="on the host, which threads go first between barriers [forward]",
    )
    command.add_argument(
        "--async-mode",
        choices=("late", "early"),
        help="on the host, whether asynchronous copies land at the wait or at the issue [late]",
    )
    command.add_argument(
        "--seed", type=int, help="of random inputs, parameters and orders of threads [0]"
    )
    flag("--bench", help="check and time dlc, eager PyTorch and torch.compile side by side")
    command.add_argument(
        "--contenders",
        metavar="NAMES",
        help="of --bench: some of dlc,eager,torch.compile,max-autotune [on a GPU all]",
    )
    flag(
        "--profile",
        help="say what bounds each kernel: by Nsight Compute on a GPU, else from its machine code",
    )
    command.add_argument(
        "--times",
        metavar="FILE.json",
        dest="times_to",
        help="write what a launch of each kernel took, for dlc trace --times",
    )
    _add_tuned(command)
    _add_trace(command)
    _add_validate(command)
    _add_common_options(command)


def _add_check_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--blocks",
        type=at_least(1),
        metavar="N",
        help="run N blocks of each kernel [what 5 s allow]",
    )
    command.add_argument("--seed", type=int, help="of random inputs, parameters [0]")
    command.set_defaults(validate=False)
    _add_common_options(command)


def _add_bisect_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--backend", metavar="NAME", help="where states run: host, cuda [host]")
    command.add_argument("--seed", type=int, help="of random inputs [0]")
    command.set_defaults(validate=False)
    _add_common_options(command)


def _add_tune_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--objective",
        choices=("gpu", "static", "host", "estimate"),
        help="what schedules are judged by: the time on the GPU, nvcc's machine code, the time on "
        "the host, or the estimate [gpu or static]",
    )
    command.add_argument(
        "--budget", default="200", metavar="60s | N", help="time or candidates of a kernel [200]"
    )
    command.add_argument(
        "--export", metavar="FILE", help="write the database as text, a line a schedule, and end"
    )
    command.add_argument(
        "--import", metavar="FILE", dest="read", help="add such a text to the database, and end"
    )
    command.add_argument("--kernel", metavar="NAME", help="only this kernel")
    command.add_argument(
        "--plans",
        type=at_least(1),
        default=1,
        metavar="N",
        help="of N plans of which kernels merge, take the best by the objective first [1]",
    )
    _add_plan(command)
    command.add_argument(
        "-j", type=at_least(1), default=1, metavar="N", help="judge N candidates at once [1]"
    )
    command.add_argument("--db", metavar="FILE", help="of tuned schedules [beside the cache]")
    command.add_argument(
        "--ray", metavar="ADDRESS", help="judge candidates on the Ray cluster there, such as auto"
    )
    command.add_argument("-o", metavar="FILE", help="write the Loop IR with the schedules found")
    command.add_argument(
        "--plot", metavar="FILE", help="draw the search, and the estimate against what was found"
    )
    _add_trace(command)
    command.add_argument("--seed", type=int, help="of the search, and of random inputs [0]")
    command.set_defaults(validate=False)
    _add_common_options(command)


def _add_trace_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", metavar="FILE.html", help="the page [trace.html]")
    command.add_argument(
        "--check",
        action="store_true",
        help="look for races and the like, as dlc check does, and show them at their lines",
    )
    command.add_argument(
        "--sass", action="store_true", help="show the machine code, too, by nvcc and nvdisasm"
    )
    command.add_argument("--kernel", metavar="NAME", help="the kernel to show first [the first]")
    command.add_argument(
        "--times",
        metavar="FILE",
        help="show measured times beside the estimate: of dlc run --times, or the output of "
        "ncu --csv --page raw",
    )
    command.add_argument("--seed", type=int, help="of weights and inputs, with --validate [0]")
    _add_tuned(command)
    command.add_argument(
        "--validate",
        action="store_true",
        help="run the program after every pass that changes it, and show which keep its result",
    )
    _add_common_options(command)


def _add_trace(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--trace", metavar="FILE.html", help="write a page that shows the program in all its IRs"
    )


def _add_validate(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--validate",
        action="store_true",
        help="run the program after every pass that changes it, and stop at the first that "
        "changes its result",
    )


def _add_common_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file",
        nargs="?",
        metavar="SCRIPT.py | FILE.mlir | - | MODEL",
        help="the program; - reads IR, as in an .mlir file, from stdin",
    )
    command.add_argument("-c", metavar="TEXT", dest="text", help="the program as text")
    add_model_options(command)
    add_size_options(command)
    command.add_argument("--target", metavar="CHIP", help="such as sm_90 [the GPU at hand]")
    command.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="what products of f32 may be computed in (docs/tensor-cores.md) [as PyTorch is told "
        "to, f32 or tf32]",
    )
    command.add_argument(
        "--freeze",
        action="store_true",
        help="compute once for all calls what parameters, buffers and constants alone give",
    )
    command.add_argument(
        "-v",
        action="count",
        default=0,
        dest="verbose",
        help="say on stderr what each pass did; -vv: print a diff for each pass",
    )
    command.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="of diffs and verdicts [auto: on a terminal]",
    )
    command.add_argument(
        plugins.OPTION,
        action="append",
        default=[],
        metavar="FILE.py",
        help="a plug-in: steps, passes, operations, chips (docs/extending.md)",
    )
    command.add_argument("--timing", action="store_true", help="print seconds per phase")
    command.add_argument("--debug", action="store_true", help="print tracebacks of errors")


COMMANDS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "compile": ("print a program in one of the IRs", _PROGRAM, _add_compile_options),
    "run": (
        "run a program and check its results",
        f"{_PROGRAM}With both an .mlir file and -c, the file is run on the inputs of the text and "
        "checked against it.",
        _add_run_options,
    ),
    "check": (
        "look for races, missing waits and the like in a program's kernels",
        f"{_PROGRAM}Each kernel is clean, has hazards, or was not checked: exit code 0, 1 or 3.",
        _add_check_options,
    ),
    "bisect": (
        "find the pass that fails or changes the result",
        f"{_PROGRAM}States of the program between passes are run, half as many at each try; of the "
        "first wrong one the kernel, its diff and a reproducer are given: exit code 1. Where no "
        "pass changes the result, that is said: exit code 0. With both an .mlir file and -c, all "
        "states are compared with the text, the file as it is first.",
        _add_bisect_options,
    ),
    "tune": (
        "search for faster schedules",
        f"{_PROGRAM}Schedules of each kernel are tried, the default one first, and judged in "
        "processes of their own; a table of the best and the best line are printed.",
        _add_tune_options,
    ),
    "trace": (
        "write a page that shows a program in all its IRs",
        f"{_PROGRAM}The page is one HTML file, which needs no network: the IRs side by side, their "
        "lines linked; what each pass did; what the kernels cost.",
        _add_trace_options,
    ),
    "generate": (SUMMARY, DESCRIPTION, add_generate_options),
}
"""A line on each command, what its help says, and its options."""


def _check_program(options: argparse.Namespace) -> None:
    """Ends with an error of usage unless there is one program."""
    transfers = options.command == "tune" and (options.export or options.read)
    if options.file is None and options.text is None and not transfers:
        make_parser().error("expected a program: -c TEXT, SCRIPT.py, FILE.mlir or MODEL")
    if options.file is not None and options.text is not None:
        if options.command not in ("run", "bisect") or not options.file.endswith((".mlir", "-")):
            make_parser().error("expected one program, found a file and -c")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command on `argv` (default: the command line) and return its exit code."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    if options.command != "generate":
        _check_program(options)
    elif options.arguments is not None:
        make_parser().commands["generate"].error("it takes no arguments behind --")
    for path in options.load:
        if not os.path.exists(path):
            make_parser().error(f"{plugins.OPTION} {path}: no such file")
    plugins.add_to_environment(options.load)
    begin = time.perf_counter()
    try:
        with ctrl_c_ends_imports():
            from dlc.cli.commands import run_command

            code = run_command(options, begin)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the output has what it wanted; nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return CODE


if __name__ == "__main__":
    sys.exit(main())
