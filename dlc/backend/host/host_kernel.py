"""
Compiles printed kernels for the CPU and launches them there.

A kernel's text becomes a shared object with one entry, which unpacks the arguments and runs one
thread. The scheduler (``scheduler.cpp``), a shared object of its own, calls it for every thread.
"""

import ctypes
import functools
import re
import struct
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from dlc.backend import BackendError, LaunchError
from dlc.backend.cache import Entry, cache_directory, content_key, lookup_or_build
from dlc.backend.host import cxx as compiler
from dlc.backend.parallel import OnDone, cpu_count, work_all
from dlc.ir.cached import cached
from dlc.target import MAX_THREADS

Order = Literal["forward", "reverse", "random"]
AsyncMode = Literal["late", "early"]

_HERE = Path(__file__).parent
_HEADER = _HERE / "dlc_host.h"
# From C++17 on, libstdc++'s <math.h> brings special functions that take most of the compile time.
_KERNEL_FLAGS = ("-std=c++14",)
# Most of linking would be a look for libraries that the scheduler brings: kernels find its symbols
# and those of what it is linked with. It is a fifth of the time of a small kernel.
_LINK_FLAGS = ("-nostdlib",) if sys.platform == "linux" else ()
_SCHEDULER = _HERE / "scheduler.cpp"
_ORDERS: dict[str, int] = {"forward": 0, "reverse": 1, "random": 2}
_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "signed char": ctypes.c_int8,
    "unsigned char": ctypes.c_uint8,
    "short": ctypes.c_int16,
    "unsigned short": ctypes.c_uint16,
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "long long": ctypes.c_int64,
    "unsigned long long": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
# g++ knows `#pragma unroll` by another name and has no "as far as possible". Four was as fast as
# full unrolling on register-tiled kernels, and compiles three times as quickly.
_UNROLL = re.compile(r"^(\s*)#pragma unroll\b[ \t]*\(?(\d*)\)?", re.MULTILINE)
_MAX_UNROLL = 4
_CLUSTER = re.compile(r"__cluster_dims__\((\d+),")


class _Launch(ctypes.Structure):
    """struct dlc::Launch of dlc_host.h."""

    _fields_ = [
        ("grid", ctypes.c_int64),
        ("block", ctypes.c_int32),
        ("shared_bytes", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("order", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("early", ctypes.c_int32),
        ("cluster", ctypes.c_int32),
    ]


def _host_text(source: str) -> str:
    if compiler.is_clang():
        return source
    return _UNROLL.sub(
        lambda m: f"{m[1]}#pragma GCC unroll {min(int(m[2] or _MAX_UNROLL), _MAX_UNROLL)}", source
    )


@functools.cache
def _scheduler() -> ctypes.CDLL:
    parts = sorted(path for path in _HERE.iterdir() if path.suffix in (".h", ".cpp"))
    key = content_key(*(path.read_text() for path in parts), compiler.fingerprint())

    def build(directory: Path) -> dict[str, int]:
        compiler.compile_shared(_SCHEDULER, directory / "scheduler.so", ["-I", str(_HERE)])
        return {}

    entry = lookup_or_build("host-scheduler", key, "scheduler.so", build)
    return ctypes.CDLL(str(entry.path), mode=ctypes.RTLD_GLOBAL)


def _header() -> Path:
    """What kernels include, read ahead for g++, which takes half as long then."""
    if compiler.is_clang():
        return _HEADER
    if not (made := _read_ahead(cache_directory())).exists():  # somebody has emptied the cache
        _read_ahead.cache_clear()
        made = _read_ahead(cache_directory())
    return made


@functools.cache
def _headers() -> Mapping[str, str]:
    """The text of each header that kernels include, by its name."""
    return {path.name: path.read_text() for path in sorted(_HERE.glob("*.h"))}


@functools.cache
def _read_ahead(cache: Path) -> Path:
    """The header in this cache, beside what g++ has made of it."""
    key = content_key(*_headers().values(), *_KERNEL_FLAGS, compiler.fingerprint())

    def build(directory: Path) -> dict[str, int]:
        for name, text in _headers().items():
            (directory / name).write_text(text)
        compiler.read_ahead(directory / _HEADER.name, _KERNEL_FLAGS)
        return {}

    return lookup_or_build("host-header", key, _HEADER.name, build).path


class HostKernel:
    """
    A printed kernel on the CPU. `source` is the whole text, `name` the kernel in it, and
    `parameter_types` the C types of its parameters ("const float*", "int", "tensor_map").
    Nothing is compiled before :meth:`compile` or :meth:`launch`, nor at all where `made` is the
    shared object.
    """

    def __init__(
        self, source: str, name: str, parameter_types: Sequence[str], made: Path | None = None
    ):
        self.made = made
        self.source = source
        self.name = name
        self.parameter_types = tuple(
            " ".join(re.sub(r"__restrict__|__grid_constant__", "", t).split())
            for t in parameter_types
        )
        self._entry: Any = None  # the function pointer, once loaded
        self._cluster = 1  # the blocks that run at the same time, once loaded
        self._lock = threading.Lock()

    @cached
    def text(self) -> str:
        """The text for the C++ compiler: the source, with its entry after it."""
        values = ", ".join(
            f"*static_cast<{kind}*>(dlc_args[{i}])" for i, kind in enumerate(self.parameter_types)
        )
        cluster = found[1] if (found := _CLUSTER.search(self.source)) else "1"
        return (
            f"{_host_text(self.source)}\n"
            'extern "C" __attribute__((visibility("default"))) void dlc_thread(void** dlc_args) {\n'
            "  static thread_local char anchor;\n  dlc_position.static_shared = &anchor;\n"
            f"  (void)dlc_args;\n  {self.name}({values});\n}}\n"
            'extern "C" __attribute__((visibility("default"))) const int dlc_cluster = '
            f"{cluster};\n"
        )

    @cached
    def key(self) -> str:
        """The address of the compiled object in the cache."""
        return content_key(
            self.text, self.name, _KERNEL_FLAGS[0], *_headers().values(), compiler.fingerprint()
        )

    def compile(self) -> Path:
        """The shared object, compiled if it is not in the cache. BackendError with the reason."""
        return self.made or self._build().path

    def _build(self) -> Entry:
        def build(directory: Path) -> dict[str, int]:
            source = directory / f"{self.name}.cpp"
            source.write_text(self.text)
            flags = (*_KERNEL_FLAGS, *_LINK_FLAGS, "-include", str(_header()))
            compiler.compile_shared(source, directory / "kernel.so", flags)
            return {}

        return lookup_or_build("host", self.key, "kernel.so", build)

    def _load(self) -> Any:
        with self._lock:
            if self._entry is None:
                _scheduler()
                path = self.compile()
                try:
                    made = ctypes.CDLL(str(path))
                    self._cluster = ctypes.c_int.in_dll(made, "dlc_cluster").value
                    self._entry = made.dlc_thread
                except (OSError, AttributeError, ValueError) as error:
                    raise BackendError(
                        f"cannot load machine code of {self.name}: {error}"
                    ) from None
            return self._entry

    def launch(
        self,
        args: Sequence[float | bytes],
        grid: int,
        block: int,
        shared_bytes: int = 0,
        *,
        threads: int | None = None,
        order: Order = "forward",
        seed: int = 0,
        async_mode: AsyncMode = "late",
    ) -> None:
        """
        Runs `grid` blocks of `block` threads and returns when all are done.

        `args` are addresses for pointers, numbers for scalars and bytes for structs;
        `shared_bytes` is the dynamic shared memory, filled with NaN before each block. `threads`
        is the number of OS threads (default: the CPUs at hand); `order` says who goes first
        between barriers and between shuffles, seeded by `seed`. Asynchronous copies land at the
        matching wait (`late`: finds a missing wait) or at the issue (`early`: finds a slot
        that others still read). The blocks of a cluster run at the same time, each on an OS thread
        of its own, however few `threads` there are. LaunchError names the block and threads that
        failed.
        """
        if len(args) != len(self.parameter_types):
            raise LaunchError(
                f"{self.name} has {len(self.parameter_types)} parameters but got {len(args)}"
            )
        if not 1 <= block <= MAX_THREADS:
            raise LaunchError(f"{self.name}: a block has 1 to {MAX_THREADS} threads, not {block}")
        if not 0 <= grid < 2**31 or shared_bytes < 0:
            raise LaunchError(
                f"{self.name}: expected 0 <= grid < 2**31 and shared_bytes >= 0, found "
                f"grid {grid} and shared_bytes {shared_bytes}"
            )
        if order not in _ORDERS or async_mode not in ("late", "early"):
            raise LaunchError(
                f"{self.name}: order is forward, reverse or random, not {order!r}; "
                f"async_mode is late or early, not {async_mode!r}"
            )
        entry = self._load()
        if grid == 0:
            return
        if grid % self._cluster:
            raise LaunchError(
                f"{self.name}: expected whole clusters of {self._cluster} blocks, found a grid of "
                f"{grid}"
            )
        values = [_pack(kind, arg) for kind, arg in zip(self.parameter_types, args, strict=True)]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(address for _, address in values))
        launch = _Launch(
            grid,
            block,
            shared_bytes,
            threads or cpu_count(),
            _ORDERS[order],
            seed & (2**64 - 1),
            async_mode == "early",
            self._cluster,
        )
        message = ctypes.create_string_buffer(4096)
        if _scheduler().dlc_run(
            entry, pointers, ctypes.byref(launch), message, ctypes.c_size_t(len(message))
        ):
            raise LaunchError(f"{self.name}: {message.value.decode(errors='replace')}")


def _pack(kind: str, value: float | bytes) -> tuple[object, int]:
    """The value in memory as its C type has it: what keeps it alive, and its address."""
    if isinstance(value, bytes):  # a struct, at an address that suits any alignment
        memory = ctypes.create_string_buffer(len(value) + 128)
        address = (ctypes.addressof(memory) + 127) & ~127
        ctypes.memmove(address, value, len(value))
        return memory, address
    kind = kind.removeprefix("const ").strip() if not kind.endswith("*") else kind
    scalar: Any = ctypes.c_void_p if kind.endswith("*") else _SCALARS.get(kind)
    if scalar is None:
        raise LaunchError(f"a parameter of type {kind!r} takes bytes, not {value!r}")
    try:
        holder = scalar(value)
    except TypeError as error:
        raise LaunchError(f"a parameter of type {kind!r} cannot take {value!r}") from error
    return holder, ctypes.addressof(holder)


def compile_all(
    kernels: Iterable[HostKernel], jobs: int | None = None, on_done: OnDone | None = None
) -> None:
    """Compiles kernels, `jobs` at a time (default: the CPUs at hand); raises the first error."""
    unique = {kernel.key: kernel for kernel in kernels}
    work_all(lambda key: unique[key].compile(), unique, jobs, on_done)


def encode_tensor_map(
    address: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_bytes: int,
    swizzle_bytes: int = 0,
) -> bytes:
    """
    The host's form of a `tensor_map` argument: extents, strides (in bytes) and box, innermost
    dimension first; swizzle_bytes is 0, 32, 64 or 128.
    """
    rank = len(extents)
    if not 1 <= rank <= 5 or len(strides) != rank or len(box) != rank:
        raise BackendError(
            "a tensor map has 1 to 5 extents and as many strides and box extents; found "
            f"{rank}, {len(strides)} and {len(box)}"
        )
    pad = [0] * (5 - rank)
    return struct.pack(
        "Q5Q5Q5I3I8x",
        address, *extents, *pad, *strides, *pad, *box, *pad, rank, element_bytes, swizzle_bytes,
    )  # fmt: skip
