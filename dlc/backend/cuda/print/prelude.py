"""The small device functions that printed kernels call, and the only place where PTX stands.

Each function has its device body and its host body side by side; the text that
:func:`prelude_for` returns carries only the functions asked for, with what they need, and is the
same for nvcc and for the host's C++ compiler (behind ``dlc/backend/host/dlc_host.h``).

What the CUDA C++ and the host header both supply under one name is not here: ``expf``, ``rsqrtf``,
``erff``, ``fmaxf``, ``min``, ``max``, ``__syncthreads``, ``__syncwarp``, ``float4``, ….
"""

from collections.abc import Iterable

from dlc.backend.cuda.print.prelude_float8 import FLOAT8_FUNCTIONS
from dlc.backend.cuda.print.prelude_function import INLINE, Function
from dlc.backend.cuda.print.prelude_mma import MMA_FUNCTIONS
from dlc.backend.cuda.print.prelude_scalars import SCALAR_FUNCTIONS
from dlc.backend.cuda.print.prelude_series import SERIES_FUNCTIONS
from dlc.backend.cuda.print.prelude_tma import MBARRIER_FUNCTIONS, TMA_FUNCTIONS
from dlc.backend.cuda.print.prelude_wgmma import WGMMA_FUNCTIONS
from dlc.target import LINE_BYTES


def _vector_access(width: int) -> list[Function]:
    types = [("float", f"float{width}"), ("int", f"int{width}")]
    if width == 2:
        types.append(("long long", "longlong2"))
    summary = f"One access of {width} contiguous elements, at a multiple of their size."
    loads = [
        f"{INLINE} {vector} load{width}(const {scalar}* address) {{\n"
        f"  return as_vector<const {vector}>(address);\n}}"
        for scalar, vector in types
    ]
    stores = [
        f"{INLINE} void store{width}({scalar}* address, {vector} value) {{\n"
        f"  as_vector<{vector}>(address) = value;\n}}"
        for scalar, vector in types
    ]
    return [
        Function(f"load{width}", summary, "\n".join(loads), needs=("as_vector",)),
        Function(f"store{width}", summary, "\n".join(stores), needs=("as_vector",)),
    ]


def _shuffle(kind: str, intrinsic: str, argument: str, what: str) -> Function:
    return Function(
        f"shuffle_{kind}",
        f"The value of {what}, in segments of `width` lanes (PTX ISA: shfl.sync).",
        f"template <class T>\n{INLINE} T shuffle_{kind}(T value, int {argument}, int width)",
        f"return {intrinsic}(0xffffffffu, value, {argument}, width);",
        f"return dlc::shuffle(dlc::Meeting::shuffle_{kind}, value, {argument}, width);",
    )


def _cluster_barrier(name: str, what: str, order: str) -> Function:
    return Function(
        name,
        f"The threads of the blocks of a cluster {what} (PTX ISA: barrier.cluster).",
        f"{INLINE} void {name}()",
        f'asm volatile("barrier.cluster.arrive.{order}.aligned;\\n"\n'
        '             "barrier.cluster.wait.acquire.aligned;" ::: "memory");',
        "dlc_cluster_barrier();",
        min_arch=90,
    )


def _cp_async(size: int) -> Function:
    cache = "cg" if size == 16 else "ca"  # .cg, which bypasses L1, exists for 16 bytes only
    return Function(
        f"cp_async_{size}",
        f"Requests {size} bytes, zeros where `pred` is false (PTX ISA: cp.async).",
        f"{INLINE} void cp_async_{size}(void* shared, const void* global, bool pred)",
        f'asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"\n'
        f'             :: "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)),\n'
        f'                "r"(pred ? {size} : 0) : "memory");',
        f"dlc_cp_async(shared, global, {size}, pred);",
        ("shared_address",),
        80,
    )


def _last_block(meet: str, meet_or: str) -> str:
    """The last of some blocks, with how its threads meet, and how they learn what one knows."""
    return f"""\
{meet}
int last = 0;
if (threadIdx.x == 0) {{
  __threadfence();
  const int before = atomicInc(reinterpret_cast<unsigned*>(count), blocks - 1);
  last = before == blocks - 1;
  __threadfence();
}}
{meet_or}"""


def _last_block_on_host(meet: str) -> str:
    return f"""\
__shared__ bool last;
{meet}
if (threadIdx.x == 0) last = dlc::count_block(count, blocks);
{meet}
return last;"""


_ANY_AMONG = """\
int any;
asm volatile("{ .reg .pred mine, all; setp.ne.s32 mine, %1, 0;"
             "bar.red.or.pred all, 1, %2, mine; selp.s32 %0, 1, 0, all; }"
             : "=r"(any) : "r"(last), "n"(N) : "memory");
return any;"""


def _rounding(name: str, type: str, plain: str, header: str) -> Function:
    """
    From sm_90 on nvcc 13 rounds an element by a unit for special functions (SASS: F2F), and a pair
    by one that does four times as many in a clock (F2FP); before, it has the latter for both.
    """
    by_header = f"return {plain}(x);"
    return Function(
        f"to_{name}",
        "The nearest of this type, of two even (PTX ISA: cvt.rn).",
        f"{INLINE} {type} to_{name}(float x)",
        "unsigned pair;\n"
        f'asm("cvt.rn.{name}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(x));\n'
        "const unsigned short bits = static_cast<unsigned short>(pair);\n"
        f"{type} rounded;\nmemcpy(&rounded, &bits, 2);\nreturn rounded;",
        by_header,
        needs=(header,),
        min_arch=90,
        older=by_header,
    )


def _rounding_two(name: str, type: str) -> Function:
    """Rounds two elements in one instruction, which has both in one register."""
    by_one = f"return {{{{to_{name}(x.x), to_{name}(x.y)}}}};"
    return Function(
        f"to_{name}x2",
        "Two of them, the first in the lower half (PTX ISA: cvt.rn).",
        f"{INLINE} packed<{type}, 2> to_{name}x2(float2 x)",
        "unsigned pair;\n"
        f'asm("cvt.rn.{name}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x.y), "f"(x.x));\n'
        f"packed<{type}, 2> rounded;\nmemcpy(&rounded, &pair, 4);\nreturn rounded;",
        by_one,
        needs=("packed", f"to_{name}"),
        min_arch=80,
        older=by_one,
    )


def _header(name: str, what: str) -> Function:
    text = f"#ifdef __CUDACC__\n#include <{name}.h>\n#endif"
    return Function(name, f"{what}; the host's header has them, too.", text)


_FUNCTIONS = [
    Function(
        "bit_cast",
        "The bits of a value as another type of the same size.",
        f"template <class T, class V>\n{INLINE} T bit_cast(V value)",
        "static_assert(sizeof(T) == sizeof(V));\nT result;\n"
        "memcpy(&result, &value, sizeof(T));\nreturn result;",
    ),
    *FLOAT8_FUNCTIONS,
    _header("cuda_fp16", "__half and its conversions"),
    _header("cuda_bf16", "__nv_bfloat16 and its conversions"),
    _rounding("f16", "__half", "__float2half_rn", "cuda_fp16"),
    _rounding("bf16", "__nv_bfloat16", "__float2bfloat16_rn", "cuda_bf16"),
    Function(
        "shared_address",
        "The address in the shared window, as PTX wants it.",
        f"{INLINE} unsigned shared_address(const void* pointer)",
        "return static_cast<unsigned>(__cvta_generic_to_shared(pointer));",
        device_only=True,
    ),
    Function(
        "dynamic_shared",
        "The block's dynamic shared memory, 1024-byte aligned.",
        f"{INLINE} char* dynamic_shared()",
        "extern __shared__ __align__(1024) char dynamic_shared_memory[];\n"
        "return dynamic_shared_memory;",
        "return dlc_position.dynamic_shared;",
    ),
    Function(
        "as_vector",
        "The vector at this address, which must be a multiple of its size; the host checks that.",
        f"template <class V, class T>\n{INLINE} V& as_vector(T* address)",
        "return *reinterpret_cast<V*>(address);",
        "dlc::check_aligned(address, sizeof(V));\nreturn *reinterpret_cast<V*>(address);",
    ),
    *_vector_access(2),
    *_vector_access(4),
    Function(
        "packed",
        "N elements of which CUDA has no vector.",
        "template <class T, int N>\nstruct alignas(N * sizeof(T)) packed { T lane[N]; };",
    ),
    Function(
        "load_packed",
        "One access of N contiguous elements, at a multiple of their size.",
        f"template <int N, class T>\n{INLINE} packed<T, N> load_packed(const T* address)",
        "return as_vector<const packed<T, N>>(address);",
        needs=("as_vector", "packed"),
    ),
    Function(
        "store_packed",
        "One access of N contiguous elements, at a multiple of their size.",
        f"template <int N, class T>\n{INLINE} void store_packed(T* address, packed<T, N> value)",
        "as_vector<packed<T, N>>(address) = value;",
        needs=("as_vector", "packed"),
    ),
    Function(
        "fill_packed",
        "N times the same element.",
        f"template <int N, class T>\n{INLINE} packed<T, N> fill_packed(T element)",
        "packed<T, N> all;\nfor (T& lane : all.lane) lane = element;\nreturn all;",
        needs=("packed",),
    ),
    _rounding_two("f16", "__half"),
    _rounding_two("bf16", "__nv_bfloat16"),
    _shuffle("xor", "__shfl_xor_sync", "lane_mask", "lane ^ lane_mask"),
    _shuffle("down", "__shfl_down_sync", "delta", "lane + delta"),
    _shuffle("idx", "__shfl_sync", "lane", "lane `lane`"),
    Function(
        "shuffle_xor_among",
        "The value of lane ^ lane_mask among the lanes of `named` (PTX ISA: shfl.sync).",
        f"template <class T>\n{INLINE} T shuffle_xor_among(\n"
        "    T value, int lane_mask, int width, unsigned named)",
        "return __shfl_xor_sync(named, value, lane_mask, width);",
        "return dlc::shuffle(dlc::Meeting::shuffle_xor, value, lane_mask, width, named);",
    ),
    Function(
        "lanes_below",
        "The lanes of this warp that are threads below `threads` of the block.",
        f"{INLINE} unsigned lanes_below(int threads)",
        "const int lanes = threads - int(threadIdx.x & ~31u);\n"
        "return lanes < 32 ? (1u << max(lanes, 0)) - 1u : 0xffffffffu;",
    ),
    Function(
        "barrier_among",
        "The first N threads of the block meet (PTX ISA: bar.sync).",
        f"template <int N>\n{INLINE} void barrier_among()",
        'asm volatile("bar.sync 1, %0;" :: "n"(N) : "memory");',
        "dlc_barrier_among(__LINE__, N);",
    ),
    *(_cp_async(size) for size in (4, 8, 16)),
    Function(
        "cp_async_commit",
        "Closes the group of this thread's requests (PTX ISA: cp.async.commit_group).",
        f"{INLINE} void cp_async_commit()",
        'asm volatile("cp.async.commit_group;" ::: "memory");',
        "dlc_cp_async_commit();",
        min_arch=80,
    ),
    Function(
        "cp_async_wait",
        "Waits for all but this thread's N newest groups (PTX ISA: cp.async.wait_group).",
        f"template <int N>\n{INLINE} void cp_async_wait()",
        'asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");',
        "dlc_cp_async_wait(N);",
        min_arch=80,
    ),
    *MBARRIER_FUNCTIONS,
    Function(
        "grid_wait",
        "Waits until the launches before have ended, and sees what they stored "
        "(PTX ISA: griddepcontrol).",
        f"{INLINE} void grid_wait()",
        'asm volatile("griddepcontrol.wait;" ::: "memory");',
        "// they have",
        min_arch=90,
    ),
    Function(
        "grid_release",
        "Lets the next launch begin (PTX ISA: griddepcontrol).",
        f"{INLINE} void grid_release()",
        'asm volatile("griddepcontrol.launch_dependents;" ::: "memory");',
        "// when this one has ended",
        min_arch=90,
    ),
    Function(
        "prefetch_share",
        "Asks for the first AHEAD bytes of this block's share of so many into the L2 cache\n"
        "// (PTX ISA: prefetch).",
        "template <long long BYTES, int BLOCKS, int AHEAD>\n"
        f"{INLINE} void prefetch_share(const void* begin)",
        f"constexpr long long lines = (BYTES + {LINE_BYTES - 1}) / {LINE_BYTES};\n"
        "constexpr long long share = (lines + BLOCKS - 1) / BLOCKS;\n"
        f"constexpr long long asked = AHEAD / {LINE_BYTES};\n"
        "const long long first = blockIdx.x * share;\n"
        "const long long end = min(first + (asked < share ? asked : share), lines);\n"
        "for (long long line = first + threadIdx.x; line < end; line += blockDim.x) {\n"
        f"  const char* address = static_cast<const char*>(begin) + line * {LINE_BYTES};\n"
        '  asm volatile("prefetch.global.L2 [%0];"\n'
        '               :: "l"(__cvta_generic_to_global(address)) : "memory");\n'
        "}",
        "(void)begin;  // nothing is computed",
    ),
    *TMA_FUNCTIONS,
    *MMA_FUNCTIONS,
    *WGMMA_FUNCTIONS,
    Function(
        "atomic_add",
        "Adds in memory, whole or not at all; gives the value before.",
        f"template <class T>\n{INLINE} T atomic_add(T* address, T value)",
        "if constexpr (sizeof(T) == 8 && T(0.5) == T(0)) {  // unsigned ones wrap alike\n"
        "  using Word = unsigned long long;\n"
        "  return T(atomicAdd(reinterpret_cast<Word*>(address), Word(value)));\n"
        "} else {\n"
        "  return atomicAdd(address, value);\n"
        "}",
        "return dlc::atomic_add(address, value);",
    ),
    Function(
        "last_block",
        "True in the last of so many blocks that come here: it sees what the others wrote before.\n"
        "// The count is 0 again then (PTX ISA: memory consistency model, causality order).",
        f"{INLINE} bool last_block(int* count, int blocks)",
        _last_block("__syncthreads();", "return __syncthreads_or(last);"),
        _last_block_on_host("__syncthreads();"),
    ),
    Function(
        "last_block_among",
        "The same of which the first N threads meet (PTX ISA: bar.red).",
        f"template <int N>\n{INLINE} bool last_block_among(int* count, int blocks)",
        _last_block("barrier_among<N>();", _ANY_AMONG),
        _last_block_on_host("barrier_among<N>();"),
        needs=("barrier_among",),
    ),
    _cluster_barrier("cluster_barrier", "meet", "release"),
    _cluster_barrier("cluster_barrier_relaxed", "meet, and wait for no writes", "relaxed"),
    Function(
        "cluster_shared",
        "Shared memory of a block of the cluster, where this one has its own (PTX ISA: mapa).",
        f"template <class T>\n{INLINE} const T* cluster_shared(const T* own, int block)",
        "const T* there;\n"
        'asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(block));\n'
        "return there;",
        "return static_cast<const T*>(dlc_cluster_shared(own, block));",
        min_arch=90,
    ),
    *SCALAR_FUNCTIONS,
    *SERIES_FUNCTIONS,
]

PRELUDE: dict[str, Function] = {function.name: function for function in _FUNCTIONS}
"""Every function by name, each after those that it needs."""


NEWEST = max(function.min_arch for function in _FUNCTIONS)
"""From which on there is every function."""


def prelude_for(names: Iterable[str], arch: int = NEWEST) -> str:
    """
    The text of the named functions and of what they need, for a compute capability, in the table's
    order, one blank line after each; empty for no names. `KeyError` if a name is not in the table.
    """
    wanted: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in PRELUDE:
            raise KeyError(f"the prelude has no function {name!r}; it has {', '.join(PRELUDE)}")
        if name not in wanted:
            wanted.add(name)
            todo.extend(PRELUDE[name].needs)
    return "".join(f"{function.text(arch)}\n" for function in _FUNCTIONS if function.name in wanted)
