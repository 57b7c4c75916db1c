"""wgmma: layouts and descriptors as the PTX ISA has them, on the host and in the simulator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import ptx_fragments
import pytest
from mutants import Mutation, mutations
from ptx_fragments import table
from test_mma import FLOAT8, INTEGERS, bf16, bits
from test_printer import aligned, kernel_of, nvcc_takes, on_host, parse
from xdsl.utils.exceptions import VerifyException

from dlc.backend import LaunchError
from dlc.backend.cuda.print.printer import print_module
from dlc.dialects.mma_layouts import TF32, TF32_MASK, WARPGROUP_SHAPES, MmaAttr
from dlc.simulator import Hazard, run_kernel
from dlc.simulator.narrow_floats import rounded
from dlc.simulator.warp_matrices import places_of

Array = np.ndarray[Any, Any]


def sums_at(n: int) -> tuple[Array, Array]:
    """The rows and the columns of the sums of threads, by the figure: (thread, sum)."""
    rows, columns = np.zeros((2, 128, max(n, 16) // 2), int)
    for (thread, sum), (row, column) in table(ptx_fragments.D_M64N16).items():
        rows[thread, sum::8], columns[thread, sum::8] = row, column
    columns += np.arange(columns.shape[1]) // 8 * 16
    return rows[:, : n // 2], columns[:, : n // 2]


@pytest.mark.parametrize("names", WARPGROUP_SHAPES)
def test_sums_lie_as_in_the_figure(names: tuple[str, str]) -> None:
    shape = WARPGROUP_SHAPES[names]
    assert (shape.c.width, shape.m) == (shape.n // 2, 64)
    assert shape.k * MmaAttr(*names).multiplied.element.bitwidth == 256
    for found, figure in zip(places_of(shape.c), sums_at(shape.n), strict=True):
        np.testing.assert_array_equal(found, figure)
    assert shape.c.at(5, 3) == tuple(int(of[5, 3]) for of in sums_at(shape.n))


def place(row: int, unit: int, swizzle: int) -> int:
    """The byte of a 16-byte unit of a row in an atom of eight rows."""
    if not swizzle:
        return row * 16
    figure = getattr(ptx_fragments, f"SWIZZLE_{swizzle}").split("\n")[1:-1]
    return row * swizzle + figure[row].split().index(str(unit)) * 16


def image(
    matrix: Array, swizzle: int, *, along_rows: bool, bytes: int = 2
) -> tuple[Array, int, int]:
    """
    A matrix (rows, K), of elements of so many bytes, as it lies in shared memory, and its leading
    and stride offsets: atoms of eight rows of a swizzle's width, one after the other in memory, K
    before rows or, if rows are neighbours, rows before K.
    """
    turned = matrix.T if along_rows else matrix
    unit = 16 // bytes
    width = (swizzle or 16) // bytes
    outer, inner = turned.shape
    across = -(-inner // width)
    atom = 8 * width
    flat = np.zeros(-(-outer // 8) * across * atom, matrix.dtype)
    for o in range(outer):
        for i in range(inner):
            where = place(o % 8, i % width // unit, swizzle) // bytes + i % unit
            flat[(o // 8 * across + i // width) * atom + where] = turned[o, i]
    ahead, below = bytes * atom, bytes * atom * across
    if along_rows and not swizzle:
        return flat, below, ahead
    return flat, ahead, below


TEXT = """
kernel.func @product(%x: memref<{a}x{e}>, %y: memref<{b}x{f}>, %z: memref<128x{w}x{sums}>)
    -> (%o: memref<128x{w}x{sums}>) grid 1 block 128 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rounds_a = arith.constant {rounds_a} : index
  %rounds_b = arith.constant {rounds_b} : index
  %tiles = arith.constant {tiles} : index
  %t = kernel.thread_id
  %A = kernel.alloc_shared : memref<{a}x{e}, #kernel.shared>
  %B = kernel.alloc_shared : memref<{b}x{f}, #kernel.shared>
  %acc = kernel.alloc_local : memref<{tiles}x4x{sums}, #kernel.local>
  scf.for %i = %c0 to %rounds_a step %c1 {{
    %v = kernel.load %x[%i * 128 + %t] : memref<{a}x{e}>
    kernel.store %v, %A[%i * 128 + %t] : memref<{a}x{e}, #kernel.shared>
  }}
  scf.for %i = %c0 to %rounds_b step %c1 {{
    %v = kernel.load %y[%i * 128 + %t] : memref<{b}x{f}>
    kernel.store %v, %B[%i * 128 + %t] : memref<{b}x{f}, #kernel.shared>
  }}
  scf.for %i = %c0 to %tiles step %c1 {{
    %v = kernel.load %z[%t, %i * 4] : memref<128x{w}x{sums}> -> vector<4x{sums}>
    kernel.store %v, %acc[%i, 0] : memref<{tiles}x4x{sums}, #kernel.local>, vector<4x{sums}>
  }} {{unroll}}
  kernel.fence_proxy_async
  kernel.barrier
  %p = kernel.matrix_descriptor %A[0] leading {la} stride {sa} swizzle {ma}
    : memref<{a}x{e}, #kernel.shared>
  %q = kernel.matrix_descriptor %B[0] leading {lb} stride {sb} swizzle {mb}
    : memref<{b}x{f}, #kernel.shared>
  kernel.wgmma_fence %acc : memref<{tiles}x4x{sums}, #kernel.local>
  kernel.wgmma <{shape}, {factors}> %acc[0, 0], %p{m_major}, %q{n_major}
    : memref<{tiles}x4x{sums}, #kernel.local>
  kernel.wgmma_commit
  kernel.wgmma_wait 0, %acc : memref<{tiles}x4x{sums}, #kernel.local>
  scf.for %i = %c0 to %tiles step %c1 {{
    %v = kernel.load %acc[%i, 0] : memref<{tiles}x4x{sums}, #kernel.local> -> vector<4x{sums}>
    kernel.store %v, %o[%t, %i * 4] : memref<128x{w}x{sums}>, vector<4x{sums}>
  }} {{unroll}}
}}"""


NAMES = {(shape.n, e): name for (name, e), shape in WARPGROUP_SHAPES.items()}
"""The names of shapes, by their columns and the type of factors."""


def drawn(rng: np.random.Generator, rows: int, k: int, name: str) -> tuple[Array, Array]:
    """A factor of random numbers, and what is read of it."""
    if name in INTEGERS:
        info = np.iinfo(INTEGERS[name])
        read = rng.integers(info.min, info.max + 1, (rows, k), info.dtype)
        return read.view(np.int8), read
    x = rng.standard_normal((rows, k)).astype(np.float16 if name == "f16" else np.float32)
    if name == TF32:
        return x, (x.view(np.int32) & TF32_MASK).view(np.float32)
    x = bf16(x) if name == "bf16" else rounded(x, FLOAT8[name]) if name in FLOAT8 else x
    return x, x


class Product:
    """C + A · B of random numbers, A and B in shared memory as they are told."""

    def __init__(
        self, n: int, e: str, swizzles: tuple[int, int], majors: tuple[bool, bool]
    ) -> None:
        rng = np.random.default_rng(n)
        mma = MmaAttr(NAMES[n, e], e)
        self.factors, k, bytes = mma.names, mma.sizes.k, mma.multiplied.element.bitwidth // 8
        (a, left), (b, right) = (
            drawn(rng, rows, k, name) for rows, name in zip((64, n), mma.names, strict=True)
        )
        c = rng.standard_normal((64, n)).astype(np.float32)
        if mma.names[0] in INTEGERS:
            c = rng.integers(-1000, 1000, c.shape, np.int32)
        self.exact = c + left.astype(np.float64) @ right.T.astype(np.float64)
        self.at = sums_at(n)
        self.shape = (128, n // 2)
        c_lanes = c[self.at]
        (x, la, sa), (y, lb, sb) = (
            image(matrix, swizzle, along_rows=major, bytes=bytes)
            for matrix, swizzle, major in zip((a, b), swizzles, majors, strict=True)
        )
        self.inputs = (x, y, c_lanes)
        of_a, of_b = mma.elements
        self.text = TEXT.format(
            a=x.size, b=y.size, w=n // 2, e=of_a, f=of_b, factors=e, tiles=n // 8,
            sums=mma.multiplied.sums[0],
            shape=f"m64n{n}k{k}",
            rounds_a=x.size // 128, rounds_b=y.size // 128,
            la=la, sa=sa, ma=swizzles[0], lb=lb, sb=sb, mb=swizzles[1],
            m_major=" m_major" if majors[0] else "", n_major=" n_major" if majors[1] else "",
        )  # fmt: skip

    def in_lanes(self, found: Array) -> Array:
        """The matrix of which threads have these sums."""
        matrix = np.empty(self.exact.shape, found.dtype)
        matrix[self.at] = found
        return matrix

    def check(self, found: Array) -> None:
        np.testing.assert_allclose(self.in_lanes(found), self.exact, atol=2e-5)

    def on_host(self, text: str, **options: object) -> Array:
        factors = list(map(bits, self.inputs, self.factors))
        arrays = [aligned(x.shape, x.dtype.type) for x in factors]
        for array, x in zip(arrays, factors, strict=True):
            array[...] = x
        sums, result = (aligned(self.shape, self.inputs[2].dtype.type) for _ in range(2))
        sums[...] = self.inputs[2]
        on_host(kernel_of(parse(text)), [*arrays, sums, result], **options)
        return result


MODES = (0, 32, 64, 128)
BOTH = [
    (n, e, swizzles, majors)
    for n, e in (
        (8, "f16"),
        (64, "bf16"),
        (128, "f16"),
        (64, TF32),
        (64, "e4m3"),
        (16, "e5m2"),
        (64, "s8"),
        (16, "u8"),
        (64, "u8_s8"),
        (16, "e4m3_e5m2"),
    )
    for swizzles in zip(MODES, MODES[::-1], strict=True)
    for majors in ((False, False), (False, True), (True, False))
    if not (majors[1] and swizzles[1] // 2 > n) and not (e not in ("f16", "bf16") and any(majors))
]


@pytest.mark.parametrize(("n", "e", "swizzles", "majors"), BOTH)
def test_products(n: int, e: str, swizzles: tuple[int, int], majors: tuple[bool, bool]) -> None:
    """Of matrices that lie in shared memory as the figures show."""
    product = Product(n, e, swizzles, majors)
    (found,) = run_kernel(kernel_of(parse(product.text)), product.inputs)
    product.check(found)
    if n == 64:
        for mode in ("early", "late"):
            np.testing.assert_array_equal(product.on_host(product.text, async_mode=mode), found)


PLAIN = Product(64, "f16", (128, 128), (False, True))
WRONG = {
    "stride": ("stride 1024", "stride 512"),
    "swizzle": ("swizzle 128", "swizzle 64"),
    "major": ("%p,", "%p m_major,"),
    "start": ("%A[0]", "%A[8]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_descriptor_gives_wrong_numbers(name: str) -> None:
    text = PLAIN.text.replace(*WRONG[name], 1)
    assert text != PLAIN.text
    (found,) = run_kernel(kernel_of(parse(text)), PLAIN.inputs)
    assert np.abs(PLAIN.in_lanes(found) - PLAIN.exact).max() > 0.1
    np.testing.assert_array_equal(PLAIN.on_host(text), found)


def _without(*lines: str) -> str:
    kept = [line for line in PLAIN.text.split("\n") if not any(each in line for each in lines)]
    return "\n".join(kept)


BAD = {
    "no barrier": (_without("kernel.barrier"), "race", "written by thread"),
    "no proxy fence": (
        _without("fence_proxy_async"),
        "race",
        "no kernel.fence_proxy_async stands between a store to %A and this",
    ),
    "fence behind the barrier": (
        _without("fence_proxy_async").replace(
            "kernel.barrier", "kernel.barrier\n  kernel.fence_proxy_async"
        ),
        "race",
        "no kernel.fence_proxy_async stands",
    ),
    "no fence": (
        _without("wgmma_fence"),
        "race",
        "%acc was accessed, and no kernel.wgmma_fence stands between",
    ),
    "no wait": (_without("wgmma_wait"), "product in flight", "%acc is accessed while"),
    "no commit": (_without("wgmma_commit"), "product in flight", "%acc is accessed while"),
    "a weak wait": (
        PLAIN.text.replace("wgmma_wait 0", "wgmma_wait 1"),
        "product in flight",
        "%acc is accessed while",
    ),
    "factors change": (
        PLAIN.text.replace(
            "kernel.wgmma_commit",
            "kernel.wgmma_commit\n  kernel.barrier\n  %zero = arith.constant 0.0 : f16\n"
            "  kernel.store %zero, %A[%t] : memref<1024xf16, #kernel.shared>".replace(
                "1024", str(PLAIN.inputs[0].size)
            ),
        ),
        "product in flight",
        r"%A\[0\] is written while a product that reads it is in flight",
    ),
    "half a warpgroup": (
        PLAIN.text.replace(
            "kernel.wgmma_commit",
            "%half = kernel.test where (%t < 64)\n  scf.if %half {\n  kernel.wgmma_commit\n  }",
        ),
        "divergence",
        "all threads of a warpgroup must reach kernel.wgmma_wait, and thread 0 does not",
    ),
    "different descriptors": (
        PLAIN.text.replace("%A[0]", "%A[%t floordiv 64 * 8]"),
        "divergence",
        "the threads of a warpgroup give different matrix descriptors",
    ),
    "B along the other dimension": (
        PLAIN.text.replace(" n_major", ""),
        "out of bounds",
        "a matrix that begins in %B leaves it",
    ),
    "between units": (PLAIN.text.replace("%A[0]", "%A[4]"), "misaligned", "no multiple of 16"),
}


@pytest.mark.parametrize("name", BAD)
def test_hazards(name: str) -> None:
    text, kind, message = BAD[name]
    with pytest.raises(Hazard) as caught:
        run_kernel(kernel_of(parse(text)), PLAIN.inputs)
    assert caught.value.kind == kind, str(caught.value)
    assert re.search(message, str(caught.value)), str(caught.value)


HOST = {
    "half a warpgroup": "wgmma_commit",
    "different descriptors": "different matrix descriptors",
    "between units": "multiple",
    "no commit": "exits with wgmma products that no wgmma_wait completed",
}


@pytest.mark.parametrize("name", HOST)
def test_the_host_stops(name: str) -> None:
    with pytest.raises(LaunchError, match=HOST[name]):
        PLAIN.on_host(BAD[name][0])


def test_the_host_computes_late() -> None:
    """Where nothing waits before sums are read, or factors change, the numbers are others."""
    for name in ("a weak wait", "factors change"):
        text = BAD[name][0]
        if name == "a weak wait":
            text = text.replace(
                "\n}", "\n  kernel.wgmma_wait 0, %acc : memref<8x4xf32, #kernel.local>\n}"
            )
        late, early = (PLAIN.on_host(text, async_mode=mode) for mode in ("late", "early"))
        assert (late != early).any(), name


def _found(edit: Mutation) -> bool:
    try:
        func = kernel_of(edit.applied(parse(PLAIN.text)))
        func.verify()
        (found,) = run_kernel(func, PLAIN.inputs)
    except (Hazard, VerifyException):
        return True
    return bool(np.abs(PLAIN.in_lanes(found) - PLAIN.exact).max() > 1e-3)


def test_every_mutant_is_found() -> None:
    edits = list(mutations(parse(PLAIN.text)))
    kinds = {edit.kind for edit in edits}
    for kind in (
        "wgmma: deleted", "wgmma: the other major", "wgmma_fence: deleted",
        "wgmma_commit: deleted", "wgmma_wait: deleted", "wgmma_wait: one more may be pending",
        "matrix_descriptor: 16 bytes more stride", "matrix_descriptor: no swizzle",
        "fence_proxy_async: deleted",
    ):  # fmt: skip
        assert f"kernel.{kind}" in kinds
    assert not [edit.kind for edit in edits if not _found(edit)]


def _all_texts() -> Iterator[str]:
    """Of all widths; of factors of two types, which are named only where others are, of one."""
    for n, (name, e) in enumerate(WARPGROUP_SHAPES):
        columns = WARPGROUP_SHAPES[name, e].n
        if "_" in e and columns != 64:
            continue
        turned = n % 2 > 0 and e in ("f16", "bf16")
        text = Product(columns, e, (128, 128 if columns >= 64 else 32), (turned, False)).text
        yield text.replace(" @product", f" @product_{name}_{e}", 1)


def test_nvcc_takes_all_of_it() -> None:
    """Without a remark that products are serialized, which would be a warning."""
    assert nvcc_takes(print_module(parse("".join(_all_texts()))), "sm_90") == [0]
