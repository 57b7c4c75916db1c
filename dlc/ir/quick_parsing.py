"""
Texts of IR parsed with less work: part of `dlc.ir.quick_xdsl`.

*Faster because* one regular expression finds a token and what kind it is, where xDSL looks at
character after character; spans are made without the detour of frozen classes; and what a type's
parameters have to be is worked out once for each hint. What the expression does not find, such as
the end of a text, an escape in a string or what is no token, is left to xDSL, which says what is
wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_origin

from xdsl.dialects import builtin
from xdsl.ir import Attribute
from xdsl.irdl import VerificationContext, irdl_to_attr_constraint
from xdsl.parser import Parser
from xdsl.parser.base_parser import BaseParser
from xdsl.parser.generic_parser import GenericParser
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import (
    KIND_BY_PUNCTUATION_SPELLING,
    MLIRLexer,
    MLIRTokenKind,
    StringLiteral,
)

_NAME = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
_KINDS = {
    MLIRTokenKind.BARE_IDENT: r"[a-zA-Z_][a-zA-Z0-9_$.]*",
    MLIRTokenKind.PERCENT_IDENT: f"%{_NAME}",
    MLIRTokenKind.HASH_IDENT: rf"#(?!-\}}){_NAME}",
    MLIRTokenKind.EXCLAMATION_IDENT: f"!{_NAME}",
    MLIRTokenKind.CARET_IDENT: rf"\^{_NAME}",
    MLIRTokenKind.FLOAT_LIT: r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?",
    MLIRTokenKind.INTEGER_LIT: r"0x[0-9a-fA-F]+|[0-9]+",
    MLIRTokenKind.STRING_LIT: r'"[^"\\\n\v\f]*"',
    None: r"->|\.\.\.|\{(?!-#)|[-:,()}\[\]<>=+/*?|]",
}
"""The kinds of tokens, None for all of punctuation."""
_KIND = (None, *_KINDS)
_token = re.compile(
    r"(?:(?://[^\n]*\n?)|\s+)*+(?:" + "|".join(f"({text})" for text in _KINDS.values()) + ")",
    re.ASCII,
).match
_lex = MLIRLexer.lex
_new = object.__new__


def install(put: Callable[..., None]) -> None:
    """Puts the functions below in the place of xDSL's, by `put(class, name=function)`."""
    put(MLIRLexer, lex=lex)
    put(GenericParser, _consume_token=_consume, _parse_optional_token=_optional)
    put(BaseParser, parse_optional_punctuation=_punctuation)
    builtin.isa = _isa  # pyright: ignore[reportPrivateImportUsage]


def lex(lexer: MLIRLexer) -> Token[MLIRTokenKind, str]:
    """`MLIRLexer.lex`."""
    text = lexer.input
    found = _token(text.content, lexer.pos) if type(lexer) is MLIRLexer else None
    if found is None:
        return _lex(lexer)
    which = found.lastindex
    assert which is not None
    kind = _KIND[which]
    if kind is None:
        kind = KIND_BY_PUNCTUATION_SPELLING[found[which]]
    start, lexer.pos = found.span(which)
    span = _new(StringLiteral if kind is MLIRTokenKind.STRING_LIT else Span)
    span.__dict__.update(start=start, end=lexer.pos, input=text, line_offset=0)
    return Token(kind, span)


def _consume(parser: Parser, expected_kind: MLIRTokenKind | None = None) -> Token[Any, Any]:
    """`GenericParser._consume_token`."""
    state = parser._parser_state
    token = state.current_token
    assert expected_kind is None or token.kind == expected_kind, (
        f"Unexpected token {token}, expected {expected_kind}"
    )
    state.current_token = state.lexer.lex()
    return token


def _optional(parser: Parser, expected_kind: MLIRTokenKind) -> Token[Any, Any] | None:
    """`GenericParser._parse_optional_token`."""
    is_there = parser._parser_state.current_token.kind is expected_kind
    return parser._consume_token() if is_there else None


def _punctuation(parser: Parser, punctuation: Any) -> Any:
    """`BaseParser.parse_optional_punctuation`."""
    kind = KIND_BY_PUNCTUATION_SPELLING.get(punctuation)
    assert kind is not None, "'parse_optional_punctuation' must be called with a valid punctuation"
    if parser._parser_state.current_token.kind is kind:
        parser._consume_token()
        return punctuation
    return None


def _isa(value: Any, hint: Any) -> bool:
    """`isa`, of attributes with parameters."""
    origin = get_origin(hint)
    if not isinstance(origin, type) or not issubclass(origin, Attribute):
        return isa(value, hint)
    if not isinstance(value, origin):
        return False
    try:
        _constraint(hint).verify(value, VerificationContext())
    except VerifyException:
        return False
    return True


@lru_cache(256)
def _constraint(hint: Any) -> Any:
    """What an attribute of a hint has to be."""
    return irdl_to_attr_constraint(hint)
