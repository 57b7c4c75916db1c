"""The system's C++ compiler: finding it, its flags, and what it says."""

import functools
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dlc.backend import BackendError

# No fast-math, and a multiply-add only where the text says fmaf, as nvcc is told, too: if
# exp(x * s - m) had one, m being a rounded x * s, large numbers would give infinity. The other
# options change no value, as -fno-trapping-math would: with it g++ 12 makes (double)(long)x one
# rounding, which gives -0 for -0.5 and NaN for NaN. Nor does it know atan and atanh: sines of atan
# it would take by a formula that gives 1 for NaN. Integers wrap. Memory is accessed as vectors of
# several types, as CUDA lets texts do: what is stored as one of 8 halves is loaded as two of 4.
# -O2 was as fast as -O3 on register-tiled kernels and less sensitive to their form.
_FLAGS = (
    "-std=c++17 -O2 -ffp-contract=off -fno-math-errno -fwrapv "
    "-fno-builtin-atan -fno-builtin-atanf -fno-builtin-atanh -fno-builtin-atanhf "
    "-fno-strict-aliasing -fPIC -shared -fvisibility=hidden -pthread -Wno-psabi"
).split()
# With the ranges of values that it finds, g++ 12 gives wrong numbers for unrolled loops of choices
# such as `k * 4 + i < 7 ? a : b`: for the distances of 1031 points of 6 numbers.
_FLAGS_OF_GCC = ("-fno-tree-vrp",)
_MAX_FRAME = 131072  # bytes; a fiber's stack is larger by a margin for what the kernel calls


@functools.cache
def _find(chosen: str) -> tuple[str, ...]:
    candidates = [shlex.split(chosen)] if chosen else [["g++"], ["clang++"], ["c++"]]
    for command in candidates:
        if command and shutil.which(command[0]):
            return tuple(command)
    hint = (
        "install the Xcode command line tools (xcode-select --install)"
        if sys.platform == "darwin"
        else "install one (apt install g++)"
    )
    what = f"$CXX is {chosen!r}, which is not a command" if chosen else "no C++ compiler was found"
    raise BackendError(f"{what}, and the host backend needs one: {hint}, or set CXX")


def compiler() -> tuple[str, ...]:
    """The command: `$CXX`, else g++, clang++ or c++ from PATH. BackendError if there is none."""
    return _find(os.environ.get("CXX", ""))


def _portable_flags() -> tuple[str, ...]:
    arm = platform.machine().lower() in ("arm64", "aarch64")
    cpu = "-mcpu=native" if arm else "-march=native"
    link = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
    return (cpu, *_FLAGS, *link)


def flags() -> tuple[str, ...]:
    """The flags of every host object; a frame too large for a fiber is an error."""
    if is_clang():
        limit = (f"-Wframe-larger-than={_MAX_FRAME}", "-Werror=frame-larger-than=")
    else:
        limit = (*_FLAGS_OF_GCC, f"-Werror=frame-larger-than={_MAX_FRAME}")
    return (*_portable_flags(), *limit)


@functools.cache
def _macros(command: tuple[str, ...], options: tuple[str, ...]) -> str:
    options = tuple(option for option in options if option != "-shared")
    result = _run([*command, *options, "-dM", "-E", "-x", "c++", os.devnull])
    if result.returncode:
        raise BackendError(
            f"{' '.join(command)} does not take the host backend's flags; set CXX to g++ 9 or "
            f"clang++ 14 or later. It says:\n{result.stderr.strip()}"
        )
    return result.stdout


def fingerprint() -> str:
    """
    Command, flags and every macro that the compiler predefines: its version, the system, and the
    instruction sets of this CPU.
    """
    return "\n".join([*compiler(), *flags(), _macros(compiler(), _portable_flags())])


def is_clang() -> bool:
    """True if the compiler is Clang, which takes `#pragma unroll`."""
    return "__clang__" in _macros(compiler(), _portable_flags())


def compile_shared(source: Path, target: Path, extra: Sequence[str] = ()) -> None:
    """Compiles one C++ file to a shared object. BackendError with what the compiler says."""
    _make(source, target, [*extra, "-x", "c++"])


def read_ahead(header: Path, extra: Sequence[str] = ()) -> None:
    """Lets g++ find beside a header what it has read of it. BackendError as above."""
    _make(header, header.with_name(f"{header.name}.gch"), [*extra, "-x", "c++-header"])


def _make(source: Path, target: Path, options: Sequence[str]) -> None:
    command = [*compiler(), *flags(), *options, str(source), "-o", str(target)]
    result = _run(command)
    if result.returncode or not target.exists():
        raise BackendError(
            f"the C++ compiler refuses {source} (kept there to look at):\n"
            f"{result.stderr.strip() or f'no message, exit code {result.returncode}'}"
        )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=os.environ | {"LC_ALL": "C"},  # plain quotes, English
    )
