"""What a command will write, looked at before its work begins."""

from __future__ import annotations

import argparse
import errno
import os

from dlc.cli.directories import names_directory

OPTIONS = ("o", "plot", "trace", "export", "times_to")
"""By the names in the namespace: each names a file, and `-o` of compile perhaps a directory."""


def check_written(options: argparse.Namespace) -> None:
    """
    OSError for a file or a directory that options name and that cannot be written; UsageError for a
    directory of files that are not an exported program's.
    """
    for option in OPTIONS:
        path: str | None = getattr(options, option, None)
        if path is None:
            continue
        if options.command == "compile" and option == "o" and names_directory(path):
            from dlc.backend.export import check_directory

            check_directory(path)
        elif os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        else:
            _check_file(path)


def _check_file(path: str) -> None:
    """OSError unless a file can be written, which is not touched."""
    folder = os.path.dirname(path) or os.curdir
    if not os.path.exists(folder):
        code = errno.ENOENT
    elif not os.path.isdir(folder):
        code = errno.ENOTDIR
    elif os.access(path if os.path.exists(path) else folder, os.W_OK):
        return
    else:
        code = errno.EACCES
    raise OSError(code, os.strerror(code), path)
