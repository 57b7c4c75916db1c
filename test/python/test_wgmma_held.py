"""wgmma of a factor in registers: its layout by the PTX ISA, on the host and in the simulator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import ptx_fragments
import pytest
from mutants import Mutation, mutations
from ptx_fragments import table
from test_mma import bf16, bits
from test_printer import aligned, kernel_of, nvcc_takes, on_host, parse
from test_wgmma import image, sums_at
from xdsl.utils.exceptions import ParseError, VerifyException

from dlc.backend.cuda.print.printer import print_module
from dlc.dialects.mma_layouts import HELD_FACTOR, WARPGROUP_SHAPES
from dlc.simulator import Hazard, run_kernel
from dlc.simulator.warp_matrices import places_of
from dlc.trace.lane_pictures import products_of

Array = np.ndarray[Any, Any]
DEPTH = 2
"""Products along K: the second goes to the same sums, while the first is in flight."""


def factor_at() -> tuple[Array, Array]:
    """The rows and the columns of A of which threads have 8 elements, by the figure of a warp."""
    rows, columns = np.zeros((2, 128, 8), int)
    for (lane, place), (row, column) in table(ptx_fragments.A_M16N8K16).items():
        for warp in range(4):
            rows[warp * 32 + lane, place] = warp * 16 + row
            columns[warp * 32 + lane, place] = column
    return rows, columns


def test_a_factor_lies_as_in_the_figure() -> None:
    assert (HELD_FACTOR.rows, HELD_FACTOR.columns, HELD_FACTOR.width) == (64, 16, 8)
    for found, figure in zip(places_of(HELD_FACTOR), factor_at(), strict=True):
        np.testing.assert_array_equal(found, figure)


TEXT = """
kernel.func @product(%x: memref<128x{depth}x8x{e}>, %y: memref<{b}x{e}>, %z: memref<128x{w}xf32>)
    -> (%o: memref<128x{w}xf32>) grid 1 block 128 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %depth = arith.constant {depth} : index
  %rounds = arith.constant {rounds} : index
  %tiles = arith.constant {tiles} : index
  %t = kernel.thread_id
  %B = kernel.alloc_shared : memref<{b}x{e}, #kernel.shared>
  %acc = kernel.alloc_local : memref<{tiles}x4xf32, #kernel.local>
  %p = kernel.alloc_local : memref<{depth}x8x{e}, #kernel.local>
  scf.for %i = %c0 to %rounds step %c1 {{
    %v = kernel.load %y[%i * 128 + %t] : memref<{b}x{e}>
    kernel.store %v, %B[%i * 128 + %t] : memref<{b}x{e}, #kernel.shared>
  }}
  scf.for %i = %c0 to %tiles step %c1 {{
    %v = kernel.load %z[%t, %i * 4] : memref<128x{w}xf32> -> vector<4xf32>
    kernel.store %v, %acc[%i, 0] : memref<{tiles}x4xf32, #kernel.local>, vector<4xf32>
  }} {{unroll}}
  scf.for %i = %c0 to %depth step %c1 {{
    %v = kernel.load %x[%t, %i, 0] : memref<128x{depth}x8x{e}> -> vector<8x{e}>
    kernel.store %v, %p[%i, 0] : memref<{depth}x8x{e}, #kernel.local>, vector<8x{e}>
  }} {{unroll}}
  kernel.fence_proxy_async
  kernel.barrier
  kernel.wgmma_fence %acc, %p : memref<{tiles}x4xf32, #kernel.local>,
    memref<{depth}x8x{e}, #kernel.local>
  scf.for %k = %c0 to %depth step %c1 {{
    %q = kernel.matrix_descriptor %B[%k * {each}] leading {lb} stride {sb} swizzle {mb}
      : memref<{b}x{e}, #kernel.shared>
    kernel.wgmma_held <{shape}, {e}> %acc[0, 0], %p[%k, 0], %q{n_major}
      : memref<{tiles}x4xf32, #kernel.local>, memref<{depth}x8x{e}, #kernel.local>
  }} {{unroll}}
  kernel.wgmma_commit
  kernel.wgmma_wait 0, %acc, %p : memref<{tiles}x4xf32, #kernel.local>,
    memref<{depth}x8x{e}, #kernel.local>
  scf.for %i = %c0 to %tiles step %c1 {{
    %v = kernel.load %acc[%i, 0] : memref<{tiles}x4xf32, #kernel.local> -> vector<4xf32>
    kernel.store %v, %o[%t, %i * 4] : memref<128x{w}xf32>, vector<4xf32>
  }} {{unroll}}
}}"""


class Product:
    """C + A · B of random numbers, A in registers, B in shared memory."""

    def __init__(self, n: int, e: str, swizzle: int, *, n_major: bool) -> None:
        rng = np.random.default_rng(n)
        self.type = e
        dtype = np.float16 if e == "f16" else np.float32
        a, b = (rng.standard_normal((rows, 16 * DEPTH)).astype(dtype) for rows in (64, n))
        if e == "bf16":
            a, b = bf16(a), bf16(b)
        c = rng.standard_normal((64, n)).astype(np.float32)
        self.exact = c + a.astype(np.float64) @ b.T.astype(np.float64)
        self.at = sums_at(n)
        rows, columns = factor_at()
        held = np.stack([a[rows, 16 * k + columns] for k in range(DEPTH)], axis=1)
        images = [
            image(b[:, 16 * k : 16 * k + 16], swizzle, along_rows=n_major) for k in range(DEPTH)
        ]
        y = np.concatenate([flat for flat, *_ in images])
        _, leading, stride = images[0]
        self.inputs = (held, y, c[self.at])
        self.text = TEXT.format(
            b=y.size, e=e, w=n // 2, tiles=n // 8, shape=f"m64n{n}k16", depth=DEPTH,
            rounds=y.size // 128, each=y.size // DEPTH, lb=leading, sb=stride, mb=swizzle,
            n_major=" n_major" if n_major else "",
        )  # fmt: skip

    def in_lanes(self, found: Array) -> Array:
        """The matrix of which threads have these sums."""
        matrix = np.empty(self.exact.shape, found.dtype)
        matrix[self.at] = found
        return matrix

    def on_host(self, text: str, **options: object) -> Array:
        arrays = [aligned(x.shape, bits(x, self.type).dtype.type) for x in self.inputs[:2]]
        for array, x in zip(arrays, self.inputs, strict=False):
            array[...] = bits(x, self.type)
        sums, result = aligned(self.inputs[2].shape), aligned(self.inputs[2].shape)
        sums[...] = self.inputs[2]
        on_host(kernel_of(parse(text)), [*arrays, sums, result], **options)
        return result


CASES = [
    (8, "f16", 0, False), (16, "bf16", 32, True), (64, "bf16", 128, True), (64, "f16", 64, False),
    (128, "f16", 128, True), (128, "bf16", 0, True), (256, "bf16", 128, True),
]  # fmt: skip


@pytest.mark.parametrize(("n", "e", "swizzle", "n_major"), CASES)
def test_products(n: int, e: str, swizzle: int, n_major: bool) -> None:
    product = Product(n, e, swizzle, n_major=n_major)
    (found,) = run_kernel(kernel_of(parse(product.text)), product.inputs)
    np.testing.assert_allclose(product.in_lanes(found), product.exact, atol=5e-5)
    for mode in ("early", "late"):
        np.testing.assert_array_equal(product.on_host(product.text, async_mode=mode), found)


PLAIN = Product(64, "f16", 128, n_major=True)
ZERO = (
    "%zero = arith.constant 0.0 : f16\n"
    "  kernel.store %zero, %p[1, 7] : memref<2x8xf16, #kernel.local>\n"
)


def test_infinities_and_nan() -> None:
    a, b, c = (x.copy() for x in PLAIN.inputs)
    rows, columns = factor_at()
    a[0, 0, 0], a[40, 1, 3], a[100, 0, 5] = np.inf, np.nan, -np.inf
    (found,) = run_kernel(kernel_of(parse(PLAIN.text)), (a, b, c))
    matrix = PLAIN.in_lanes(found)
    nan = {int(rows[40, 3])}
    infinite = {int(rows[0, 0]), int(rows[100, 5])}
    assert set(np.flatnonzero(np.isnan(matrix).all(axis=1)).tolist()) == nan
    assert set(np.flatnonzero(np.isinf(matrix).all(axis=1)).tolist()) == infinite
    assert columns.max() == 15


def _edited(before: str, after: str) -> str:
    assert before in PLAIN.text, before
    return PLAIN.text.replace(before, after)


BAD = {
    "no fence of the factor": (
        re.sub(r"wgmma_fence %acc, %p : (.*?),\n.*\n", r"wgmma_fence %acc : \1\n", PLAIN.text),
        "race", "%p was accessed, and no kernel.wgmma_fence stands between",
    ),
    "written in flight": (
        _edited("  kernel.wgmma_commit", f"  {ZERO}  kernel.wgmma_commit"),
        "product in flight", "%p is accessed while a product that reads it is in flight",
    ),
    "written before a wait for others": (
        _edited("  kernel.wgmma_wait 0, %acc, %p", f"  {ZERO}  kernel.wgmma_wait 0, %acc, %p"),
        "product in flight", "%p is accessed while a product that reads it is in flight",
    ),
    "written after the fence": (
        _edited("  scf.for %k", f"  {ZERO}  scf.for %k"),
        "race", "%p was accessed, and no kernel.wgmma_fence stands between",
    ),
    "different descriptors": (
        _edited("%B[%k * ", "%B[%t floordiv 64 * 8 + %k * "), "divergence",
        "the threads of a warpgroup give different matrix descriptors",
    ),
    "never written": (
        re.sub(r"    kernel.store %v, %p.*\n", "", PLAIN.text), "uninitialized", "%p has no value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_hazards(name: str) -> None:
    text, kind, message = BAD[name]
    with pytest.raises(Hazard) as caught:
        run_kernel(kernel_of(parse(text)), PLAIN.inputs)
    assert caught.value.kind == kind, str(caught.value)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_the_host_computes_late() -> None:
    """A factor that changes in flight gives other numbers there."""
    text = BAD["written before a wait for others"][0]
    late, early = (PLAIN.on_host(text, async_mode=mode) for mode in ("late", "early"))
    assert (late != early).any()


REFUSED = {
    "width": (_edited("2x8xf16, #kernel.local", "2x4xf16, #kernel.local").replace(
        "128x2x8xf16", "128x2x4xf16").replace("vector<8xf16>", "vector<4xf16>"),
        "expected local memory of … x 8 elements of f16 for A"),
    "a part": (_edited("%p[%k, 0], %q", "%p[%k, 4], %q"), "expected all 8 elements of A"),
    "beyond": (_edited("%p[%k, 0], %q", "%p[%k + 1, 0], %q"), "expected A in .*, found .* 1 to 2"),
    "type": (_edited("<m64n64k16, f16>", "<m64n64k16, bf16>"), "expected elements of bf16 for B"),
    "subscripts": (_edited("%p[%k, 0], %q", "%p[0], %q"), "expected 4 subscripts for"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises((VerifyException, ParseError), match=message):
        kernel_of(parse(text)).verify()


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
        "wgmma_held: deleted", "wgmma_held: the other major", "wgmma_fence: deleted",
        "wgmma_commit: deleted", "wgmma_wait: deleted", "fence_proxy_async: deleted",
    ):  # fmt: skip
        assert f"kernel.{kind}" in kinds
    assert not [edit.kind for edit in edits if not _found(edit)]


def test_a_picture_of_what_lanes_hold() -> None:
    (product,) = products_of(kernel_of(parse(PLAIN.text)), lambda op: 1)
    assert [fragment.name for fragment in product.fragments] == ["A", "C"]
    assert [shared.split(",")[0] for shared in product.shared] == ["B (16 x 64) in %B"]


def test_nvcc_takes_all_of_it() -> None:
    """Without a remark that products are serialized, which would be a warning."""
    texts = []
    for name, e in (names for names in WARPGROUP_SHAPES if names[1] in ("f16", "bf16")):
        columns = int(name.removeprefix("m64n").removesuffix("k16"))
        text = Product(columns, e, 128 if columns >= 64 else 0, n_major=True).text
        texts.append(text.replace(" @product", f" @product_{name}_{e}", 1))
    assert nvcc_takes(print_module(parse("".join(texts))), "sm_90") == [0]
