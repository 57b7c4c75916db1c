"""The prelude: complete, minimal, and compilable on its own by nvcc and by the host's compiler."""

import re
import subprocess
from pathlib import Path

import pytest

from dlc.backend import BackendError
from dlc.backend.cuda.print.prelude import NEWEST, PRELUDE, prelude_for
from dlc.backend.cuda.run.nvcc import compile_cubin, find_nvcc
from dlc.backend.host import cxx as compiler
from dlc.backend.host import host_kernel as runtime
from dlc.dialects.mma_layouts import WARPGROUP_SHAPES, pair_name


def has_nvcc() -> bool:
    try:
        find_nvcc()
    except BackendError:
        return False
    return True


# One use of every function (of every overload and instance that differs), in the table's order.
FLOATS, INTEGERS = (
    [pair_name(a, b) for a in types for b in types] for types in (("e4m3", "e5m2"), ("s8", "u8"))
)
WGMMA_ARGUMENTS = {
    "wgmma": dict.fromkeys(("f16", "bf16"), "false, true>(sums, l[0], l[1]")
    | dict.fromkeys(("tf32", *FLOATS), "false, false>(sums, l[0], l[1]")
    | dict.fromkeys(INTEGERS, "false, false>(reinterpret_cast<int*>(sums), l[0], l[1]"),
    "wgmma_held": {
        "f16": "true>(sums, eight.lane, l[1]",
        "bf16": "true>(sums, brain8.lane, l[1]",
    },
}
USES = {
    "bit_cast": "*f = bit_cast<float>(i[0]); *i = bit_cast<short>(h[0]);",
    "float8_e4m3fn": "float8_e4m3fn e4 = {0x38}; *b = e4.bits;",
    "to_f8e4m3fn": "e4 = to_f8e4m3fn(*f);",
    "from_f8e4m3fn": "*f = from_f8e4m3fn(e4);",
    "float8_e5m2": "float8_e5m2 e5 = {0x3c}; *b = e5.bits;",
    "to_f8e5m2": "e5 = to_f8e5m2(*f);",
    "from_f8e5m2": "*f = from_f8e5m2(e5);",
    "cuda_fp16": "h[0] = __float2half_rn(__half2float(h[1]) + 1.0f);",
    "cuda_bf16": "n[0] = __float2bfloat16_rn(__bfloat162float(n[1]) + 1.0f);",
    "to_f16": "h[2] = to_f16(f[1]);",
    "to_bf16": "n[2] = to_bf16(f[1]);",
    "shared_address": "",
    "dynamic_shared": "reinterpret_cast<int*>(dynamic_shared())[t] = t;",
    "as_vector": "as_vector<int2>(i) = make_int2(1, 2);",
    "load2": "f2 = load2(f); i2 = load2(i); l2 = load2(l);",
    "store2": "store2(f, f2); store2(i, i2); store2(l, l2);",
    "load4": "f4 = load4(f); i4 = load4(i);",
    "store4": "store4(f, f4); store4(i, i4);",
    "packed": "packed<double, 2> pair = {}; *d = pair.lane[1];",
    "load_packed": "packed<__half, 8> eight = load_packed<8>(h);",
    "store_packed": "store_packed(h + 8, eight); store_packed(c + 4, load_packed<4>(c));",
    "fill_packed": "store_packed(n + 8, fill_packed<2>(n[0]));",
    "to_f16x2": "store_packed(h + 4, to_f16x2(make_float2(f[0], f[1])));",
    "to_bf16x2": "store_packed(n + 4, to_bf16x2(make_float2(f[0], f[1])));",
    "shuffle_xor": "*f = shuffle_xor(*f, 4, 32); *l = shuffle_xor(*l, 1, 32);",
    "shuffle_down": "*i = shuffle_down(*i, 4, 8); *u = shuffle_down(*u, 4, 8);",
    "shuffle_idx": "*b = shuffle_idx(*b, 4, 32); *d = shuffle_idx(*d, 0, 4);",
    "shuffle_xor_among": "*f = shuffle_xor_among(*f, 4, 8, 0xffu);",
    "lanes_below": "*i = lanes_below(40);",
    "barrier_among": "barrier_among<64>();",
    "cp_async_4": "cp_async_4(s, f, t < 3);",
    "cp_async_8": "cp_async_8(s, f, t < 3);",
    "cp_async_16": "cp_async_16(s, f, true);",
    "cp_async_commit": "cp_async_commit();",
    "cp_async_wait": "cp_async_wait<0>(); cp_async_wait<2>();",
    "mbarrier_init": "mbarrier_init(&bar, 1);",
    "mbarrier_arrive": "mbarrier_arrive(&bar);",
    "mbarrier_arrive_at": "mbarrier_arrive_at(&bar, t);",
    "mbarrier_expect_tx": "mbarrier_expect_tx(&bar, 128);",
    "mbarrier_arrive_expect_tx": "mbarrier_arrive_expect_tx(&bar, 128);",
    "mbarrier_wait": "mbarrier_wait(&bar, t & 1);",
    "fence_mbarrier_init": "fence_mbarrier_init();",
    "fence_proxy_async": "fence_proxy_async();",
    "grid_wait": "grid_wait();",
    "grid_release": "grid_release();",
    "prefetch_share": "prefetch_share<4096, 3, 256>(f);",
    "tensor_map": "",
    "tma_load_1d": "tma_load_1d(s, &map, &bar, t);",
    "tma_load_2d": "tma_load_2d(s, &map, &bar, t, 1);",
    "tma_load_3d": "tma_load_3d(s, &map, &bar, t, 1, 2);",
    "tma_load_4d": "tma_load_4d(s, &map, &bar, t, 1, 2, 3);",
    "tma_load_5d": "tma_load_5d(s, &map, &bar, t, 1, 2, 3, 4);",
    "tma_multicast_1d": "tma_multicast_1d<3>(s, &map, &bar, 0, t);",
    "tma_multicast_2d": "tma_multicast_2d<5>(s, &map, &bar, t % 2, t, 1);",
    "tma_multicast_3d": "tma_multicast_3d<3>(s, &map, &bar, 0, t, 1, 2);",
    "tma_multicast_4d": "tma_multicast_4d<3>(s, &map, &bar, 0, t, 1, 2, 3);",
    "tma_multicast_5d": "tma_multicast_5d<3>(s, &map, &bar, 0, t, 1, 2, 3, 4);",
    "tma_store_1d": "tma_store_1d(&map, s, t);",
    "tma_store_2d": "tma_store_2d(&map, s, t, 1);",
    "tma_store_3d": "tma_store_3d(&map, s, t, 1, 2);",
    "tma_store_4d": "tma_store_4d(&map, s, t, 1, 2, 3);",
    "tma_store_5d": "tma_store_5d(&map, s, t, 1, 2, 3, 4);",
    "tma_commit": "tma_commit();",
    "tma_wait": "tma_wait<0>();",
    "tma_wait_read": "tma_wait_read<1>();",
    "mma_m16n8k16_f32_f16": "f4 = mma_m16n8k16_f32_f16(eight, half4, f4);",
    "mma_m16n8k16_f16_f16": "half4 = mma_m16n8k16_f16_f16(eight, half4, half4);",
    "mma_m16n8k16_f32_bf16": "f4 = mma_m16n8k16_f32_bf16(brain8, brain4, f4);",
    "mma_m16n8k8_f32_tf32": "f4 = mma_m16n8k8_f32_tf32(f4, f2, f4);",
    **{f"mma_m16n8k32_f32_{e}": f"f4 = mma_m16n8k32_f32_{e}({{}}, {{}}, f4);" for e in FLOATS},
    **{f"mma_m16n8k32_i32_{e}": f"i4 = mma_m16n8k32_i32_{e}({{}}, {{}}, i4);" for e in INTEGERS},
    "ldmatrix_x1": "two = ldmatrix_x1<packed<__half, 2>>(s); *h = two.lane[0];",
    "ldmatrix_x1_trans": "two = ldmatrix_x1_trans<packed<__half, 2>>(s);",
    "ldmatrix_x2": "f2 = ldmatrix_x2<float2>(s);",
    "ldmatrix_x2_trans": "half4 = ldmatrix_x2_trans<packed<__half, 4>>(s);",
    "ldmatrix_x4": "f4 = ldmatrix_x4<float4>(s);",
    "ldmatrix_x4_trans": "eight = ldmatrix_x4_trans<packed<__half, 8>>(s);",
    "stmatrix_x1": "stmatrix_x1(s, two);",
    "stmatrix_x1_trans": "stmatrix_x1_trans(s, two);",
    "stmatrix_x2": "stmatrix_x2(s, f2);",
    "stmatrix_x2_trans": "stmatrix_x2_trans(s, half4);",
    "stmatrix_x4": "stmatrix_x4(s, eight);",
    "stmatrix_x4_trans": "stmatrix_x4_trans(s, eight);",
    "matrix_descriptor": "l[0] = matrix_descriptor<16, 1024, 128>(s);"
    " l[1] = matrix_descriptor<16, 1024, 0>(s, t);",
    "hold": "hold<128>(sums); hold<4>(i);",
    "hold_factor": "hold_factor<8>(brain8.lane);",
    "wgmma_fence": "wgmma_fence();",
    "wgmma_commit": "wgmma_commit();",
    "wgmma_wait": "wgmma_wait<0>();",
    "wgmma_finish": "wgmma_finish();",
    "set_max_registers": "set_max_registers<168, 40>();",
    **{
        f"{kind}_{name}_{sums}_{factors}": f"{kind}_{name}_{sums}_{factors}<{given[factors]});"
        for name, factors in WARPGROUP_SHAPES
        for sums in ["i32" if factors in INTEGERS else "f32"]
        for kind, given in WGMMA_ARGUMENTS.items()
        if factors in given
    },
    "atomic_add": "atomic_add(f, 1.0f); atomic_add(i, 1); atomic_add(u, 1ull);",
    "last_block": "if (!last_block(i, 2)) return;",
    "last_block_among": "if (!last_block_among<64>(i, 2)) return;",
    "cluster_barrier": "cluster_barrier();",
    "cluster_barrier_relaxed": "cluster_barrier_relaxed();",
    "cluster_shared": "*f = cluster_shared(s, 1)[t];",
    "max_nan": "*f = max_nan(f[0], f[1]);",
    "min_nan": "*f = min_nan(f[0], f[1]);",
    "exp2_below": "*f = exp2_below(f[0]); *d = exp2_below(d[0]);",
    "exp_below": "*f = exp_below(f[0]); *d = exp_below(d[0]);",
    "logistic": "*f = logistic(f[0]); *d = logistic(d[0]);",
    "floor_div": "*i = floor_div(i[0], i[1]); *l = floor_div(l[0], l[1]);",
    "philox": "*l = philox(l[0], l[1]);",
    "floor_mod": "*i = floor_mod(i[0], i[1]); *l = floor_mod(l[0], l[1]);",
    "gcd": "*i = gcd(i[0], i[1]); *l = gcd(l[0], l[1]);",
    "ipowi": "*i = ipowi(i[0], i[1]); *l = ipowi(l[0], l[1]);",
    **{
        name: f"*d = {name}(d[0], d[1]);"
        for name in ("hermite_h", "hermite_he", "laguerre_l", "legendre_p")
    },
    "gamma_distance": "*d = gamma_distance(d[0]);",
    "gamma_of_large": "*d = gamma_of_large(d[0], d[1], d[2], -1);",
    "gamma_scale": "*d = gamma_scale(d[0], d[1], d[2]);",
    "gamma_series": "*d = gamma_series(d[0], d[1]);",
    "gamma_fraction": "*d = gamma_fraction(d[0], d[1]);",
    "gamma_part": "*d = gamma_part(d[0], d[1], true);",
    "igamma": "*d = igamma(d[0], d[1]);",
    "igammac": "*d = igammac(d[0], d[1]);",
}
TYPES = (
    "float*", "int*", "long long*", "unsigned long long*", "signed char*", "bool*", "double*",
    "__half*", "__nv_bfloat16*",
)  # fmt: skip
BODY = """  __shared__ alignas(128) float s[128];
  __shared__ alignas(8) unsigned long long bar;
  const int t = threadIdx.x;
  float2 f2 = {}; int2 i2 = {}; longlong2 l2 = {}; float4 f4 = {}; int4 i4 = {};
  packed<__half, 2> two = {}; packed<__half, 4> half4 = {};
  packed<__nv_bfloat16, 8> brain8 = {}; packed<__nv_bfloat16, 4> brain4 = {};
  float sums[128] = {}; *f = sums[t]; (void)two; (void)half4; (void)brain8; (void)brain4;
  (void)s; (void)bar; (void)t; (void)f2; (void)i2; (void)l2; (void)f4; (void)i4;
"""


def kernel_with(names: list[str]) -> tuple[str, list[str]]:
    """A kernel that uses these functions, and its parameter types."""
    types: list[str] = [*TYPES]
    parameters = [f"{kind} {name}" for kind, name in zip(TYPES, "filucbdhn", strict=True)]
    if "tensor_map" in names:
        types.insert(0, "tensor_map")
        parameters.insert(0, "const __grid_constant__ tensor_map map")
    head = f'extern "C" __global__ void __launch_bounds__(32)\nevery({", ".join(parameters)})'
    uses = "\n  ".join(USES[name] for name in names)
    return (
        f"{prelude_for([*names, 'cuda_fp16', 'cuda_bf16'])}{head} {{\n{BODY}  {uses}\n}}\n",
        types,
    )


def test_every_function_is_used_below() -> None:
    assert list(USES) == list(PRELUDE)


def test_needs_come_first_and_are_in_the_table() -> None:
    seen: set[str] = set()
    for name, function in PRELUDE.items():
        assert set(function.needs) <= seen
        assert name == function.name
        assert name in function.text(NEWEST)
        seen.add(name)


def test_every_entry_names_what_it_needs() -> None:
    for function in PRELUDE.values():
        body = function.signature + function.device + function.host
        mentioned = {name for name in PRELUDE if re.search(rf"(?<![\w.]){name}[(<]", body)}
        assert mentioned - {function.name} <= set(function.needs)


def test_only_what_is_asked_for() -> None:
    assert prelude_for([]) == ""
    text = prelude_for(["cp_async_16", "cp_async_wait", "cp_async_16"])
    assert text.count("void cp_async_16(") == 1
    assert text.index("unsigned shared_address(") < text.index("void cp_async_16(")
    assert "cp_async_4" not in text
    assert max(len(line) for line in prelude_for(PRELUDE).splitlines()) <= 100
    with pytest.raises(KeyError, match="the prelude has no function 'cp_async_32'"):
        prelude_for(["cp_async_32"])


def test_waits_and_requests_clobber_memory() -> None:
    for function in PRELUDE.values():
        products = function.device.count("mma.sync")  # of registers: the lanes meet, no more
        volatile = function.device.count("asm volatile")
        assert volatile == function.device.count('"memory"') + products


@pytest.mark.skipif(not has_nvcc(), reason="needs nvcc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_nvcc_takes_every_function_without_warnings(
    arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    capability = int(arch.removeprefix("sm_"))
    names = [name for name, function in PRELUDE.items() if function.is_of(capability)]
    source, _ = kernel_with(names)
    options = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-DDLC_SYNC"]
    cubin = compile_cubin(source, arch, options)
    assert cubin.registers > 0
    assert cubin.spill_bytes == 0


def test_the_host_takes_every_function_without_warnings(tmp_path: Path) -> None:
    source, types = kernel_with(list(PRELUDE))
    path = tmp_path / "every.cpp"
    path.write_text(runtime.HostKernel(source, "every", types).text)
    command = [*compiler.compiler(), *compiler.flags(), "-Wall", "-Wextra", "-Werror", str(path)]
    header = Path(runtime.__file__).with_name("dlc_host.h")
    result = subprocess.run(
        [*command, "-include", str(header), "-o", str(tmp_path / "every.so")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stderr == ""
    assert result.returncode == 0
