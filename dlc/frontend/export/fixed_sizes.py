"""Where a program fixes a size that was to be one of several: at which of the user's lines."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv

Fixings = dict[sympy.Symbol, str]
"""The stack, as text, where each symbol was found to be one number."""


@contextmanager
def recorded_fixings() -> Iterator[Fixings]:
    """Records while a program is exported."""
    fixings: Fixings = {}
    replace = ShapeEnv._set_replacement

    def recording(env: ShapeEnv, symbol: sympy.Symbol, by: sympy.Expr, *more: Any) -> None:
        if isinstance(by, sympy.Integer) and symbol not in fixings:
            frames = traceback.extract_stack(sys._getframe(1))
            fixings[symbol] = "".join(traceback.format_list(frames))
        replace(env, symbol, by, *more)

    ShapeEnv._set_replacement = recording  # type: ignore[method-assign]
    try:
        yield fixings
    finally:
        ShapeEnv._set_replacement = replace  # type: ignore[method-assign]
