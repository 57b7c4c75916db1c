"""Tensor cores: layouts as the PTX ISA has them, values on the host and in the simulator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import ptx_fragments
import pytest
from bank_meter import BankConflict, BankMeter
from mutants import Mutation, mutations
from ptx_fragments import table
from test_printer import aligned, kernel_of, nvcc_takes, on_host, parse
from xdsl.dialects.builtin import AnyFloat, Float8E4M3FNType, Float8E5M2Type, ModuleOp

from dlc.backend import LaunchError
from dlc.backend.cuda.print.printer import print_module
from dlc.dialects import kernel
from dlc.dialects.mma_layouts import SHAPES, Fragment, MmaAttr, pair_name
from dlc.simulator import Hazard, run_kernel
from dlc.simulator.narrow_floats import bits_of, rounded
from dlc.simulator.run import Options

Array = np.ndarray[Any, Any]
FIGURES = {
    "m16n8k16": (ptx_fragments.A_M16N8K16, ptx_fragments.B_M16N8K16, ptx_fragments.C_M16N8),
    "m16n8k32": (ptx_fragments.A_M16N8K32, ptx_fragments.B_M16N8K32, ptx_fragments.C_M16N8),
    "m16n8k8": (ptx_fragments.A_M16N8K8_TF32, ptx_fragments.B_M16N8K8_TF32, ptx_fragments.C_M16N8),
}
INTEGERS = {"s8": np.int8, "u8": np.uint8}
FLOAT8: dict[str, AnyFloat] = {"e4m3": Float8E4M3FNType(), "e5m2": Float8E5M2Type()}
PRODUCTS = [
    (*names, str(sums.element_type))
    for names in SHAPES
    if MmaAttr(*names).names[0] not in INTEGERS
    for sums in MmaAttr(*names).sums
]


def tabled(fragment: Fragment) -> dict[tuple[int, int], tuple[int, int]]:
    return {(t, n): fragment.at(t, n) for t in range(32) for n in range(fragment.width)}


@pytest.mark.parametrize("names", SHAPES)
def test_layouts_are_those_of_the_figures(names: tuple[str, str]) -> None:
    shape = SHAPES[names]
    for fragment, figure in zip((shape.a, shape.b, shape.c), FIGURES[names[0]], strict=True):
        assert tabled(fragment) == table(figure)


def bf16(x: Array) -> Array:
    """Rounded to bf16, by cutting: any bf16 will do."""
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def bits(x: Array, type: str) -> Array:
    """As the host's memory has them."""
    if type in FLOAT8:
        return bits_of(x, FLOAT8[type])
    if type != "bf16":
        return x
    return (np.ascontiguousarray(x).view(np.uint32) >> 16).astype(np.uint16)


def in_lanes(matrix: Array, figure: str) -> Array:
    """What each lane holds of a matrix."""
    at = table(figure)
    width = len(at) // 32
    return np.array([[matrix[at[t, n]] for n in range(width)] for t in range(32)], matrix.dtype)


def in_matrix(lanes: Array, figure: str) -> Array:
    at = table(figure)
    matrix = np.empty((max(r for r, _ in at.values()) + 1, 8), lanes.dtype)
    for (t, n), place in at.items():
        matrix[place] = lanes[t, n]
    return matrix


def product_text(shape: str, factors: str, sums: str) -> str:
    sizes, (first, second) = SHAPES[shape, factors], MmaAttr(shape, factors).elements
    a, b, c = sizes.a.width, sizes.b.width, sizes.c.width
    return f"""
kernel.func @product(%x: memref<32x{a}x{first}>, %y: memref<32x{b}x{second}>,
    %z: memref<32x{c}x{sums}>) -> (%o: memref<32x{c}x{sums}>) grid 1 block 32 {{
  %t = kernel.thread_id
  %a = kernel.load %x[%t, 0] : memref<32x{a}x{first}> -> vector<{a}x{first}>
  %b = kernel.load %y[%t, 0] : memref<32x{b}x{second}> -> vector<{b}x{second}>
  %c = kernel.load %z[%t, 0] : memref<32x{c}x{sums}> -> vector<{c}x{sums}>
  %d = kernel.mma <{shape}, {factors}> %a, %b, %c
    : vector<{a}x{first}>, vector<{b}x{second}>, vector<{c}x{sums}>
  kernel.store %d, %o[%t, 0] : memref<32x{c}x{sums}>, vector<{c}x{sums}>
}}"""


def _aligned_copy(array: Array) -> Array:
    copy = aligned(array.shape, array.dtype.type)
    copy[...] = array
    return copy


def run_both(text: str, inputs: Sequence[Array], types: Sequence[str], out: Array) -> Array:
    """The one output of a kernel: in the simulator, and the same bits on the host."""
    func = kernel_of(parse(text))
    (found,) = run_kernel(func, inputs)
    for order in ("forward", "reverse", "random"):
        arrays = [
            aligned(x.shape, bits(x, t).dtype.type) for x, t in zip(inputs, types, strict=True)
        ]
        for array, x, t in zip(arrays, inputs, types, strict=True):
            array[...] = bits(x, t)
        result = aligned(out.shape, out.dtype.type)
        on_host(func, [*arrays, result], order=order)
        np.testing.assert_array_equal(result, bits(found, types[-1]))
    return found


@pytest.mark.parametrize(("shape", "factors", "sums"), PRODUCTS)
@pytest.mark.parametrize("unusual", [False, True])
def test_products(shape: str, factors: str, sums: str, unusual: bool) -> None:
    rng = np.random.default_rng(0)
    k, dtype = SHAPES[shape, factors].k, np.float16 if sums == "f16" else np.float32
    half = np.float16 if factors == "f16" else np.float32
    a, b = rng.standard_normal((16, k)).astype(half), rng.standard_normal((k, 8)).astype(half)
    c = rng.standard_normal((16, 8)).astype(dtype)
    if factors == "bf16":
        a, b = bf16(a), bf16(b)
    names = MmaAttr(shape, factors).names
    if names[0] in FLOAT8:
        a, b = (rounded(x, FLOAT8[name]) for x, name in zip((a, b), names, strict=True))
    if unusual:
        infinite = np.nan if names[0] == "e4m3" else np.inf  # it has none
        a[3, 5], b[2, 4], c[7, 1], a[9, 0] = infinite, np.nan, -np.inf, 0
    figures = FIGURES[shape]
    inputs = [in_lanes(m, figure) for m, figure in zip((a, b, c), figures, strict=True)]
    text = product_text(shape, factors, sums)
    types = (*names, sums)
    found = in_matrix(run_both(text, inputs, types, np.empty((32, 4), dtype)), figures[2])
    if factors == "tf32":
        a, b = (
            (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
            for x in (a, b)
        )
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64) + c
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(found[~finite], exact[~finite])
    error = np.abs(found[finite] - exact[finite]).max() / np.abs(exact[finite]).max()
    assert error <= 4 * np.finfo(dtype).eps
    assert unusual == (not finite.all())


@pytest.mark.parametrize("names", [*product(INTEGERS, INTEGERS)])
def test_products_of_integers(names: tuple[str, str]) -> None:
    """Exact, the ends of their range among them; sums wrap."""
    rng, factors = np.random.default_rng(0), pair_name(*names)
    of_a, of_b, all = (np.iinfo(t) for t in (*(INTEGERS[name] for name in names), np.int32))
    a = rng.integers(of_a.min, of_a.max + 1, (16, 32), of_a.dtype)
    b = rng.integers(of_b.min, of_b.max + 1, (32, 8), of_b.dtype)
    a[3], b[:, 2], b[:, 3] = of_a.min, of_b.max, of_b.min
    c = rng.integers(-1000, 1000, (16, 8), np.int32)
    c[3, 3], c[3, 2], c[5, 3] = all.max, all.min, all.max
    figures, bits = FIGURES["m16n8k32"], (a.view(np.int8), b.view(np.int8), c)
    inputs = [in_lanes(m, figure) for m, figure in zip(bits, figures, strict=True)]
    text, types = product_text("m16n8k32", factors, "i32"), (*names, "i32")
    found = in_matrix(run_both(text, inputs, types, np.empty((32, 4), np.int32)), figures[2])
    exact = a.astype(np.int32) @ b.astype(np.int32) + c
    np.testing.assert_array_equal(found, exact)


MATRICES = """
kernel.func @rows(%x: memref<{rows}x{columns}x{e}>) -> (%o: memref<32x{width}x{e}>)
    grid 1 block 32 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant {elements} : index
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<{rows}x{columns}x{e}, {layout}#kernel.shared>
  scf.for %i = %c0 to %n step %c1 {{
    %v = kernel.load %x[%t mod {rows}, %t floordiv {rows} * {elements} + %i]
      : memref<{rows}x{columns}x{e}>
    kernel.store %v, %s[%t mod {rows}, %t floordiv {rows} * {elements} + %i]
      : memref<{rows}x{columns}x{e}, {layout}#kernel.shared>
  }}
  {barrier}
  %a = kernel.ldmatrix %s[{row}, {column}]{trans}
    : memref<{rows}x{columns}x{e}, {layout}#kernel.shared> -> vector<{width}x{e}>
  kernel.store %a, %o[%t, 0] : memref<32x{width}x{e}>, vector<{width}x{e}>
}}"""


def rows_text(
    rows: int,
    columns: int,
    e: str,
    width: int,
    at: tuple[str, str],
    *,
    trans: bool = False,
    layout: str = "",
    barrier: str = "kernel.barrier",
) -> str:
    return MATRICES.format(
        rows=rows, columns=columns, e=e, width=width, row=at[0], column=at[1],
        trans=" transposed" if trans else "", layout=layout, barrier=barrier,
        elements=rows * columns // 32,
    )  # fmt: skip


LOADS = {
    "A": (16, 16, 8, ("%t mod 16", "%t floordiv 16 * 8"), False, "A_M16N8K16", False),
    "A, swizzled": (16, 16, 8, ("%t mod 16", "%t floordiv 16 * 8"), False, "A_M16N8K16", False),
    "A, stored (k, m)": (
        16, 16, 8, ("%t floordiv 16 * 8 + %t mod 8", "%t floordiv 8 mod 2 * 8"), True,
        "A_M16N8K16", True,
    ),
    "B": (16, 8, 4, ("%t mod 16", "0"), True, "B_M16N8K16", False),
    "B, stored (n, k)": (
        8, 16, 4, ("%t mod 8", "%t floordiv 8 mod 2 * 8"), False, "B_M16N8K16", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_ldmatrix_gives_the_fragments_of_the_figures(name: str, type: str) -> None:
    rows, columns, width, at, trans, figure, is_turned = LOADS[name]
    matrix = np.arange(rows * columns).reshape(rows, columns).astype(np.float16)
    if type == "bf16":
        matrix = matrix.astype(np.float32)  # up to 256: no digits are lost
    layout = "#kernel.swizzle<32>, " if "swizzled" in name else ""
    text = rows_text(rows, columns, type, width, at, trans=trans, layout=layout)
    found = run_both(text, [matrix], [type], np.empty((32, width), bits(matrix, type).dtype))
    turned = matrix.T if is_turned else matrix
    np.testing.assert_array_equal(found, in_lanes(turned, getattr(ptx_fragments, figure)))


def test_ldmatrix_gives_fragments_of_tf32() -> None:
    matrix = np.arange(128).reshape(16, 8).astype(np.float32)
    text = rows_text(16, 8, "f32", 4, ("%t mod 16", "%t floordiv 16 * 4"))
    found = run_both(text, [matrix], ["f32"], np.empty((32, 4), np.float32))
    np.testing.assert_array_equal(found, in_lanes(matrix, ptx_fragments.A_M16N8K8_TF32))


STORED = """
kernel.func @stored(%x: memref<32x4xf16>) -> (%o: memref<32x4xf16>) grid 1 block 32 {{
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<16x8xf16, #kernel.shared>
  %v = kernel.load %x[%t, 0] : memref<32x4xf16> -> vector<4xf16>
  kernel.stmatrix %v, %s[{row}, 0]{trans} : memref<16x8xf16, #kernel.shared>, vector<4xf16>
  kernel.barrier
  %w = kernel.load %s[%t floordiv 2, %t mod 2 * 4]
    : memref<16x8xf16, #kernel.shared> -> vector<4xf16>
  kernel.store %w, %o[%t, 0] : memref<32x4xf16>, vector<4xf16>
}}"""


@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_is_the_inverse(trans: bool) -> None:
    matrix = np.arange(128).reshape(16, 8).astype(np.float16)
    figure = ptx_fragments.B_M16N8K16 if trans else ptx_fragments.C_M16N8
    text = STORED.format(row="%t mod 16", trans=" transposed" if trans else "")
    found = run_both(text, [in_lanes(matrix, figure)], ["f16"], np.empty((32, 4), np.float16))
    np.testing.assert_array_equal(found.reshape(16, 8), matrix)


# What is wrong is seen.

A = rows_text(16, 16, "f16", 8, ("%t mod 16", "%t floordiv 16 * 8"))
BAD = {
    "no barrier": (
        A.replace("kernel.barrier", ""),
        "race",
        r"thread 0 of block 0 reads %s\[8, 0\], written by thread 8",
    ),
    "rows that begin in between": (
        A.replace("* 8]", "* 4]"),
        "misaligned",
        "16 bytes are accessed at %s",
    ),
    "rows outside": (A.replace("%t mod 16, %t floordiv 16 * 8]", "%t, 0]"), "out of bounds", "%s"),
    "half a warp": (
        A.replace("%a =", "%p = kernel.test where (%t < 16)\nscf.if %p {\n%a =") + "}",
        "divergence",
        "all lanes of a warp must reach kernel.ldmatrix, and thread 16 does not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_hazards(name: str) -> None:
    text, kind, message = BAD[name]
    matrix = np.zeros((16, 16), np.float16)
    with pytest.raises(Hazard) as caught:
        run_kernel(kernel_of(parse(text)), [matrix])
    assert caught.value.kind == kind, str(caught.value)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_the_host_misses_lanes() -> None:
    with pytest.raises(LaunchError, match="ldmatrix needs all 32 lanes of warp 0, and only 16"):
        on_host(kernel_of(parse(BAD["half a warp"][0])), [np.zeros((16, 16)), np.zeros((32, 8))])


def test_one_wrong_lane_gives_wrong_numbers() -> None:
    """The emulations compute from what lanes hold: another place in another lane is seen."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((16, 16)).astype(np.float16), np.eye(16, 8).astype(np.float16)
    figures = FIGURES["m16n8k16"]
    lanes = [in_lanes(m, f) for m, f in zip((a, b), figures, strict=False)]
    lanes[0][[5, 6]] = lanes[0][[6, 5]]
    inputs = [*lanes, np.zeros((32, 4), np.float32)]
    text = product_text("m16n8k16", "f16", "f32")
    found = run_both(text, inputs, ("f16", "f16", "f32"), np.empty((32, 4), np.float32))
    wrong = in_matrix(found, figures[2]) != a[:, :8]
    assert set(np.flatnonzero(wrong.any(axis=1))) == {1, 9}


# C (16, 8) = A (16, 48) B (8, 48)^T, in chunks of 16 of K, by two slots of shared memory.
LOOP = """
kernel.func @loop(%x: memref<16x48xf16>, %w: memref<8x48xf16>) -> (%y: memref<32x4xf32>)
    grid 1 block 32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %t = kernel.thread_id
  %A_ring = kernel.alloc_shared : memref<2x16x16xf16, #kernel.swizzle<32>, #kernel.shared>
  %B_ring = kernel.alloc_shared : memref<2x8x16xf16, #kernel.swizzle<32>, #kernel.shared>
  %acc = kernel.alloc_local : memref<4xf32, #kernel.local>
  scf.for %r = %c0 to %c3 step %c1 {
    kernel.store %zero, %acc[%r] : memref<4xf32, #kernel.local>
  } {unroll}
  kernel.store %zero, %acc[3] : memref<4xf32, #kernel.local>
  scf.for %k = %c0 to %c3 step %c1 {
    kernel.cp_async %x[%t mod 16, %k * 16 + %t floordiv 16 * 8],
      %A_ring[%k mod 2, %t mod 16, %t floordiv 16 * 8] elements 8
      : memref<16x48xf16>, memref<2x16x16xf16, #kernel.swizzle<32>, #kernel.shared>
    kernel.cp_async %w[%t floordiv 4, %k * 16 + %t mod 4 * 4],
      %B_ring[%k mod 2, %t floordiv 4, %t mod 4 * 4] elements 4
      : memref<8x48xf16>, memref<2x8x16xf16, #kernel.swizzle<32>, #kernel.shared>
    kernel.commit
    kernel.wait 0
    kernel.barrier
    %a = kernel.ldmatrix %A_ring[%k mod 2, %t mod 16, %t floordiv 16 * 8]
      : memref<2x16x16xf16, #kernel.swizzle<32>, #kernel.shared> -> vector<8xf16>
    %b = kernel.ldmatrix %B_ring[%k mod 2, %t mod 8, (%t mod 16) floordiv 8 * 8]
      : memref<2x8x16xf16, #kernel.swizzle<32>, #kernel.shared> -> vector<4xf16>
    %c = kernel.load %acc[0] : memref<4xf32, #kernel.local> -> vector<4xf32>
    %d = kernel.mma <m16n8k16, f16> %a, %b, %c : vector<8xf16>, vector<4xf16>, vector<4xf32>
    kernel.store %d, %acc[0] : memref<4xf32, #kernel.local>, vector<4xf32>
  }
  %v = kernel.load %acc[0] : memref<4xf32, #kernel.local> -> vector<4xf32>
  kernel.store %v, %y[%t, 0] : memref<32x4xf32>, vector<4xf32>
}"""


def _multiplied(func: kernel.FuncOp, x: Array, w: Array) -> Array:
    """The product; BankConflict if rows are loaded from the same banks."""
    meter = BankMeter()
    (lanes,) = run_kernel(func, [x, w], Options(observer=meter.note))
    for op, measured in meter.measured.items():
        if isinstance(op, kernel.LdmatrixOp) and measured.ways > 1:
            raise BankConflict(str(measured))
    return in_matrix(lanes, ptx_fragments.C_M16N8)


def test_every_mutant_is_found() -> None:
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal((rows, 48)).astype(np.float16) for rows in (16, 8))
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    module = parse(LOOP)
    right = _multiplied(kernel_of(module), x, w)
    np.testing.assert_allclose(right, exact, atol=1e-5)
    arrays = [_aligned_copy(x), _aligned_copy(w), aligned((32, 4))]
    on_host(kernel_of(module), arrays)
    np.testing.assert_array_equal(in_matrix(arrays[2], ptx_fragments.C_M16N8), right)
    edits = list(mutations(module))
    kinds = {mutation.kind for mutation in edits}
    for kind in ("mma: deleted", "mma: no addend", "ldmatrix: rows for columns"):
        assert f"kernel.{kind}" in kinds
    assert "kernel.ldmatrix: next slot" in kinds
    survivors = [edit.kind for edit in edits if not _is_found(edit, module, x, w, exact)]
    assert not survivors


def _is_found(edit: Mutation, module: ModuleOp, x: Array, w: Array, exact: Array) -> bool:
    try:
        found = _multiplied(kernel_of(edit.applied(module)), x, w)
    except (Hazard, BankConflict):
        return True
    return np.abs(found - exact).max() > 1e-3


def test_nvcc_takes_all_of_it() -> None:
    texts = [product_text(*names) for names in PRODUCTS if names[0] != "m16n8k32"]
    integers = [names for names in SHAPES if MmaAttr(*names).names[0] in INTEGERS]
    texts += [product_text(*names, "i32") for names in integers]
    for rows, columns, width, at, trans, _, _ in LOADS.values():
        texts.append(rows_text(rows, columns, "bf16", width, at, trans=trans))
    texts.append(STORED.format(row="%t mod 16", trans=""))
    named = [text.replace(" @", f" @k{n}_", 1) for n, text in enumerate(texts)]
    assert nvcc_takes(print_module(parse("".join(named[:-1]))), "sm_80", "sm_120") == [0, 0]
    assert nvcc_takes(print_module(parse("".join(named))), "sm_90") == [0]
    bytes = [product_text(*names) for names in PRODUCTS if names[0] == "m16n8k32"]
    named = [text.replace(" @", f" @k{n}_", 1) for n, text in enumerate(bytes)]
    assert nvcc_takes(print_module(parse("".join(named))), "sm_89") == [0]
