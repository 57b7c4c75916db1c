"""What a command line that cannot be taken is told: argparse's error, and what is meant by it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

HELP = "--help lists the options"


def usage_hint(message: str, options: Sequence[str]) -> str | None:
    """
    The option or value closest to the one that the error `message` of argparse's names, of all
    `options`, or where they are listed.
    """
    from dlc.diagnostics import did_you_mean

    if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
        return did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2]))
    if unknown := re.search(r"unrecognized arguments: (--[\w-]+)", message):
        return did_you_mean(unknown[1], options) or HELP
    return HELP


def split_arguments(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """The command's own words, and those behind the first `--`, which are the script's."""
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors have a hint, those of a command its own usage and options."""

    commands: Mapping[str, CommandParser]
    """The parser of each command, by name."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """An option is named whole: `--size` of a script would else be taken for `--sizes`."""
        super().__init__(*args, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Exits with one sentence, and a hint: the usage, which --help has, would hide it."""
        hint = usage_hint(message, self.option_names())
        said = re.sub(
            r"^argument [\w| ]+: invalid choice: ('.*?') .*", r"unknown command \1", message
        )
        said = f"{said}\nhint: {hint}" if hint else said
        self.exit(2, f"{self.prog}: error: {said}\n")

    def option_names(self) -> list[str]:
        return re.findall(r"^ +(?:-\w.*, )?(--[\w-]+)", self.format_help(), re.MULTILINE)

    def parse_command(
        self, argv: Sequence[str], commands: Callable[[], Mapping[str, CommandParser]] | None = None
    ) -> argparse.Namespace:
        """
        The options of a command line; those that a command does not have are its error, where
        `commands` gives the parsers of all, if they are not this one's. `arguments` of them is what
        stands behind `--`, None where there is no `--`.
        """
        own, arguments = split_arguments(argv)
        options, unknown = self.parse_known_args(own)
        options.arguments = arguments
        if unknown:
            known = self.commands if commands is None else commands()
            name = unknown[0].partition("=")[0]
            having = [c for c, parser in known.items() if name in parser.option_names()]
            message = f"{name} is an option of {', '.join(having)}" if having else None
            message = message or f"unrecognized arguments: {' '.join(unknown)}"
            if (getattr(options, "file", None) or "").endswith(".py") and not having:
                message += f"; those of the script stand behind --: {options.file} -- {unknown[0]}"
            known[options.command].error(message)
        return options
