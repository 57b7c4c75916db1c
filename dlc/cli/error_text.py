"""Errors of programs, their frontend and their backends as the user reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlc.backend import BackendError
from dlc.error_report import format_error


def describe(error: BaseException, sources: Mapping[str, str]) -> str:
    """An error as a sentence with its place. The frontend's have their place in their text."""
    if isinstance(error, BackendError):
        return f"error: {error}"
    if any(kind.__module__ == "dlc.frontend.source" for kind in type(error).__mro__):
        first = str(error).split("\n")[0]
        text = str(error) if re.search(r"(^|: )error: ", first) else f"error: {error}"
        return "\n".join([text, *getattr(error, "__notes__", ())])
    return format_error(error, sources)
