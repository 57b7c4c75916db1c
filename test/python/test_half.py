"""f16 and bf16, and what is mixed with them: programs, casts, and the host's own conversions."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from expected import rounded
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend import BackendError
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.backend.cuda.run.sass import accesses, disassemble, find_nvdisasm, parse
from dlc.backend.executor import Executor
from dlc.backend.host import cxx as compiler
from dlc.backend.host import host_kernel as runtime
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.host.host_kernel import HostKernel
from dlc.backend.kernel_image import KernelImage
from dlc.cli.check import as_array
from dlc.dialects.loop import KernelOp
from dlc.frontend.export.fx import import_program
from dlc.ir.elements import NARROW
from dlc.judge.accuracy import compare
from dlc.judge.conditioning import Expected
from dlc.judge.reference import evaluate
from dlc.pipeline import run_pipeline
from dlc.simulator import run_module
from dlc.simulator.narrow_floats import bits_of, values_of
from dlc.stages import compiler_context
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

WHOLE = bool(os.environ.get("DLC_PREFIX"))
HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


class Together(HostBackend):
    """Compiles all kernels of a module as one text, which takes a fifth of the time."""

    def prepare(self, funcs: Sequence[KernelImage]) -> None:
        module = funcs[0].func.parent_op()
        assert isinstance(module, ModuleOp)
        text = print_module(module)
        hosts = {f: HostKernel("", f.c_name, f.parameter_types) for f in funcs}
        for host in hosts.values():
            own = re.sub(r"\b(dlc_thread|dlc_cluster)\b(?= ?[(=])", rf"\1_{host.name}", host.text)
            text += own
        everything = HostKernel(text, funcs[0].c_name, funcs[0].parameter_types)
        everything.launch([0] * len(everything.parameter_types), 0, 1)  # it is loaded
        library = ctypes.CDLL(str(everything.compile()))
        for host in hosts.values():
            host._entry = getattr(library, f"dlc_thread_{host.name}")
        for f, host in hosts.items():
            host._cluster = f.func.cluster_size
        self._keep(hosts)


# Programs. All of them are one, so that PyTorch exports and the C++ compiler starts few times.

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """As transformers writes it: in f32, rounded before the product with the weight."""
    h = x.to(torch.float32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """As transformers writes it, with a mask of booleans."""
    scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(~mask, -inf)
    return torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v


def best(v: torch.Tensor) -> torch.Tensor:
    return v.gather(0, v.argmax(0, True))


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def programs(dtype: torch.dtype) -> dict[str, Case]:
    """Functions of tensors of `dtype`, at sizes of which few are multiples of anything."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    def half(*shape: int) -> torch.Tensor:
        return normal(*shape).to(dtype)

    def integers(low: int, high: int, *shape: int, of: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator).to(of)

    x, y, b = half(5, 37), half(5, 37), half(37)
    shifted = half(5 * 64 + 1)[1:].view(5, 64)  # its address is a multiple of 2 only
    return {
        "elementwise": (lambda x, y, b: torch.relu(x * y + b) - y, (x, y, b)),
        "vectors": (lambda x, y: F.silu(x) * y, (half(8, 64), half(8, 64))),
        "unaligned": (lambda x: F.gelu(x), (shifted,)),
        "strided": (lambda x, y: x.t() + y[:, ::2], (half(24, 7), half(7, 48))),
        "with f32": (lambda x, f: x + f, (x, normal(5, 37))),
        "a single f32": (lambda x, s: (x * s, x > s), (x, normal())),
        "softmax": (lambda x: torch.softmax(x, -1), (half(6, 130),)),
        "rms_norm": (rms_norm, (half(7, 129), half(129))),
        "residual": (lambda x, r, w: (x + r, rms_norm(x + r, w)), (x, y, b)),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (37,), w, b), (x, half(37), b)),
        "matmul": (lambda a, b: a @ b, (half(33, 67), half(67, 29))),
        "linear": (
            lambda a, w, b: F.silu(F.linear(a, w, b)),
            (half(33, 64), half(48, 64), half(48)),
        ),
        "split": (lambda a, b: a @ b, (half(8, 512), half(512, 16))),
        "unaligned matmul": (lambda a, w: a @ w, (shifted, half(64, 24))),
        "sdpa": (causal, (half(1, 2, 9, 16), half(1, 2, 9, 16), half(1, 2, 9, 16))),
        "attention": (
            attention,
            (half(2, 9, 16), half(2, 9, 16), half(2, 9, 16), normal(9, 9) > -1),
        ),
        "sums": (lambda x: (x.sum(0), x.mean(-1)), (half(300, 33),)),
        "total": (lambda x: x.sum(), (half(70, 33),)),
        "extrema": (lambda x: (x.max(-1).values, x.argmax(0), x.amin()), (x,)),
        "embedding": (F.embedding, (integers(0, 11, 3, 4), half(11, 24))),
        "cat": (lambda x, y: torch.cat((F.pad(x, (1, 2), value=0.1), -y), 1), (x, y)),
        "where": (torch.where, (normal(5, 37) > 0, x, y)),
        "bytes": (
            lambda q, u, s: (q.to(s.dtype) * s, (u.to(s.dtype) - 128) * s),
            (
                integers(-128, 128, 8, 48, of=torch.int8),
                integers(0, 256, 8, 48, of=torch.uint8),
                half(8, 1),
            ),
        ),
        "to bytes": (lambda x: (x * 30).round().clamp(-128, 127).to(torch.int8), (half(4, 48),)),
        "cumsum": (lambda x: x.cumsum(-1), (x,)),
        "conv": (lambda x, w, b: F.conv1d(x, w, b), (half(2, 3, 20), half(4, 3, 3), half(4))),
        "pool": (lambda x: F.max_pool2d(x, 2), (half(1, 3, 13, 11),)),
        "empty": (lambda x: (x.sum(-1), x @ x.t()), (half(3, 0),)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("f16", "sm_90"),
        ("bf16", "sm_80"),
        *([("f16", "sm_80"), ("bf16", "sm_90")] if WHOLE else []),
    ],
)
def test_programs(name: str, target: str) -> None:
    """
    In both modes of asynchronous copies against fp64, and the interpreter to the bit. An error is
    at most twice eager's, or the half ulp of the one rounding that cannot be spared.
    """
    dtype = HALVES[name]
    cases = programs(dtype)
    counts = [len(args) for _, args in cases.values()]
    names = [name for name, (f, args) in cases.items() for _ in tree_leaves(f(*args))]

    def program(*args: torch.Tensor) -> list[torch.Tensor]:
        rest, results = iter(args), list[torch.Tensor]()
        for (function, _), count in zip(cases.values(), counts, strict=True):
            results += tree_leaves(function(*(next(rest) for _ in range(count))))
        return results

    arguments = [a for _, args in cases.values() for a in args]
    compiled = dlc.compile(program, arguments, target=target, backend="host")
    variant = compiled.variants[0]
    kernels = variant.module("kernel")
    exact = evaluate(variant.program.module, arguments, double=True)
    eager = rounded(evaluate, variant.program.module, arguments)
    bound = torch.finfo(dtype).eps / 2 * 1.01
    early = Executor(kernels, Together("random", "early"))(arguments)
    late = Executor(kernels, Together("forward", "late"))(arguments)
    interpreted = run_module(kernels, [as_array(a) for a in arguments])
    for name, r, again, array, x, e in zip(
        names, early, late, interpreted, exact, eager, strict=True
    ):
        judged = compare(r, x, e)
        limit = max(2 * judged.eager_error, bound) if e.dtype == dtype else judged.bound
        assert judged.mismatches == 0, name
        assert judged.error <= limit, f"{name}: {judged}"
        assert torch.equal(r, again), name
        if e.dtype == dtype or not e.is_floating_point():
            np.testing.assert_array_equal(array.reshape(r.shape), as_array(r), name)


# Rounding.


def kernels_of(function: Callable[..., Any], *args: torch.Tensor) -> str:
    return dlc.compile(function, args, target="sm_90", backend="host").ir("loop")


def test_a_value_is_rounded_where_it_reaches_memory() -> None:
    """Once, at the end; and where it is stored on the way, what is computed of it is not."""
    x = torch.randn(4, 8).half()
    assert kernels_of(lambda x: torch.relu(x + 1) * x, x).count("arith.truncf") == 1
    text = kernels_of(lambda x: torch.softmax(torch.softmax(x, -1), -1), x)
    assert text.count("arith.truncf") == text.count("loop.store")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1).float() * 2,  # what is cast has been rounded
        lambda x: torch.exp(x).to(torch.bfloat16).half() * 2,
        lambda x: torch.relu((x.float() * x).half()),
        lambda x: x.bfloat16().float(),
    ],
)
def test_casts_stay(function: Callable[..., Any]) -> None:
    """What they cut off is gone, as it is in eager."""
    x = torch.linspace(-3, 3, 512).half()
    compiled = dlc.compile(function, (x,), backend="host")
    assert torch.equal(compiled(x), rounded(function, x))


def test_a_half_is_gathered_where_its_column_is_best() -> None:
    """From a memref that has axes of one point before and behind the others."""
    v = torch.randn(3, 31, 31, 1).bfloat16()
    compiled = dlc.compile(best, (v,), target="sm_120", backend="host")
    assert torch.equal(compiled(v), best(v))


@pytest.mark.parametrize("rows", [8, 65536])
def test_no_weight_is_copied_in_a_wider_type(rows: int) -> None:
    """Whatever the estimate says of conversions that are repeated."""
    x, w = (torch.empty(n, 1024, dtype=torch.bfloat16, device="meta") for n in (rows, 512))
    module = import_program(lambda x, w: F.linear(x.float(), w.float()), (x, w)).module
    run_pipeline(compiler_context(), module, "loop")
    assert sum(isinstance(op, KernelOp) for op in module.walk()) == 1


# On a GPU.


def has_tools() -> bool:
    try:
        find_nvcc()
        find_nvdisasm()
    except BackendError:
        return False
    return True


@pytest.mark.skipif(not has_tools(), reason="needs nvcc and nvdisasm")
@pytest.mark.parametrize(
    ("name", "target"),
    product(HALVES, ["sm_80", "sm_90", "sm_120"])
    if WHOLE
    else [("f16", "sm_80"), ("bf16", "sm_90")],
)
def test_global_memory_is_accessed_16_bytes_at_once(name: str, target: str) -> None:
    """
    And nothing is spilled: a product that is not split, a norm, and independent points. But for the
    sums of tensor cores, of which a lane has two neighbours, where it stores them itself.
    """
    x, w = torch.zeros(1024, 256, dtype=HALVES[name]), torch.zeros(2048, 256, dtype=HALVES[name])

    programs: tuple[Callable[..., torch.Tensor], ...] = (
        lambda x, w: F.relu(F.linear(x, w)),
        lambda x, w: rms_norm(x, w[0]),
        lambda x, w: torch.where(x > 0, x, -x),
    )
    for program in programs:
        text = dlc.compile(program, (x, w), target=target, backend="host").ir("cuda")
        cubin = compile_cubin(text, target)
        assert cubin.spill_bytes == 0
        (function,) = parse(disassemble(cubin.path))
        found = accesses(function.instructions)
        widths = {n for (opcode, n) in found if opcode in ("LDG", "STG", "LDGSTS")}
        pairs = {n for (opcode, n) in found if opcode == "STG" and n != 128}
        sums = function.name == "linear_relu" and not any(o == "UTMASTG" for o, _ in found)
        assert pairs == ({32} if sums else set()), f"{found}"
        boxes = any(opcode == "UTMALDG" for opcode, _ in found)  # which TMA copies
        assert widths - pairs == (set() if boxes else {128}), f"{function.name}: {found}"


# Casts.

BYTES = [torch.float8_e4m3fn, torch.float8_e5m2]
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, *BYTES]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DTYPES = [*FLOATS, *INTEGERS, torch.bool]

SPECIAL = torch.tensor(
    [
        nan, inf, -inf, 0.0, -0.0, 1.0, -1.5, 1e-3, 3.14159265358979, 1e300, -1e300, 1e-300,
        65504.0, 65519.99, 65520.0, -65520.0, 3.3895e38, 3.3961e38, 3.4e38, 1e39,  # to infinity
        2.0**-14, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 3 * 2.0**-25, 6.1e-5, -5.97e-8,  # denormals
        2.0**-126, 2.0**-133, 2.0**-134, 1.5 * 2.0**-134, 9.2e-41, 1e-45,
        447.0, 449.0, 464.0, 465.0, -1e4, 57344.0, 61439.0, -61440.0, 2.0**-10, 1.5 * 2.0**-10,
        2.0**-16, 2.0**-17, 1.5 * 2.0**-17, 1.0625, 1.1875, 1.125, 1.375, 0.0136, 1.4e-5,
        1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-24, 2049.0, 257.0,
    ],
    dtype=torch.float64,
)  # fmt: skip
IN_RANGE = torch.tensor([0.0, -0.0, 0.4, 0.99, 1.5, 2.5, 99.9, 119.9], dtype=torch.float64)
WHOLE_NUMBERS = torch.tensor(
    [0, 1, 2, 127, 128, 255, 256, 32767, 65535, 65537, 16777217, 2**40 + 1]
)


def sources(target: torch.dtype) -> list[torch.Tensor]:
    """A tensor of every dtype whose elements `target` can hold, as far as PyTorch says what is."""
    floats = torch.cat((IN_RANGE, -IN_RANGE[:-1] if target != torch.uint8 else IN_RANGE))
    floats = floats if target in INTEGERS else SPECIAL
    integers = torch.cat((WHOLE_NUMBERS, -WHOLE_NUMBERS))
    return [
        *(floats.to(dtype) for dtype in FLOATS),
        *(integers.to(dtype) for dtype in INTEGERS),
        integers > 0,
    ]


def cast(source: torch.Tensor, target: torch.dtype) -> torch.Tensor:
    """
    To nearest even, what is narrow by way of fp32, e4m3fn no further than its largest; toward zero,
    integers by their lowest bits.
    """
    if target == torch.bool:
        return source != 0
    held = source.dtype in (torch.bfloat16, *BYTES)
    numbers = (source.float() if held else source).numpy()
    with np.errstate(all="ignore"):
        if target in BYTES:
            limit = 448.0 if target == torch.float8_e4m3fn else inf
            return torch.from_numpy(numbers.astype(np.float32)).clamp(-limit, limit).to(target)
        if target not in HALVES.values():
            return torch.from_numpy(numbers.astype(str(target).removeprefix("torch.")))
        single = numbers.astype(np.float32)
        if target == torch.float16:
            return torch.from_numpy(single.astype(np.float16))
    bits = single.view(np.uint32)
    upper = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)
    upper[np.isnan(single)] = 0x7FC0
    return torch.from_numpy(upper).view(torch.bfloat16)


def test_casts_are_those_of_ieee_754() -> None:
    """Between all pairs of dtypes, a kernel for each target; on the host and interpreted."""
    arguments = [tensor for target in DTYPES for tensor in sources(target)]
    count = len(DTYPES)

    def program(*args: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.cat([source.to(target) for source in args[n * count : (n + 1) * count]])
            for n, target in enumerate(DTYPES)
        ]

    compiled = dlc.compile(program, arguments, backend=Together())
    kernels = compiled.variants[0].module("kernel")
    interpreted = run_module(kernels, [as_array(a) for a in arguments])
    results = compiled(*arguments)
    for target, result, array in zip(DTYPES, results, interpreted, strict=True):
        wanted = torch.cat([cast(source, target) for source in sources(target)])
        assert result.dtype == target, target
        if target in BYTES:  # of which PyTorch compares none
            assert same(result.float(), wanted.float())
        torch.testing.assert_close(result.double(), wanted.double(), rtol=0, atol=0, equal_nan=True)
        np.testing.assert_array_equal(array, as_array(wanted), str(target))


def test_every_float_of_8_bits_and_what_becomes_of_floats() -> None:
    """All upper halves of a float, with what decides ties; of all bits views, gathers, copies."""
    lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    floats = (torch.arange(65536)[:, None] << 16 | lower).flatten().to(torch.int32)
    x, bits = floats.view(torch.float32), torch.arange(256).to(torch.uint8)
    codes = [bits.view(dtype) for dtype in BYTES]

    def program(*args: torch.Tensor) -> list[torch.Tensor]:
        place, results = torch.tensor([3, 200]), [args[0].to(dtype) for dtype in BYTES]
        for c in args[1:]:
            copied = c.view(16, 16).t().contiguous()
            results += [c.float(), copied, c.view(torch.uint8), torch.cat([c[place], c[::3]])]
        return results

    results = dlc.compile(program, (x, *codes), backend=Together())(x, *codes)
    for dtype, result in zip(BYTES, results, strict=False):
        wanted = cast(x, dtype)
        assert same(result.float(), wanted.float())
        element = next(row.type for row in NARROW if row.torch == str(dtype).partition(".")[2])
        known = torch.from_numpy(values_of(bits_of(x.numpy(), element), element))
        assert same(known, wanted.float())
    for result, eager in zip(results[2:], program(x, *codes)[2:], strict=True):
        assert result.dtype == eager.dtype
        assert same(result.float(), eager.float())


def scaled(
    x: torch.Tensor, w: torch.Tensor, scales: Sequence[torch.Tensor], bias: torch.Tensor
) -> list[torch.Tensor]:
    """Scaled products of all that `torch._scaled_mm` multiplies, by scales of tensors and rows."""
    a, b, of_rows, of_columns = scales
    other, product = x.to(torch.float8_e5m2), torch._scaled_mm
    return [
        product(x, w.t(), a, b, bias=bias, out_dtype=torch.bfloat16),
        product(other, w.t(), of_rows, of_columns, out_dtype=torch.float32),
        product(x, w.t(), a, b),
    ]


@pytest.mark.parametrize("sizes", [(17, 48, 32), (1, 16, 112), (0, 16, 16)])
def test_scaled_products(sizes: tuple[int, int, int]) -> None:
    """Against fp64, each with its one rounding; the program is judged as others are, too."""
    rows, columns, k = sizes
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, k, generator=generator).to(BYTES[0]) for n in (rows, columns))
    a, b, bias = torch.tensor(0.5), torch.tensor([3.0]), torch.randn(columns).bfloat16()
    of_rows, of_columns = torch.rand(rows, 1), torch.rand(1, columns)
    given = (x, w, (a, b, of_rows, of_columns), bias)
    compiled = dlc.compile(scaled, given, backend="host")
    sums = x.double() @ w.double().t()
    others = x.to(torch.float8_e5m2).double() @ w.double().t() * of_rows * of_columns
    exact = [sums * a * b + bias, others, sums * a * b]
    for result, wanted, dtype in zip(
        compiled(*given), exact, (torch.bfloat16, torch.float32, BYTES[0]), strict=True
    ):
        assert result.dtype == dtype
        assert not (judged := compare(result, wanted, None)).mismatches
        assert judged.error <= judged.bound
    module = compiled.variants[0].program.module
    flat = [x, w, a, b, of_rows, of_columns, bias]
    assert Expected(module, flat).complaint(compiled(*given)) is None


def test_scales_of_blocks_and_of_results_and_biases_of_rows_are_refused() -> None:
    x, w = (torch.empty(256, 256, dtype=BYTES[0], device="meta") for _ in range(2))
    one, *blocks = (torch.empty(shape, device="meta") for shape in ((), (256, 2), (2, 2)))
    bias = torch.empty(256, 1, dtype=torch.bfloat16, device="meta")
    for rest in (blocks, (one, one, None, one), (one, one, bias)):
        given = x, w.t(), *rest
        module = import_program(torch._scaled_mm, given, whole=DECOMPOSITIONS).module
        with pytest.raises(Exception, match=r"_scaled_mm.* by scales of tensors or of rows"):
            run_pipeline(compiler_context(), module, "tensor")


CONVERSIONS = r"""
extern "C" void widen(const __half* x, const __nv_bfloat16* y, float* a, float* b, float* c) {
  for (int i = 0; i < 65536; ++i) {
    a[i] = __half2float(x[i]);
    b[i] = dlc::half_to_float(x[i]);
    c[i] = __bfloat162float(y[i]);
  }
}
extern "C" void narrow(const float* x, int n, __half* a, __half* b, __nv_bfloat16* c) {
  for (int i = 0; i < n; ++i) {
    a[i] = __float2half_rn(x[i]);
    b[i] = dlc::float_to_half(x[i]);
    c[i] = __float2bfloat16_rn(x[i]);
  }
}
"""


@cache
def conversions(directory: Path) -> ctypes.CDLL:
    source, library = directory / "half.cpp", directory / "half.so"
    source.write_text(CONVERSIONS)
    header = Path(runtime.__file__).with_name("dlc_host.h")
    command = [*compiler.compiler(), *compiler.flags(), "-fvisibility=default"]
    subprocess.run([*command, "-include", header, source, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def addresses(tensors: Sequence[torch.Tensor]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) & (a.signbit() == b.signbit()) | a.isnan() & b.isnan()).all())


def test_the_host_widens_every_half(tmp_path: Path) -> None:
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    halves, brains = bits.view(torch.float16), bits.view(torch.bfloat16)
    found = [torch.empty(65536) for _ in range(3)]
    conversions(tmp_path).widen(*addresses([halves, brains, *found]))
    wide = torch.from_numpy(halves.numpy().astype(np.float32))
    wide_brains = (bits.int() << 16).view(torch.float32)
    for result, wanted in zip(found, (wide, wide, wide_brains), strict=True):
        assert same(result, wanted)


def test_the_host_rounds_to_nearest_even(tmp_path: Path) -> None:
    """By an instruction and in software: all upper halves of a float, and what decides a tie."""
    lower = [0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    bits = (torch.arange(65536)[:, None] << 16 | torch.tensor(lower)).flatten()
    floats = bits.to(torch.int32).view(torch.float32)
    half, soft = (torch.empty(len(floats), dtype=torch.float16) for _ in range(2))
    brain = torch.empty(len(floats), dtype=torch.bfloat16)
    library = conversions(tmp_path)
    source, *targets = addresses([floats, half, soft, brain])
    library.narrow(source, len(floats), *targets)
    assert same(half, cast(floats, torch.float16))
    assert same(soft, half)
    assert same(brain, cast(floats, torch.bfloat16))
