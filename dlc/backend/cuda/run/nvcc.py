"""Finds nvcc and compiles printed kernels to cubins, cached by content."""

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dlc.backend import BackendError
from dlc.backend.cache import content_key, lookup_or_build
from dlc.backend.cuda.run.sass_products import check_products
from dlc.backend.cuda.run.tools import find_tool
from dlc.backend.parallel import OnDone, work_all

_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-nvvm")
_INSTALL = "install the CUDA toolkit, or the compiler's wheels with: pip install " + " ".join(
    f"'{wheel}==13.0.*'" for wheel in _WHEELS
)
# Multiply-adds are where the text says fmaf.
_FLAGS = ("-cubin", "-std=c++17", "-O3", "-fmad=false", "-Xptxas", "-v")
# Instructions that exist on one architecture only, and need its "a" target.
_ARCH_SPECIFIC = re.compile(r"\b(wgmma|setmaxnreg|tcgen05)\b")
# What a shell reads within double quotes, and what ends a line.
_SHELLS = re.compile(r'["$`\\\n]')
# nvcc takes options from these, too.
_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_SERIALIZED = r"\(C7[56]\d\d\)"
_USAGE = {
    "registers": r"Used (\d+) registers",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "shared_bytes": r"(\d+) bytes smem",
    "stack": r"(\d+) bytes stack frame",
}


@dataclass(frozen=True)
class Cubin:
    """A compiled text and what ptxas says of it; of several kernels, the largest of each."""

    path: Path
    registers: int
    """Per thread."""
    spill_bytes: int
    """Stores and loads together."""
    shared_bytes: int
    """Static shared memory per block."""
    stack: int
    """Bytes of local memory per thread."""
    serialized: int = 0
    """Remarks of ptxas that it had to serialize products of warpgroups, or to wait for them, or
    that it ignores what registers they set."""


def find_nvcc() -> Path:
    """
    nvcc from PATH or a toolkit, else from the installed wheels. BackendError says what to install
    if there is none.
    """
    if found := find_tool("nvcc") or _wheel_nvcc():
        return found
    raise BackendError(f"nvcc was not found on PATH, in $CUDA_HOME or as a wheel; {_INSTALL}")


def _wheel_nvcc() -> Path | None:
    try:
        files = importlib.metadata.files(_WHEELS[0]) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.parts[-2:] in (("bin", "nvcc"), ("bin", "nvcc.exe")):
            missing = [wheel for wheel in _WHEELS if not _is_installed(wheel)]
            if missing:
                raise BackendError(
                    f"the wheel {_WHEELS[0]} is installed, but it also needs {', '.join(missing)}; "
                    f"{_INSTALL}"
                )
            return Path(str(file.locate())).resolve()
    return None


def _is_installed(wheel: str) -> bool:
    try:
        importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def compile_cubins(sources: Sequence[str], arch: str, on_done: OnDone | None = None) -> list[Cubin]:
    """Compiles texts as `compile_cubin` does, as many at once as there are CPUs."""
    made = work_all(lambda text: compile_cubin(text, arch), sources, on_done=on_done)
    return [made[text] for text in sources]


def exact_arch(source: str, arch: str) -> str:
    """`arch`, as `sm_90a` and the like where the text has instructions of that one chip."""
    return f"{arch}a" if arch[-1].isdigit() and _ARCH_SPECIFIC.search(source) else arch


def compile_cubin(source: str, arch: str = "sm_90", options: Sequence[str] = ()) -> Cubin:
    """
    Compiles CUDA C for one architecture, with further nvcc options if given.
    BackendError with nvcc's output and the path of the kept source if it is refused, or if its
    machine code does not wait for products that are in flight.
    """
    nvcc = find_nvcc()
    arch = exact_arch(source, arch)
    given = [os.environ.get(name, "") for name in _ENVIRONMENT]
    key = content_key(source, arch, *_FLAGS, *options, *given, _version(nvcc))

    def build(directory: Path) -> dict[str, int]:
        text = directory / "kernel.cu"
        text.write_text(source)
        command = [str(nvcc), *_FLAGS, f"-arch={arch}", *options]
        with _plainly_named(directory) as place:
            result = _run([*command, str(place / text.name), "-o", str(place / "kernel.cubin")])
        if result.returncode:
            said = (result.stderr + result.stdout).strip()
            if "Unsupported gpu architecture" in said:
                release = re.search(r"release (\S+),", _version(nvcc))
                raise BackendError(
                    f"{nvcc}{f' {release[1]}' if release else ''} does not know {arch}: put one "
                    "on PATH that does, compile for another target, or take the backend 'host'"
                )
            raise BackendError(
                f"nvcc refuses {text} for {arch} (kept there to look at):\n"
                f"{said or f'no message, exit code {result.returncode}'}"
            )
        check_products(source, directory / "kernel.cubin")
        return _usage(result.stderr + result.stdout)

    entry = lookup_or_build("cuda", key, "kernel.cubin", build)
    info = entry.info
    return Cubin(
        entry.path,
        info["registers"],
        info["spill_stores"] + info["spill_loads"],
        info["shared_bytes"],
        info["stack"],
        info.get("serialized", 0),
    )


@contextmanager
def _plainly_named(directory: Path) -> Iterator[Path]:
    """
    A directory, under a name that nvcc can be told: it passes names to a shell, in double quotes.
    Files that are made under another name are in the directory afterwards.
    """
    if _SHELLS.search(tempfile.gettempdir()):
        raise BackendError(
            f"nvcc passes the name of the directory of temporary files, {tempfile.gettempdir()!r}, "
            "to a shell, which would not take it as it is: set TMPDIR to another one"
        )
    if not _SHELLS.search(str(directory)):
        yield directory
        return
    with tempfile.TemporaryDirectory() as plain:
        shutil.copytree(directory, plain, dirs_exist_ok=True)
        yield Path(plain)
        shutil.copytree(plain, directory, dirs_exist_ok=True)


def _usage(log: str) -> dict[str, int]:
    """
    The largest of each figure that `ptxas -v` prints, 0 where it prints none, and the number of its
    remarks on wgmma.
    """
    usage = {
        name: max((int(value) for value in re.findall(pattern, log)), default=0)
        for name, pattern in _USAGE.items()
    }
    return {**usage, "serialized": len(re.findall(_SERIALIZED, log))}


@functools.cache
def _version(nvcc: Path) -> str:
    result = _run([str(nvcc), "--version"])
    if result.returncode:
        raise BackendError(f"{nvcc} --version fails: {(result.stderr + result.stdout).strip()}")
    return result.stdout


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
