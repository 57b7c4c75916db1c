"""The host backend: printed text runs on the CPU with the meaning of a GPU."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import forked_python

import dlc
from dlc.backend import BackendError, LaunchError, cache
from dlc.backend.cuda.print.prelude import prelude_for
from dlc.backend.host import cxx as compiler
from dlc.backend.host.host_kernel import (
    AsyncMode,
    HostKernel,
    Order,
    compile_all,
    encode_tensor_map,
)

ORDERS: tuple[Order, ...] = ("forward", "reverse", "random")


@pytest.fixture(scope="module", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLC_CACHE_DIR", str(path))
        yield path


def kernel(name: str, parameters: str, body: str, *needs: str, bounds: int = 256) -> HostKernel:
    """A kernel with these C parameters ("const float* x, int n") and the prelude that it needs."""
    head = f'extern "C" __global__ void __launch_bounds__({bounds})\n{name}({parameters})'
    types = [re.sub(r"\w+\s*$", "", parameter) for parameter in parameters.split(",")]
    return HostKernel(f"{prelude_for(needs)}{head} {{\n{body}\n}}\n", name, types)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


VECTOR_ADD = kernel(
    "vector_add",
    "const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, int n",
    """  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 3 < n) {
    const float4 a = load4(&x[i]), b = load4(&y[i]);
    store4(&z[i], make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w));
  }""",
    "load4",
    "store4",
)

ROW_SUM = kernel(
    "row_sum",
    "const float* __restrict__ x, float* __restrict__ y, int n",
    """  __shared__ alignas(16) float partial[8];
  const int tid = threadIdx.x, row = blockIdx.x;
  float sum = 0.0f;
  for (int i = tid; i < n; i += 256) sum += x[row * n + i];
  #pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask, 32);
  if (tid % 32 == 0) partial[tid / 32] = sum;
  __syncthreads();
  float total = 0.0f;
  #pragma unroll
  for (int w = 0; w < 8; ++w) total += partial[w];
  if (tid == 0) y[row] = total;""",
    "shuffle_xor",
)

# One warp's lanes pass a shuffle and then read what another warp writes before its own: the
# barrier between is what `{barrier}` stands for.
MAILBOX = """  __shared__ int mail[64];
  const int tid = threadIdx.x;
  mail[tid] = -1;
  __syncthreads();
  mail[tid] = tid;
  const int mine = shuffle_xor(tid, 1, 32);
  {barrier}
  y[tid] = mail[(tid + 32) % 64] + 0 * mine;"""

# A ring of two slots over four chunks of 64: each thread copies one element of a chunk and reads
# the element that its neighbour in the other warp copied.
RING = """  __shared__ alignas(16) float ring[2][64];
  const int tid = threadIdx.x;
  cp_async_4(&ring[0][tid], &x[tid], true);
  cp_async_commit();
  float sum = 0.0f;
  for (int k = 0; k < 4; ++k) {{
    {request_first}
    {wait}
    __syncthreads();
    {request_last}
    sum = sum * 2.0f + ring[k % 2][63 - tid];
  }}
  y[tid] = sum;"""
REQUEST = (
    "if (k < 3) cp_async_4(&ring[(k + 1) % 2][tid], &x[(k + 1) * 64 + tid], true); "
    "cp_async_commit();"
)
RING_NEEDS = ("cp_async_4", "cp_async_commit", "cp_async_wait")


def ring(name: str, request_first: str, wait: str, request_last: str) -> HostKernel:
    body = RING.format(request_first=request_first, wait=wait, request_last=request_last)
    return kernel(name, "const float* x, float* y", body, *RING_NEEDS, bounds=64)


RIGHT_RING = ring("right_ring", "", "cp_async_wait<0>();", REQUEST)
# The request stands before the barrier: a fast warp overwrites the slot that a slow one reads.
EARLY_RING = ring("early_ring", REQUEST, "cp_async_wait<1>();", "")
NO_WAIT_RING = ring("no_wait_ring", "", "if (k == 3) cp_async_wait<0>();", REQUEST)

SGEMM = kernel(
    "sgemm",
    "const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C",
    """  constexpr int N = 512, K = 512;
  float* As = reinterpret_cast<float*>(dynamic_shared());  // [128][16]
  float* Bs = As + 128 * 16;                               // [16][128]
  const int tid = threadIdx.x, tj = tid % 16, ti = tid / 16;
  const int bi = blockIdx.x / (N / 128) * 128, bj = blockIdx.x % (N / 128) * 128;
  alignas(16) float acc[8][8] = {};
  for (int ko = 0; ko < K / 16; ++ko) {
    #pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int e = (s * 256 + tid) * 4;
      store4(&As[e], load4(&A[(bi + e / 16) * K + ko * 16 + e % 16]));
      store4(&Bs[e], load4(&B[(ko * 16 + e / 128) * N + bj + e % 128]));
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 16; k += 4) {
      alignas(16) float a[8][4], b[4][8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) store4(a[i], load4(&As[(i * 16 + ti) * 16 + k]));
      #pragma unroll
      for (int v = 0; v < 4; ++v)
        #pragma unroll
        for (int j = 0; j < 8; j += 4)
          store4(&b[v][j], load4(&Bs[(k + v) * 128 + j / 4 * 64 + tj * 4]));
      #pragma unroll
      for (int v = 0; v < 4; ++v)
        #pragma unroll
        for (int i = 0; i < 8; ++i)
          #pragma unroll
          for (int j = 0; j < 8; ++j) acc[i][j] += a[i][v] * b[v][j];
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 8; ++i)
    #pragma unroll
    for (int j = 0; j < 8; j += 4)
      store4(&C[(bi + i * 16 + ti) * N + bj + j / 4 * 64 + tj * 4], load4(&acc[i][j]));""",
    "dynamic_shared",
    "load4",
    "store4",
    "load4",
    "store4",
)

SHUFFLES = kernel(
    "shuffles",
    "int* xors, long long* downs, int* firsts, bool* flags",
    """  const int tid = threadIdx.x;
  xors[tid] = shuffle_xor(tid, 3, 8);
  downs[tid] = shuffle_down(tid * 10000000000ll, 3, 8);
  firsts[tid] = shuffle_idx(tid, 1, 8);
  flags[tid] = shuffle_idx(tid % 2 == 1, 5, 32);""",
    "shuffle_xor",
    "shuffle_down",
    "shuffle_idx",
)

# By its argument: 0 passes, the others fail in the ways that they name.
FAULTS = kernel(
    "faults",
    "int fault, const float* x, float* y",
    """  __shared__ float slot[64];
  const int tid = threadIdx.x;
  if (fault == 1) { if (tid >= 40) return; __syncthreads(); }
  if (fault == 2) {
    if (tid < 32) __syncthreads();
    else
      __syncthreads();
  }
  if (fault == 3) { if (tid < 5) __syncwarp(); else __syncthreads(); }
  if (fault == 5) cp_async_4(&slot[tid], &x[tid], true);
  if (fault == 6) store4(&y[1], load4(&x[0]));
  if (fault == 7) { if (tid < 32) shuffle_xor(tid, 1, 32); else __syncthreads(); }
  if (fault == 8) { if (tid % 2) shuffle_xor(tid, 1, 32); else __syncwarp(); }
  if (fault == 9) { if (tid < 8) shuffle_idx(tid, 9, 32); }
  if (fault == 10) y[tid] = float(floor_mod(tid, int(x[0])));""",
    "cp_async_4",
    "load4",
    "store4",
    "shuffle_xor",
    "shuffle_idx",
    "floor_mod",
)

MBARRIER = kernel(
    "mbarrier_ring",
    "const __grid_constant__ tensor_map map, float* y, int wait_full",
    """  __shared__ alignas(128) float ring[2][8][32];
  __shared__ alignas(8) unsigned long long full[2], empty[2];
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  if (tid == 0)
    for (int s = 0; s < 2; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 2); }
  fence_mbarrier_init();
  __syncthreads();
  if (warp == 2) {
    if (lane == 0)
      for (int k = 0; k < 6; ++k) {
        mbarrier_wait(&empty[k % 2], (k / 2 + 1) % 2);
        mbarrier_arrive_expect_tx(&full[k % 2], 1024);
        tma_load_2d(ring[k % 2], &map, &full[k % 2], 32 * k - 4, -1);
      }
  } else {
    float sum = 0.0f;
    for (int k = 0; k < 6; ++k) {
      if (wait_full) mbarrier_wait(&full[k % 2], k / 2 % 2);
      for (int i = warp; i < 8; i += 2) sum = sum * 1.5f + ring[k % 2][i][lane];
      __syncwarp();
      if (lane == 0) mbarrier_arrive(&empty[k % 2]);
    }
    y[tid] = sum;
  }""",
    "tma_load_2d",
    "mbarrier_init",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_wait",
    "fence_mbarrier_init",
    bounds=96,
)

MATH = kernel(
    "math",
    "const float* a, const float* b, const int* i, const int* j, float* y, int* z, float* sum",
    """  const int t = threadIdx.x;
  y[t] = max_nan(a[t], b[t]);
  y[16 + t] = min_nan(a[t], b[t]);
  y[32 + t] = fmaxf(a[t], b[t]);
  y[48 + t] = rsqrtf(fabsf(a[t]));
  z[t] = floor_div(i[t], j[t]);
  z[16 + t] = floor_mod(i[t], j[t]);
  atomic_add(sum, 1.0f);""",
    "max_nan",
    "min_nan",
    "floor_div",
    "floor_mod",
    "atomic_add",
)

BARRIERS = kernel(
    "barriers",
    "int* y, int n",
    """  int i = 0;
  for (; i < n; ++i) __syncthreads();
  y[threadIdx.x] = i;""",
)


@pytest.fixture(scope="module", autouse=True)
def compiled(cache_directory: Path) -> None:
    compile_all(
        [VECTOR_ADD, ROW_SUM, RIGHT_RING, EARLY_RING, NO_WAIT_RING, SGEMM, SHUFFLES, FAULTS,
         MBARRIER, MATH, BARRIERS]
    )  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_vector_add(order: Order) -> None:
    n = 100_000
    x, y, z = rows(n), rows(n) + 1, np.zeros(n, np.float32)
    VECTOR_ADD.launch([address(x), address(y), address(z), n], 98, 256, order=order)
    np.testing.assert_array_equal(z, x + y)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_row_sum(order: Order, n: int) -> None:
    x, y = rows(33, n), np.full(33, np.nan, np.float32)
    ROW_SUM.launch([address(x), address(y), n], 33, 256, order=order, seed=1)
    np.testing.assert_allclose(y, x.sum(1, dtype=np.float64), rtol=0, atol=2e-5)


def test_missing_barrier_shows() -> None:
    expected = (np.arange(64) + 32) % 64
    wrong = kernel("no_barrier", "int* y", MAILBOX.format(barrier=""), "shuffle_xor")
    right = kernel("one_barrier", "int* y", MAILBOX.format(barrier="__syncthreads();"),
                   "shuffle_xor")  # fmt: skip
    y = np.zeros(64, np.int32)
    for order in ORDERS:
        right.launch([address(y)], 1, 64, order=order)
        np.testing.assert_array_equal(y, expected)
        # A shuffle between is no barrier: it meets per warp, so one warp reads too early.
        wrong.launch([address(y)], 1, 64, order=order)
        assert (y != expected).any()


@pytest.mark.parametrize("order", ORDERS)
def test_cp_async_ring(order: Order) -> None:
    x, y = rows(4, 64), np.zeros(64, np.float32)
    expected = np.zeros(64, np.float32)
    for chunk in x:
        expected = expected * 2 + chunk[::-1]

    def is_right(tested: HostKernel, async_mode: AsyncMode) -> bool:
        tested.launch([address(x), address(y)], 1, 64, order=order, async_mode=async_mode)
        return bool((y == expected).all())

    assert is_right(RIGHT_RING, "late")
    assert is_right(RIGHT_RING, "early")
    assert is_right(EARLY_RING, "late")
    assert not is_right(EARLY_RING, "early")
    assert not is_right(NO_WAIT_RING, "late")
    assert is_right(NO_WAIT_RING, "early")


def test_sgemm() -> None:
    a, b = rows(256, 512), rows(512, 512)
    c = np.zeros((256, 512), np.float32)
    SGEMM.launch([address(a), address(b), address(c)], 8, 256, 16384)
    exact = a.astype(np.float64) @ b
    assert np.abs(c - exact).max() < 2e-5 * np.abs(exact).max()


def test_shuffles() -> None:
    lanes = np.arange(64)
    xors, firsts = np.zeros(64, np.int32), np.zeros(64, np.int32)
    downs, flags = np.zeros(64, np.int64), np.zeros(64, np.bool_)
    SHUFFLES.launch([address(a) for a in (xors, downs, firsts, flags)], 1, 64, order="random")
    np.testing.assert_array_equal(xors, lanes ^ 3)
    inside = lanes % 8 + 3 < 8
    np.testing.assert_array_equal(downs, np.where(inside, lanes + 3, lanes) * 10**10)
    np.testing.assert_array_equal(firsts, lanes // 8 * 8 + 1)
    assert flags.all()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (1, r"threads 0-39 wait at __syncthreads\(\) in line \d+; threads 40-63 have exited"),
        (2, r"diverged at a barrier: threads 0-31 wait at .* in line \d+; threads 32 wait at"),
        (3, r"threads 0-4 wait at __syncwarp\(\) for their warp; threads 5-63 wait at __sync"),
        (5, r"thread 0 exits with 1 asynchronous copies that no cp_async_wait completed"),
        (6, r"a vector access at an address that is not a multiple"),
        (7, r"threads 0-31 have exited|threads 32-63 wait at __syncthreads"),
        (8, r"warp 0 have diverged: lane 1 is at shuffle_xor, but another waits at __syncwarp"),
        (9, r"thread 0 reads lane 9 in shuffle_idx, but that lane is not there"),
        (10, r"integer division by zero"),
    ],
)
def test_faults_are_messages(fault: int, message: str) -> None:
    x, y = np.zeros(64, np.float32), np.zeros(68, np.float32)
    for _ in range(2):  # the workers stay usable
        with pytest.raises(LaunchError, match=message):
            FAULTS.launch([fault, address(x), address(y)], 3, 64)
        FAULTS.launch([0, address(x), address(y)], 3, 64)


def tensor_map(x: np.ndarray) -> bytes:
    return encode_tensor_map(address(x), x.shape[::-1], x.strides[::-1], (32, 8), x.itemsize)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("async_mode", ["late", "early"])
def test_tma_ring(order: Order, async_mode: AsyncMode) -> None:
    x, y = rows(6, 180), np.zeros(64, np.float32)
    padded = np.zeros((8, 192), np.float32)
    padded[1:7, 4:184] = x
    expected = np.zeros(64, np.float32)
    for k in range(6):
        box = padded[:, 32 * k : 32 * k + 32]
        for i in range(0, 8, 2):
            expected = expected * np.float32(1.5) + box[i : i + 2].reshape(64)

    def run(wait_full: int) -> bool:
        args = [tensor_map(x), address(y), wait_full]
        MBARRIER.launch(args, 2, 96, order=order, async_mode=async_mode)
        return bool(np.allclose(y, expected, rtol=1e-5, atol=1e-5))

    assert run(1)
    if async_mode == "late":  # nobody waits for the bytes: they never land, and somebody starves
        with pytest.raises(LaunchError, match=r"mbarrier (that misses|gets more arrivals)"):
            run(0)


def test_math() -> None:
    nan, inf = np.nan, np.inf
    a = np.array([1, 2, nan, 3, nan, -0.5, inf, -inf] * 2, np.float32)
    b = np.array([2, 1, 3, nan, nan, -0.25, nan, inf] * 2, np.float32)
    i = np.array([7, -7, 7, -7, 6, -6, 0, 1] * 2, np.int32)
    j = np.array([2, 2, -2, -2, 3, 3, 5, -5] * 2, np.int32)
    y, z, total = np.zeros((4, 16), np.float32), np.zeros((2, 16), np.int32), np.zeros(1, "f4")
    MATH.launch([address(v) for v in (a, b, i, j, y, z, total)], 500, 16)
    np.testing.assert_array_equal(y[0], np.maximum(a, b))
    np.testing.assert_array_equal(y[1], np.minimum(a, b))
    np.testing.assert_array_equal(y[2], np.fmax(a, b))
    np.testing.assert_allclose(y[3], 1 / np.sqrt(np.abs(a)), rtol=1e-6)
    np.testing.assert_array_equal(z, [i // j, i % j])
    assert total[0] == 8000


CASTS = kernel(
    "casts", "const double* x, double* y", "  y[threadIdx.x] = (double)(long long)x[threadIdx.x];"
)


def test_a_number_that_was_an_integer_is_no_negative_zero() -> None:
    x, y = np.array([-0.5, 0.5, -0.0, -2.5, 3.75]), np.empty(5)
    CASTS.launch([address(x), address(y)], 1, 5)
    assert y.tolist() == [0, 0, 0, -2, 3]
    assert np.signbit(y).tolist() == [False, False, False, True, False]


ARCS = kernel(
    "arcs",
    "const double* x, const float* y, double* z, float* w",
    "  const int i = threadIdx.x;\n"
    "  z[2 * i] = sin(atan(x[i])), z[2 * i + 1] = cos(atan(x[i]));\n"
    "  w[2 * i] = sinf(atanf(y[i])), w[2 * i + 1] = cosf(atanf(y[i]));",
)


def test_sines_of_arcs_are_nan_for_nan() -> None:
    x, y = np.array([np.nan, 0, np.inf]), np.array([np.nan, 0, np.inf], np.float32)
    z, w = np.empty(6), np.empty(6, np.float32)
    ARCS.launch([address(x), address(y), address(z), address(w)], 1, 3)
    expected = [np.nan, np.nan, 0, 1, 1, 0]
    np.testing.assert_allclose(z, expected, atol=1e-15)
    np.testing.assert_allclose(w, expected, atol=1e-7)


def test_many_barriers() -> None:
    y, n = np.zeros(256, np.int32), 2000
    BARRIERS.launch([address(y), n], 1, 256)
    assert (y == n).all()


def test_random_order_depends_on_the_seed_only() -> None:
    source = kernel("first", "int* y", "  __shared__ int n;\n  y[threadIdx.x] = n++;")
    runs = []
    for seed in (1, 1, 2):
        y = np.zeros(64, np.int32)
        source.launch([address(y)], 1, 64, order="random", seed=seed, threads=1)
        runs.append(y - y.min())
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


def test_launch_checks_its_arguments() -> None:
    y = np.zeros(4, np.int32)
    BARRIERS.launch([address(y), 1], 0, 256)
    launches = [
        ([address(y)], 1, 32),
        ([address(y), 1], 1, 1025),
        ([address(y), 1], 1, 0),
        ([address(y), 1], -1, 32),
    ]
    for args, grid, block in launches:
        with pytest.raises(LaunchError, match="barriers"):
            BARRIERS.launch(args, grid, block)
    with pytest.raises(LaunchError, match="cannot take 'x'"):
        BARRIERS.launch([address(y), "x"], 1, 32)  # type: ignore[list-item]


def test_compile_error_keeps_the_source() -> None:
    bad = kernel("bad", "float* y", "  y[0] = nonsense;")
    with pytest.raises(BackendError, match=r"'nonsense' was not declared|undeclared") as caught:
        bad.compile()
    found = re.search(r"refuses (\S+)", str(caught.value))
    assert found
    assert "nonsense" in Path(found[1]).read_text()


def test_a_frame_beyond_the_stack_is_refused() -> None:
    body = """  float a[100000];
  for (int i = 0; i < 100000; ++i) a[i] = y[i];
  __syncthreads();
  for (int i = 0; i < 100000; ++i) y[i] = a[99999 - i];"""
    huge = kernel("huge", "float* y", body)
    with pytest.raises(BackendError, match="frame"):
        huge.compile()


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler._find.cache_clear()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BackendError, match=r"no C\+\+ compiler was found.*install"):
        compiler.compiler()
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(BackendError, match=r"\$CXX is 'no-such-compiler -O1'"):
        compiler.compiler()
    compiler._find.cache_clear()


SAME = """
import numpy as np
from test_host_backend import ROW_SUM, address
x, y = np.ones((4, 256), np.float32), np.zeros(4, np.float32)
ROW_SUM.source += "// built by two processes at once"
ROW_SUM.launch([address(x), address(y), 256], 4, 256)
assert (y == 256).all()
"""


def test_two_processes_compile_the_same_kernel(tmp_path: Path, cache_directory: Path) -> None:
    for scheduler in cache_directory.glob("host-scheduler-*"):
        shutil.copytree(scheduler, tmp_path / scheduler.name)
    here = Path(__file__).parent
    paths = [str(here), str(here.parent.parent)]
    environment = os.environ | {"DLC_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(paths)}
    command = [*forked_python(), "-c", SAME]
    both = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    left = sorted(path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir())
    assert left == ["host", "host-header", "host-scheduler"]


def test_damaged_entries_are_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    builds = []

    def build(directory: Path) -> dict[str, int]:
        builds.append(directory)
        (directory / "object").write_text("content")
        return {"registers": 7}

    def get() -> cache.Entry:
        return cache.lookup_or_build("test", "key", "object", build)

    path = get().path
    assert get().info == {"registers": 7}
    assert len(builds) == 1
    path.write_text("conten")
    assert get().path.read_text() == "content"
    (path.parent / "entry.json").write_text("{")
    assert get().path.read_text() == "content"
    assert len(builds) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["test-key"]


def test_an_unwritable_cache_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(BackendError, match="set DLC_CACHE_DIR"):
        cache.cache_directory()


def test_a_cache_that_was_emptied_is_filled_again(cache_directory: Path) -> None:
    """While a process lives that has compiled kernels before."""
    for _ in range(2):
        assert kernel("one", "float* x", "  x[0] = 1.0f;").compile().is_file()
        shutil.rmtree(cache_directory)


def test_chosen_values_in_unrolled_loops_are_those_of_their_subscripts() -> None:
    """What g++ 12 makes of a product's last chunk, whose columns are of three tensors."""
    x = torch.randn(1031, 6)
    compiled = dlc.compile(lambda x: torch.cdist(x, x), (x,), "sm_90", "host")
    exact = (x[:, None].double() - x.double()).norm(dim=-1)
    torch.testing.assert_close(compiled(x).double(), exact, rtol=1e-3, atol=1e-2)
