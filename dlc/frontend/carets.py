"""Where in the text of an expression the operator or the method stands that is computed last."""

from __future__ import annotations

import ast
import re


def acting(code: bytes) -> int:
    """
    The offset of the operator of `a @ b`, of the name of an attribute or method of something
    computed, as `view` in `x.relu().view(3)`, or of the bracket of a subscript; 0 for whatever else
    an expression is. Offsets are of UTF-8.
    """
    wrapped = b"(" + code + b")"  # lines of a piece of code may go on only in brackets
    try:
        found = ast.parse(wrapped, mode="eval").body
    except (SyntaxError, ValueError):
        return 0
    match found:
        case ast.BinOp(left=first) | ast.Compare(left=first) | ast.Subscript(value=first):
            between = rb"[\s)\\]*"
        case (
            ast.Call(func=ast.Attribute(value=ast.Call() | ast.BinOp() | ast.Subscript() as first))
            | ast.Attribute(value=ast.Call() | ast.BinOp() | ast.Subscript() as first)
        ):
            between = rb"[\s)\\]*\.\s*"
        case _:
            return 0
    if first.end_lineno is None or first.end_col_offset is None:
        return 0
    lines = wrapped.splitlines(keepends=True)[: first.end_lineno - 1]
    end = sum(map(len, lines)) + first.end_col_offset
    skipped = re.match(between, wrapped[end:])
    return end + (skipped.end() if skipped else 0) - 1
