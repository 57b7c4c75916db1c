"""
dlc, dlc-opt and filecheck by fork, for lit, which runs them hundreds of times, and Python by fork.

To import what they need takes half a second, ten times what most of them then do. So one server
imports all of it and, for each run, forks a process of its own, which has the arguments, folder,
environment and standard files of the one that lit starts. A server of Python has imported PyTorch
and xDSL, and nothing of dlc: what a test changes of that, as by plug-ins, is found as by a process
of its own.

    forked_tools(environment)            starts a server; a folder with the tools as commands
    commands(folder), serve(listener)    the two sides, for who starts servers by itself
    forked_python()                      starts a server of Python; what to run in its place
    python forked.py PATH TOOL ARGS...   runs a tool by the server that listens at PATH
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import cache

TOOLS = {
    "dlc": "dlc.cli.dlc_cli",
    "dlc-opt": "dlc.cli.dlc_opt",
    "filecheck": "filecheck.main",
}
PYTHON = "python"
SECONDS = 60
"""After which a run is killed: lit ends only the process that it started."""


def run_by_server(path: str, argv: list[str]) -> int:
    """Has a tool run with the standard files of this process, and returns its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        request = f"{(argv, os.getcwd(), dict(os.environ))!r}\n".encode()
        sent = socket.send_fds(server, [request], [0, 1, 2])
        server.sendall(request[sent:])
        code = server.recv(1)
    return code[0] if code else 1


def serve(listener: socket.socket) -> None:
    """Answers requests for tools until the process that started this one is gone."""
    from importlib import import_module

    mains = {name: import_module(module).main for name, module in TOOLS.items()}
    for module in ("dlc.compiler", "dlc.cli.run_report", "dlc.cli.program_input"):
        import_module(module)
    for name in import_module("dlc.registry").PASSES:
        import_module("dlc.registry").get_pass(name)
    answer_all(listener, mains)


def serve_python(listener: socket.socket) -> None:
    """Answers requests for Python."""
    import_torch()
    import xdsl.dialects.arith
    import xdsl.dialects.func
    import xdsl.dialects.scf
    import xdsl.parser
    import xdsl.xdsl_opt_main  # noqa: F401

    answer_all(listener, {PYTHON: python_main})


def python_main() -> None:
    """`python -c CODE` or `python -m MODULE`, with the path of the environment."""
    import runpy

    _, how, what, *arguments = sys.argv
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = list(dict.fromkeys(["", *filter(None, given), *sys.path]))
    sys.argv = [how, *arguments]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def import_torch() -> None:
    """Imports what takes long and is not dlc's; an export imports what it needs."""
    from warnings import catch_warnings

    import torch

    with catch_warnings(action="ignore"):
        program = torch.export.export(torch.nn.Identity(), (torch.zeros(1),))
        program.run_decompositions()


def answer_all(listener: socket.socket, mains: dict[str, Callable[[], object]]) -> None:
    """Answers requests until the process that started this one is gone."""
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the runs
    parent = os.getppid()
    listener.settimeout(1)
    while os.getppid() == parent:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.alarm(SECONDS)
            os._exit(answer(connection, mains))
        connection.close()


def answer(connection: socket.socket, mains: dict[str, Callable[[], object]]) -> int:
    import ast

    connection.settimeout(None)
    request, files, *_ = socket.recv_fds(connection, 1 << 16, 3)
    while not request.endswith(b"\n"):
        request += connection.recv(1 << 16)
    sys.argv, folder, environment = ast.literal_eval(request.decode())
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = exit_code(mains[sys.argv[0]])
    connection.sendall(bytes([code]))
    return code


def exit_code(main: Callable[[], object]) -> int:
    """What the process of a script that ends in `sys.exit(main())` ends with."""
    import traceback

    try:
        code = main()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def forked_tools(environment: Mapping[str, str]) -> str:
    """
    A folder with the tools as commands. Their server imports them in an environment, and lives as
    long as this process.
    """
    from tempfile import TemporaryDirectory

    temporary = TemporaryDirectory(prefix="dlc-")
    _start(commands(temporary.name), environment, "tools")
    _kept.append(temporary)
    return temporary.name


@cache
def forked_python() -> list[str]:
    """
    What stands for `python` in a command, to be followed by `-c` or `-m`, that a server of Python
    runs. It is started at the first call, and lives as long as this process.
    """
    from tempfile import TemporaryDirectory

    temporary = TemporaryDirectory(prefix="dlc-")
    path = os.path.join(temporary.name, "socket")
    _start(_listener(path), os.environ, PYTHON)
    _kept.append(temporary)
    return [sys.executable, "-I", "-S", __file__, path, PYTHON]


def _start(listener: socket.socket, environment: Mapping[str, str], what: str) -> None:
    import subprocess

    number = listener.fileno()
    command = [sys.executable, __file__, "--serve", what, str(number)]
    _kept.extend((listener, subprocess.Popen(command, env=environment, pass_fds=[number])))


def _listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def commands(folder: str) -> socket.socket:
    """Makes the tools as commands in a folder, and the socket where they look for a server."""
    import shlex
    from pathlib import Path

    path = os.path.join(folder, "socket")
    listener = _listener(path)
    for name in TOOLS:
        client = shlex.join([sys.executable, "-I", "-S", __file__, path, name])
        command = Path(folder, name)
        command.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        command.chmod(0o755)
    return listener


_kept: list[object] = []
"""What ends when it is collected."""

if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        listener = socket.socket(fileno=int(sys.argv[3]))
        (serve_python if sys.argv[2] == PYTHON else serve)(listener)
    else:
        sys.exit(run_by_server(sys.argv[1], sys.argv[2:]))
