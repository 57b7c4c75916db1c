"""
Strings of programs in texts that something else reads: C, Python, MLIR, file names, a person.

IR may come from anybody, and names, schedules and attributes in it may hold anything. All that goes
into a text of another language passes through here, `shlex.quote` or `json.dumps`.
"""

from __future__ import annotations

import hashlib
import html
import json
import re

MAX_NAME = 120
"""Characters of the longest identifier or file name, with room for what is put around it."""


def plain(text: str) -> str:
    """Printable ASCII on one line, whatever the text has; its backslashes are `\\x5c`."""
    return "".join(c if " " <= c <= "~" and c != "\\" else _escaped(c) for c in text)


def printable(text: str) -> str:
    """Lines for a terminal, to which none of their characters is a command."""
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(letter: str) -> str:
    code = ord(letter)
    return (
        f"\\x{code:02x}"
        if code < 0x80
        else f"\\u{code:04x}"
        if code < 1 << 16
        else f"\\U{code:08x}"
    )


def c_comment(text: str) -> str:
    """What may stand behind `//`, at whose end it neither continues the line nor is a trigraph."""
    return plain(text).replace("??", "?\\x3f")


def c_string(text: str) -> str:
    """A literal of C with these bytes in UTF-8, whatever they are."""
    escaped = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}
    shown = (
        escaped.get(c)
        or (c if " " <= c <= "~" else "".join(f"\\{b:03o}" for b in c.encode(errors="replace")))
        for c in text
    )
    return '"' + "".join(shown).replace("??", "?\\?") + '"'


def mlir_string(text: str) -> str:
    """A literal of MLIR with this text, in which quotes are escaped so that it reads well."""
    escaped = {'"': '\\"', "\\": "\\\\"}
    shown = (escaped.get(c) or (c if " " <= c and c != "\x7f" else f"\\{ord(c):02X}") for c in text)
    return '"' + "".join(shown) + '"'


def c_identifier(name: str) -> str:
    """A name like `name` that an identifier of C can be, keywords aside."""
    name = re.sub(r"\W", "_", shortened(name), flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name or "_"


def file_name(name: str) -> str:
    """A name like `name` that a file can have: it is in no other folder, nor hidden."""
    return re.sub(r"[^\w.-]", "_", shortened(name), flags=re.ASCII).lstrip(".-") or "_"


def shortened(name: str) -> str:
    """`name`; of one that is too long the beginning, and a part that tells it from others."""
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def python_comment(text: str) -> str:
    """What may stand in a documentation string of Python, which it does not end."""
    return plain(text).replace('"', "'")


def python_string(text: str) -> str:
    """A literal of Python with this text, raw and with its lines as they are if that can be."""
    printable = all(map(str.isprintable, text.split("\n")))
    if printable and '"""' not in text and text.endswith("\n"):
        return f'r"""\n{text}"""'
    lines = "".join(f"    {line!a}\n" for line in text.splitlines(keepends=True))
    return f"(\n{lines})"


def html_text(text: str) -> str:
    """What stands for this text in a page, between tags or in a quoted attribute."""
    return html.escape(printable(text))


def html_json(value: object) -> str:
    """JSON for a script element of a page, which nothing in it ends."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
