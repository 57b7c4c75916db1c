"""
`dlc-opt`: `xdsl-opt` with dlc's dialects, passes and targets.

    dlc-opt input.mlir -p 'tileify,stage-inputs{budget=49152}' -t cuda

All options of `xdsl-opt` work. Besides: `--remarks` prints to stderr what each pass did or why it
declined; `--check-hazards` runs what comes out in the interpreter (see `dlc.cli.check`); SSA
dominance is checked beside the verifier, after parsing and after every pass; errors
are sentences (see `dlc.diagnostics`) with exit code 1, of usage 2, and a traceback only with
`--debug`.

Where the compiler fails, the module as it was before the pass is written to a file whose first line
is the command that shows the failure again: where a pass crashes, leaves a module that is not
valid, or, with `--validate`, changes a result. A pass that refuses a module with a sentence about
it has not failed, nor has a parser or verifier that finds an error in the input.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from io import BytesIO
from typing import IO, TYPE_CHECKING, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from dlc import plugins
from dlc.cli.edit_warnings import warn_of_oversights
from dlc.cli.option_rules import Need, check_needs
from dlc.cli.pass_reproducer import advance, is_refusal, reproduction
from dlc.cli.usage import usage_hint
from dlc.diagnostics import OpError, UsageError, failed_pass, with_context, with_hint
from dlc.dialects.program_attributes import check_attributes
from dlc.dialects.size import needing_numbers
from dlc.error_report import format_error
from dlc.file_kinds import hint_for
from dlc.ir.dominance import verify_dominance
from dlc.ir.locations import LocParser
from dlc.ir.sizes import NeedsNumber
from dlc.registry import parse_pipeline, parse_target, pass_factories, register, target_factories
from dlc.remarks import collect
from dlc.schedule.progress import begun, note_progress
from dlc.text import not_text

if TYPE_CHECKING:
    from dlc.judge.validation import Validation

KEPT = ("disable_verify", "allow_unregistered_dialect", "no_implicit_module")
"""Options that a command which reproduces a failure needs as well."""


def _has_passes(options: argparse.Namespace) -> bool:
    return bool(options.passes.strip())


def _prints_ir(options: argparse.Namespace) -> bool:
    return options.target.partition("{")[0].strip() == "mlir" and not options.check_hazards


NEEDS = (
    Need("--remarks", "-p", _has_passes),
    Need("--validate", "-p", _has_passes),
    Need("--print-between-passes", "-p", _has_passes),
    Need("--time-passes", "-p", _has_passes),
    Need("--print-op-generic", "-t mlir, and no --check-hazards", _prints_ir),
    Need("--print-no-properties", "-t mlir, and no --check-hazards", _prints_ir),
    Need("--print-debuginfo", "-t mlir, and no --check-hazards", _prints_ir),
    Need("--syntax-highlight", "-t mlir, and no --check-hazards", _prints_ir),
    Need(
        "--check-hazards",
        "no -t: what is wrong with the kernels is printed, not the module",
        lambda options: options.target == "mlir",
    ),
)
"""Those of xdsl-opt, too. What says how errors are treated may find none."""


class DlcOptMain(xDSLOptMain):
    """The tool; `DlcOptMain(args=[...]).run()` runs it in this process and raises its errors."""

    version_format = "dlc-opt on xdsl {xdsl_version}"

    sources: dict[str, str]
    """The text of the input by the name that locations give it."""

    def __init__(
        self, args: Sequence[str] | None = None, sources: dict[str, str] | None = None
    ) -> None:
        self.sources = {} if sources is None else sources
        self.exit_code = 0
        """3 or 1 where `--check-hazards` did not find all kernels clean."""
        self._conflicts: dict[str, Sequence[str]] = {}
        """Bank conflicts in the model, by the names of kernels."""
        self._chunk = b""
        self._done = 0
        """The number of passes that have run."""
        self._at_fault: int | None = None
        """The pass that fails if something does now: it runs, or what it left is looked at."""
        self._report = ""
        self._line_offset = 0
        _load_plugins(sys.argv[1:] if args is None else args)
        try:
            super().__init__("Runs passes on a module, and prints what comes out.", args)
        except ArgSpecParseError:
            # The pipeline raises its own errors, so this is about the target.
            parse_target(self.args.target)
            raise

    def register_all_dialects(self) -> None:
        register(self.ctx)

    def register_all_passes(self) -> None:
        self.available_passes = dict(pass_factories())

    def register_all_targets(self) -> None:
        self.available_targets = dict(target_factories())

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["mlir"] = self._parse_mlir

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.add_argument(
            plugins.OPTION,
            action="append",
            metavar="FILE.py",
            help="A plug-in: dialects, passes, steps, targets (docs/extending.md)",
        )
        arg_parser.add_argument(
            "--list-passes",
            action=_ListPasses,
            nargs=0,
            help="Print dlc's passes and their options as a table, and exit",
        )
        arg_parser.add_argument(
            "--remarks",
            action="store_true",
            help="Print to stderr what each pass of -p did, or why it declined",
        )
        arg_parser.add_argument(
            "--validate",
            action="store_true",
            help="Run the module on random inputs after every pass that changes it, and stop at "
            "the first that changes its results",
        )
        arg_parser.add_argument(
            "--debug", action="store_true", help="Print the Python traceback of an error"
        )
        arg_parser.add_argument(
            "--check-hazards",
            action="store_true",
            help="After the passes, take the module to Kernel IR, run it in the interpreter, and "
            "print what is wrong with each kernel instead of the module",
        )

        options_help = arg_parser.format_help

        def refuse(message: str) -> NoReturn:
            options = re.findall(r"--[\w-]+", options_help())
            raise with_hint(UsageError(message), usage_hint(message, options))

        def format_help() -> str:
            from dlc.cli.pass_list import pass_help

            return f"{options_help()}\n{pass_help()}"

        for action in arg_parser._actions:
            if action.dest == "passes":
                action.help = "The passes to run, in order: 'tileify,stage-inputs{budget=49152}'"
        arg_parser.error = refuse
        arg_parser.format_help = format_help

    def apply_passes(self, prog: ModuleOp) -> None:
        try:
            with needing_numbers(prog, "the program"):
                super().apply_passes(prog)
        except OpError as error:
            if isinstance(error.__context__, NeedsNumber):
                with_context(error, f"pass {self.pipeline.passes[self._at_fault or 0].name}")
            raise
        if self.args.check_hazards:
            from dlc.cli.check import check_text

            self._report, code = check_text(self.ctx, prog, self.sources, conflicts=self._conflicts)
            self.exit_code = min(filter(None, (self.exit_code, code)), default=0)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        return self._report if self.args.check_hazards else super().output_resulting_program(prog)

    def reproduction(self, error: BaseException) -> str | None:
        """A line with the command that shows the failure again; None if the compiler is right."""
        if is_refusal(error):
            return None
        passes, number = self.pipeline.passes, self._at_fault
        later = failed_pass(error) if number is None and self.args.check_hazards else None
        if number is None and later is None:
            return None

        def before() -> ModuleOp:
            module = self.parse_chunk(BytesIO(self._chunk), "mlir", self._line_offset)
            assert module is not None
            with collect():
                PassPipeline(passes[:number]).apply(self.ctx, module)
            if later is not None:
                advance(self.ctx, module, later)
            return module

        flags = [f"--{kept.replace('_', '-')}" for kept in KEPT if getattr(self.args, kept)]
        return reproduction(error, self.sources, later or str(passes[number or 0]), before, flags)

    def setup_pipeline(self) -> None:
        check_needs(self.args, NEEDS)
        parse_target(self.args.target)
        passes = parse_pipeline(self.args.passes, self.available_passes)
        self.args.passes = ""  # they are parsed: what is wanted is the callback
        super().setup_pipeline()
        verify = self.pipeline.callback
        validation: Validation | None = None
        before: dict[str, str | None] = {}

        def check(done: ModulePass | None, module: ModuleOp, todo: ModulePass | None) -> None:
            nonlocal validation
            self._done = 0 if done is None else self._done + 1
            self._at_fault = None if done is None else self._done - 1
            try:
                if not self.args.disable_verify:
                    verify_dominance(module)
                if verify is not None:
                    verify(done, module, todo)
            except Exception as error:
                raise with_context(error, f"after pass {done}") if done is not None else error
            if done is None:
                check_attributes(module)
                warn_of_oversights(module, self.sources)
                before.clear()
                before.update(begun(module))
            if todo is None:
                note_progress(module, before, [step.name for step in passes])
            if self.args.check_hazards and todo is not None and todo.name == "bind-axes":
                from dlc.cli.check import bank_conflicts

                self._conflicts |= bank_conflicts(module)
            if validation is not None and done is not None:
                validation.check(module, str(done))
                if todo is None:
                    print(validation, file=sys.stderr)
            elif self.args.validate:
                validation = _validation(self.ctx, module)
            self._at_fault = None if todo is None else self._done

        self.pipeline = PassPipeline(passes, check)

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        name = self.args.input_file
        extension = os.path.splitext(name or "")[1].removeprefix(".")
        unknown = not self.args.frontend and extension not in self.available_frontends
        if unknown and name not in (None, "-") and os.path.isfile(name):
            known = " or ".join("." + frontend for frontend in self.available_frontends)
            error = UsageError(f"{name}: expected a file whose name ends in {known}")
            raise with_hint(error, hint_for(name) or "-f mlir reads a file of any name")
        return super().prepare_input()

    def get_input_name(self) -> str:
        return "<stdin>" if self.args.input_file in (None, "-") else self.args.input_file

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        if self.args.input_file in (None, "-"):
            data, extension = sys.stdin.buffer.read(), "mlir"
        else:
            stream, extension = super().get_input_stream()
            with stream:
                data = stream.read()
        self.sources[self.get_input_name()] = data.decode(errors="replace")
        return BytesIO(data), extension

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        self._line_offset, self._at_fault, self._chunk = start_offset, None, chunk.read()
        return super().parse_chunk(BytesIO(self._chunk), file_extension, start_offset)

    def _parse_mlir(self, chunk: IO[bytes]) -> ModuleOp:
        name = self.get_input_name()
        try:
            text = chunk.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(not_text(name, error)) from None
        parser = LocParser(self.ctx, text, name, self._line_offset)
        return parser.parse_module(not self.args.no_implicit_module)

    def run(self) -> None:
        with collect() as remarks:
            try:
                super().run()
            finally:
                if self.args.remarks:
                    print(*remarks, sep="\n", end="\n" if remarks else "", file=sys.stderr)


class _ListPasses(argparse.Action):
    """Prints the table of passes."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object, **kwargs: object) -> None:
        from dlc.cli.pass_list import pass_table

        print(pass_table())
        parser.exit()


def _load_plugins(arguments: Sequence[str]) -> None:
    """Loads the plug-ins of a command line, whose other options may name what they bring."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(plugins.OPTION, action="append", default=[])
    try:
        paths = parser.parse_known_args(arguments)[0].load
    except argparse.ArgumentError:
        return  # which the parser of all options says
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"{plugins.OPTION} {path}: no such file")
    plugins.add_to_environment(paths)


def _validation(ctx: Context, module: ModuleOp) -> Validation:
    """The check of a module on random inputs, which takes the results of now for right."""
    from dlc.judge.random_inputs import random_arguments
    from dlc.judge.validation import Question, Validation

    validation = Validation(ctx, Question.of(ctx, module, random_arguments(module, seed=0)))
    validation.start(module, ())
    return validation


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool on `argv` (default: the command line) and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    sources: dict[str, str] = {}
    tool = None
    try:
        tool = DlcOptMain(arguments, sources)
        tool.run()
    except BrokenPipeError:
        # The reader of the output has what it wanted; nothing is left to flush.
        sys.stdout = open(os.devnull, "w")
    except KeyboardInterrupt:
        return 130
    except (Exception, ArgSpecParseError) as error:
        if "--debug" in arguments:
            traceback.print_exception(error)
        print(format_error(error, sources), file=sys.stderr)
        if tool is not None and (line := tool.reproduction(error)):
            print(line, file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0 if tool is None else tool.exit_code


if __name__ == "__main__":
    sys.exit(main())
