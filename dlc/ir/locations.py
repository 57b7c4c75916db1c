"""
A parser that gives every operation its place in the text, and errors a place and a hint.

xDSL's parser leaves operations at an unknown location unless the text says `loc(...)`.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import AttributeInvT, Operation, SSAValue
from xdsl.parser import Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from dlc.diagnostics import did_you_mean, with_hint
from dlc.ir.elements import ELEMENTS

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_EXPECTED = re.compile("Expected ('.'|region|integer)(?: literal)?!?")
_NAMES = {"region": "a region { … }", "integer": "an integer"}
_SHAPED = ("tensor", "memref", "vector")
_OP_NAME = re.compile(r'(?:%[^="\n]*=\s*)?(?P<name>"[^"\n]*"|[\w$.]+)')


class _Lexer(MLIRLexer):
    """xDSL's lexer in linear time: its own tries 2^n ways to read an unclosed string."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class LocParser(Parser):
    """
    xDSL's parser with a `FileLineColLoc` at the name of every operation whose text has no `loc`.

    Lines and columns count from 1; `line_offset` is the number of lines before `text` in its file.
    """

    def __init__(self, ctx: Context, text: str, name: str, line_offset: int = 0) -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._file = StringAttr(name)
        self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
        self._line_offset = line_offset
        self._op_span: Span[str] = Span(0, 0, self.lexer.input)
        self._first_uses: dict[str, tuple[Span[str], list[str]]] = {}

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse the whole input."""
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            raise self._located(error) or error from None

    def _located(self, error: ParseError) -> ParseError | None:
        """The error to report where xDSL reports `error` behind its place, or without a name."""
        text = self.lexer.input
        if error.msg.startswith("values used but not defined"):
            name = next(iter(self.forward_ssa_references))
            span, known = self._first_uses[name]
            undefined = ParseError(span, f"%{name} is used but never defined in scope")
            return with_hint(undefined, did_you_mean(name, known, "%"))
        if (bracket := self._unclosed(error)) is not None:
            closing = _CLOSING[bracket.text]
            return ParseError(bracket, f"the text ends before the {closing} of this {bracket.text}")
        if error.msg.startswith("End of file reached before closing string"):
            return ParseError(error.span, 'the text ends before the " of this string')
        if error.msg == "Expected shape type.":
            known = [str(element.type) for element in ELEMENTS]
            unknown = ParseError(
                error.span,
                f"unknown element type '{error.span.text}', expected one of {', '.join(known)}",
            )
            return with_hint(unknown, did_you_mean(error.span.text, known))
        if error.msg == "type expected":
            known = (*(str(element.type) for element in ELEMENTS), *_SHAPED, "index")
            found = error.span.text or "the end of the input"
            wrong = ParseError(error.span, f"expected a type, found '{found}'")
            return with_hint(wrong, did_you_mean(found, known))
        if expected := _EXPECTED.fullmatch(error.msg):
            return self._expected(error, _NAMES.get(expected[1], expected[1]))
        if error.msg.startswith("Could not parse entire input"):
            found = error.span.text or "the end of the input"
            return ParseError(error.span, f"expected an operation, found {found}")
        if unknown := re.fullmatch(r"'(.*)' is not registered", error.msg):
            name = unknown[1]
            word = name if name in text.content else name.rpartition(".")[2]
            at = text.content.rfind(word, 0, error.span.start)
            known = [a.name for a in (*self.ctx.loaded_types, *self.ctx.loaded_attrs)]
            here = Span(at, at + len(word), text) if at >= 0 else error.span
            return with_hint(
                ParseError(here, f"unknown type or attribute '{name}'"), did_you_mean(name, known)
            )
        return None

    def _expected(self, error: ParseError, what: str) -> ParseError:
        """The error where something stands in the place of `what`; it may lack behind a line."""
        start, content = error.span.start, self.lexer.input.content
        before = content[:start].rstrip()
        if "\n" in content[len(before) : start]:
            span = Span(len(before), len(before) + 1, self.lexer.input, self._line_offset)
            return ParseError(span, f"expected {what} here")
        wrong = ParseError(error.span, f"expected {what}, found '{error.span.text}'")
        op = self.ctx.get_optional_op(self._op_span.text)
        kinds: tuple[str, ...] = getattr(op, "KINDS", ())  # the words before its region
        return with_hint(wrong, did_you_mean(error.span.text, kinds))

    def _unclosed(self, error: ParseError) -> Span[str] | None:
        """The innermost bracket that is open where the text ends, if `error` is there."""
        text = self.lexer.input
        if self._current_token.kind is not MLIRTokenKind.EOF or error.span.start < self.pos:
            return None
        lexer, opened = _Lexer(text), list[Span[str]]()
        while (token := lexer.lex()).kind is not MLIRTokenKind.EOF:
            if token.span.text in _CLOSING:
                opened.append(Span(token.span.start, token.span.end, text, self._line_offset))
            elif opened and token.span.text in _CLOSING.values():
                opened.pop()
        return opened[-1] if opened else None

    def parse_operation(self) -> Operation:
        op_span = self._op_span = self._name_span(self.pos)
        try:
            op = super().parse_operation()
        except struct.error:  # from attributes that hold numbers of a fixed width
            raise ParseError(op_span, "expected numbers of at most 64 bits") from None
        except OverflowError:  # from floating-point attributes
            raise ParseError(op_span, "expected a number in the range of its type") from None
        except VerifyException as error:
            raise self._other_type(op_span, error) or error from None
        if isinstance(op.location, UnknownLoc):
            op.location = self._location(op_span)
        return op

    def _other_type(self, span: Span[str], error: VerifyException) -> ParseError | None:
        """The error of an operation whose text has a type that it does not take."""
        if (type := re.fullmatch("Unexpected attribute (.*)", str(error))) is None:
            return None
        name = span.text
        known = [op.name for op in self.ctx.loaded_ops if op.name.partition(".")[0] == "arith"]
        twin = f"{name[:-1]}{'f' if name.endswith('i') else 'i'}"
        wrong = ParseError(span, f"'{name}' does not take the type {type[1]}")
        return with_hint(wrong, f"did you mean {twin}?" if twin in known else None)

    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        name = operand.operand_name
        if name not in self.ssa_values and name not in self._first_uses:
            self._first_uses[name] = (operand.span, list(self.ssa_values))
        return super().resolve_operand(operand, type)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        stack = self._parser_state.dialect_stack
        if (op := self.ctx.get_optional_op(name, dialect_stack=stack)) is not None:
            return op
        dialect, dot, _ = name.partition(".")
        if dot and dialect not in self.ctx.registered_dialect_names:
            unknown = ParseError(self._op_span, f"unknown dialect '{dialect}' of '{name}'")
            guess = did_you_mean(dialect, self.ctx.registered_dialect_names)
            raise with_hint(unknown, guess or "--allow-unregistered-dialect lets it pass")
        ops = [op.name for op in self.ctx.loaded_ops]
        if not dot:
            ops += [op.partition(".")[2] for op in ops if op.partition(".")[0] in stack]
        raise with_hint(
            ParseError(self._op_span, f"unknown operation '{name}'"), did_you_mean(name, ops)
        )

    def _name_span(self, start: int) -> Span[str]:
        """The name of the operation whose text begins at `start`, results included."""
        text = self.lexer.input
        match = _OP_NAME.match(text.content, start)
        begin, end = (start, start + 1) if match is None else match.span("name")
        return Span(begin, end, text, self._line_offset)

    def _location(self, span: Span[str]) -> FileLineColLoc:
        line = bisect_right(self._line_starts, span.start)
        column = span.start - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._file, IntAttr(line + self._line_offset), IntAttr(column))
