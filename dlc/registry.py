"""
Dialects, passes and output formats by name: xDSL's, dlc's and those of plug-ins. They are imported
when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache, lru_cache, partial
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from xdsl.context import Context
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible
from xdsl.utils.arg_spec import parse_pipeline as parse_specs
from xdsl.utils.exceptions import ArgSpecParseError, ParseError
from xdsl.utils.hints import isa, type_repr
from xdsl.utils.lexer import Input, Span
from xdsl.utils.target import Target

from dlc import plugins
from dlc.diagnostics import did_you_mean, with_hint
from dlc.passes import APART, STEPS
from dlc.plugin_sources import PluginError, said
from dlc.plugins import DLC, Table

DLC.dialect("math", "dlc.dialects.math_functions:Math")
DLC.dialect("size", "dlc.dialects.size:Sizes")
DLC.dialect("torch", "dlc.dialects.torch:Torch")
DLC.dialect("tensor_ir", "dlc.dialects.tensor_ir:TensorIR")
DLC.dialect("flow", "dlc.dialects.flow:Flow")
DLC.dialect("loop", "dlc.dialects.loop:Loop")
DLC.dialect("tile", "dlc.dialects.tile:Tile")
DLC.dialect("kernel", "dlc.dialects.kernel:Kernel")
DLC.dialect("host", "dlc.dialects.host:Host")
DLC.printer("cuda", "dlc.backend.cuda.print.printer:CudaTarget")

PASSES: dict[str, tuple[str, str]] = {step.pass_name: step.location for step in (*STEPS, *APART)}
"""The module and class of each pass of ours: the standard pipeline in order, then the others."""

Factories = Mapping[str, Callable[[], type[ModulePass]]]
T = TypeVar("T", bound=ArgSpecConvertible)


class PipelineError(ParseError):
    """A pipeline string that does not parse, with the place in the string."""


class OptionError(ValueError):
    """
    The value of an option of a pass cannot be obeyed: on any module, where the pass itself raises
    it when it is made, or on the one that it is applied to.
    """

    def __init__(self, option: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.option = option
        self.hint = hint


def _factories(table: Table[Any], kind: type) -> dict[str, Callable[[], Any]]:
    return {name: partial(_made, table, name, kind) for name in table}


def _made(table: Table[Any], name: str, kind: type) -> Any:
    """What a table names, imported now. PluginError for what is of another kind."""
    found = plugins.resolve(table, name)
    if (plugin := table.owner(name)) is not None:
        fits = isinstance(found, type) and issubclass(found, kind)
        if not (fits or isinstance(found, kind)):
            raise PluginError(
                f"{table.place(name)}: the {table.kind} '{name}' of the plug-in {plugin.name} is "
                f"no {kind.__name__}: {found!r}"
            )
    return found


@cache
def _universe() -> Universe:
    """What xDSL has, and what others bring to it, of which xDSL takes all or nothing."""
    try:
        return Universe.get_multiverse()
    except Exception as error:
        why = f"what entry points of xdsl.universe name is left out: {said(error)}"
        plugins.LOGGER.warning("warning: %s", why)
        return XDSL_UNIVERSE


def dialect_factories() -> dict[str, Callable[[], Dialect]]:
    """xDSL's dialects and ours, each imported when its factory is called."""
    return _universe().all_dialects | _factories(plugins.DIALECTS, Dialect)


def pass_factories() -> dict[str, Callable[[], type[ModulePass]]]:
    """xDSL's passes and ours."""
    plugins.load_all()
    return _pass_factories(plugins.PASSES.version)


@lru_cache(maxsize=1)
def _pass_factories(version: int) -> dict[str, Callable[[], type[ModulePass]]]:
    return _universe().all_passes | _factories(plugins.PASSES, ModulePass)


def target_factories() -> dict[str, Callable[[], type[Target]]]:
    """xDSL's output formats and ours."""
    return _universe().all_targets | _factories(plugins.PRINTERS, Target)


def register(ctx: Context) -> Context:
    """Make every dialect known to `ctx`, to be loaded at its first use; returns `ctx`."""
    known = set(ctx.registered_dialect_names)
    for name, factory in dialect_factories().items():
        if name not in known:
            ctx.register_dialect(name, factory)
    return ctx


def _hint(name: str) -> str | None:
    return did_you_mean(name, pass_factories()) or plugins.refusals()


def get_pass(name: str) -> type[ModulePass]:
    """The class of the pass `name`, xDSL's or ours; ValueError if there is none."""
    if name not in pass_factories():
        raise with_hint(ValueError(f"unknown pass '{name}'"), _hint(name))
    return pass_factories()[name]()


_PIECE = re.compile(r'(?:"(?:\\.|[^"\\])*"|\{(?:"(?:\\.|[^"\\])*"|[^"}])*\}?|\[[^]]*\]?|[^,])*')


def parse_pipeline(
    text: str, passes: Factories | None = None, holds: str | None = None
) -> tuple[ModulePass, ...]:
    """
    The passes that `text` names, such as `tileify,stage-inputs{budget=49152 buffers=a,b}`, with
    their options; white space around a pass is free. `passes` is the table of names (default: all
    of xDSL's and ours), and `holds` says of steps of a schedule what these are. Raises
    `PipelineError` for malformed text, an unknown pass or option, a value of another type than the
    option's or one that no module can obey, and a missing option.
    """
    known = pass_factories() if passes is None else passes
    text = re.sub(r"\s", " ", text)
    found: list[ModulePass] = []
    for start, end in pieces(text):
        spec = _parse_spec(text, start, end, "<pipeline>")
        if spec.name not in known:
            close = did_you_mean(spec.name, known) or plugins.refusals() or holds
            kind = "step" if holds else "pass"
            refuse(text, start, spec.name, f"unknown {kind} '{spec.name}'", close)
        found.append(_instantiate(known[spec.name](), spec, text, start, "<pipeline>"))
    return tuple(found)


def pieces(pipeline: str) -> Iterator[tuple[int, int]]:
    """The begin and end of each pass in a pipeline string."""
    position = 0
    while pipeline.strip():
        piece = _PIECE.match(pipeline, position)
        assert piece is not None
        yield piece.span()
        if piece.end() == len(pipeline):
            return
        position = piece.end() + 1


def parse_target(text: str) -> Target:
    """The output format that `text` names, such as `cuda` or `cuda{arch=90}`; errors as above."""
    targets = target_factories()
    spec = _parse_spec(text, 0, len(text), "<target>")
    if spec.name not in targets:
        close = did_you_mean(spec.name, targets) or f"the targets are {', '.join(sorted(targets))}"
        refuse(text, 0, spec.name, f"unknown target '{spec.name}'", close, "<target>")
    return _instantiate(targets[spec.name](), spec, text, 0, "<target>")


USAGE = "write pass{option=value other=1,2},next-pass"
_SYNTAX = (
    ("Malformed pass arguments", "expected a space or the } of the options here", USAGE),
    ("Expected equals", "expected = and a value here, a space, or the } of the options", USAGE),
    ("Expected argument name", "expected the name of an option or } here", USAGE),
    ("Unknown argument value", "expected a value here", 'text beside words stands in quotes: "…"'),
    ("Expected a comma", "expected a comma or { here", USAGE),
    ("Expected pass name", "expected the name of a pass here", USAGE),
    ("Unknown token", "expected none of ( ) : ; [ ] and the like here", USAGE),
)
"""What xDSL says of a text that is no pass with options, and what to say and to write."""


def _parse_spec(text: str, start: int, end: int, file: str) -> ArgSpec:
    """The one `name{options}` in `text[start:end]`."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    piece = text[start:end].rstrip()
    try:
        specs = tuple(parse_specs(piece))
    except ArgSpecParseError as error:
        # xDSL keeps the token in the text of its message only.
        place = re.search(r":1:(\d+)\n.*\n *(\^+)\n\s*(.*)", str(error))
        assert place is not None
        at, width, message = start + int(place[1]) - 1, len(place[2]), place[3]
        message, hint = next((say for said, *say in _SYNTAX if said in message), (message, USAGE))
        wrong = PipelineError(Span(at, at + width, Input(text, file)), message)
        raise with_hint(wrong, hint) from None
    if len(specs) != 1:
        raise PipelineError(Span(start, start + 1, Input(text, file)), "expected a name here")
    return specs[0]


def _instantiate(cls: type[T], spec: ArgSpec, text: str, start: int, file: str) -> T:
    """An instance of `cls` with the options of `spec`, which stands at `start` of `text`."""
    types = _types(cls)
    options = [field.name for field in fields(cls) if field.init and field.name != "name"]
    for name, values in spec.parameters.items():
        option = name.replace("-", "_")
        if option not in options:
            known = f"its options are {', '.join(options)}" if options else "it has no options"
            close = did_you_mean(option, options) or known
            refuse(text, start, name, f"'{cls.name}' has no option '{name}'", close, file)
        if not _accepts(types[option], values):
            given = ",".join(_written(value) for value in values) or "nothing"
            message = f"option '{name}' of '{cls.name}' expects {describe(types[option])}"
            refuse(text, start, name, f"{message}, found {given}", _texts(cls, option), file)
    given = {name.replace("-", "_") for name in spec.parameters}
    if missing := [name for name in options if name in cls.required_fields() - given]:
        message = f"'{cls.name}' requires option '{missing[0]}'"
        usage = f"write {cls.name}{{{missing[0]}=...}}"
        refuse(text, start, spec.name, message, usage, file)
    try:
        return cls.from_spec(spec)
    except OptionError as error:
        refuse(text, start, error.option, f"{cls.name}: {error}", error.hint, file)
    except ValueError as error:
        refuse(text, start, spec.name, f"'{cls.name}': {error}", None, file)


@cache
def _types(cls: type) -> dict[str, Any]:
    """The types of the options of a class."""
    return get_type_hints(cls)


def refuse(
    text: str, start: int, word: str, message: str, hint: str | None, file: str = "<pipeline>"
) -> NoReturn:
    """Raise `PipelineError` at the first `word` in `text` from `start` on."""
    at, end = place_of(text, start, word)
    raise with_hint(PipelineError(Span(at, end, Input(text, file)), message), hint)


def place_of(text: str, start: int, word: str) -> tuple[int, int]:
    """Where the first `word` in `text` from `start` on begins and ends; else one character."""
    found = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])").search(text, start)
    return found.span() if found else (start, start + 1)


def _accepts(expected: Any, values: tuple[Any, ...]) -> bool:
    """True if an option of the type `expected` can be given `values`."""
    if not values and NoneType in get_args(expected):
        return True
    return isa(values, expected) or (len(values) == 1 and isa(values[0], expected))


def _written(value: object) -> str:
    """A value as a pipeline has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


MOST_TEXTS = 6
"""How many texts a hint names."""


def _texts(cls: type, option: str) -> str | None:
    """The texts that an option of a step may be, if there are some."""
    domain = getattr(cls, "domains", {}).get(option)
    texts = [value for value in domain.values if value and isinstance(value, str)] if domain else []
    more = len(texts) - MOST_TEXTS
    shown = [*texts[:MOST_TEXTS], f"one of {more} more"] if more > 1 else texts
    return f"it may be {' or '.join(shown)}" if shown else None


def describe(expected: Any) -> str:
    """A type of an option in words."""
    args = get_args(expected)
    if get_origin(expected) is Literal:
        return f"one of {', '.join(map(str, args))}"
    if get_origin(expected) is tuple:
        return f"a list of {'numbers' if args[0] is int else describe(args[0])}"
    if args:
        return " or ".join(describe(arg) for arg in args if arg is not NoneType)
    names = {int: "a number", str: "text", bool: "true or false"}
    return names.get(expected) or type_repr(expected)
