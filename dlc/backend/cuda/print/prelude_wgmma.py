"""
The prelude's functions of warpgroups: matrix descriptors, wgmma, what orders it, and how registers
are shared out. What the host
does of a product is told there by the descriptors' bits, and for each sum of a thread by the
layouts of `dlc.dialects.mma_layouts`.
"""

from collections.abc import Iterator

from dlc.backend.cuda.print.prelude_function import INLINE, Function
from dlc.backend.cuda.print.prelude_mma import (
    host_factors,
    layout_function,
    needs_of,
    operands,
    sum_types,
)
from dlc.dialects.mma_layouts import HELD_FACTOR, HOLDING, WARPGROUP_SHAPES, MmaAttr
from dlc.ir.elements import element

_MODE = "swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0"

# The address and what lies beyond it are multiples of 16 bytes: of several matrices that begin at
# one address, a compiler finds what they share once.
_DESCRIPTOR = Function(
    "matrix_descriptor",
    "Where and how a matrix lies in shared memory (PTX ISA: Matrix Descriptor Format).",
    "template <int leading, int stride, int swizzle, class T>\n"
    f"{INLINE} long long matrix_descriptor(const T* start, int beyond = 0)",
    f"constexpr long long mode = {_MODE};\n"
    "constexpr long long fields = leading / 16ll << 16 | stride / 16ll << 32 | mode << 62;\n"
    "const unsigned first = (shared_address(start) & 0x3ffff) >> 4 | unsigned(fields);\n"
    "return (fields & ~0xffffffffll) | (first + unsigned(beyond * int(sizeof(T)) / 16));",
    "dlc::check_aligned(start, 16);\n"
    "dlc::check_aligned(start + beyond, 16);\n"
    f"constexpr long long mode = {_MODE};\n"
    "constexpr long long fields = leading / 16ll << 16 | stride / 16ll << 32 | mode << 62;\n"
    "return dlc::matrix_address(start + beyond) | fields;",
    ("shared_address",),
    90,
    last_arch=90,
)
_PIN = Function(
    "hold",
    "Sums are in their registers here: compilers do not know what wgmma does to them meanwhile.",
    f"template <int n, class S>\n{INLINE} void hold(S* sums)",
    "#pragma unroll\n"
    "for (int i = 0; i < n; ++i) {\n"
    "  constexpr bool real = S(0.5f) != S(0);\n"
    '  if constexpr (real) asm volatile("" : "+f"(sums[i]) :: "memory");\n'
    '  else asm volatile("" : "+r"(sums[i]) :: "memory");\n'
    "}",
    "(void)sums;",
    (),
    90,
    last_arch=90,
)
_PIN_FACTOR = Function(
    "hold_factor",
    "Factors in registers, two elements in each, are there here, as sums by `hold`.",
    f"template <int n, class T>\n{INLINE} void hold_factor(T* factor)",
    "#pragma unroll\n"
    "for (int i = 0; i < n; i += 2) {\n"
    "  unsigned word;\n"
    "  memcpy(&word, &factor[i], 4);\n"
    '  asm volatile("" : "+r"(word) :: "memory");\n'
    "  memcpy(&factor[i], &word, 4);\n"
    "}",
    "(void)factor;",
    (),
    90,
    last_arch=90,
)
_FENCE = Function(
    "wgmma_fence",
    "Orders what was done to sums before products that are requested next (PTX ISA: wgmma.fence).",
    f"{INLINE} void wgmma_fence()",
    'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
    "dlc_wgmma_fence();",
    (),
    90,
    last_arch=90,
)
_COMMIT = Function(
    "wgmma_commit",
    "Closes the open group of products (PTX ISA: wgmma.commit_group).",
    f"{INLINE} void wgmma_commit()",
    'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
    "dlc_wgmma_commit();",
    (),
    90,
    last_arch=90,
)
_WAIT = Function(
    "wgmma_wait",
    "Waits until at most `newest` groups are unfinished (PTX ISA: wgmma.wait_group).",
    f"template <int newest>\n{INLINE} void wgmma_wait()",
    'asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(newest) : "memory");',
    "dlc_wgmma_wait(newest);",
    (),
    90,
    last_arch=90,
)
# A loop that is left at once: ptxas 13.0 takes what reads sums in the block of the last wait for a
# read of what is in flight, and has all products of the kernel wait (C7514).
_FINISH = Function(
    "wgmma_finish",
    "Waits for all groups, of which a loop has left some unfinished (PTX ISA: wgmma.wait_group).",
    f"{INLINE} void wgmma_finish()",
    'asm volatile("{ .reg .pred never; setp.eq.u32 never, %0, -1; "\n'
    '             "again: wgmma.wait_group.sync.aligned 0; @never bra again; }"\n'
    '             :: "r"(threadIdx.x) : "memory");',
    "dlc_wgmma_wait(0);",
    (),
    90,
    last_arch=90,
)

_SET_REGISTERS = Function(
    "set_max_registers",
    "Each thread of a warpgroup has `after` registers: it gives the others up, or waits for more\n"
    "// (PTX ISA: setmaxnreg).",
    f"template <int before, int after>\n{INLINE} void set_max_registers()",
    "if constexpr (after < before)\n"
    '  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(after) : "memory");\n'
    "else\n"
    '  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(after) : "memory");',
    "dlc_set_max_registers(before, after);",
    (),
    90,
)


def wgmma_name(shape: MmaAttr, *, held: bool = False) -> str:
    """The name of the function of a product, of an A that lies in registers if it is held."""
    kind = "wgmma_held" if held else "wgmma"
    sums = element(shape.multiplied.sums[0]).name
    return f"{kind}_{shape.shape.data}_{sums}_{shape.factors.data}"


def _wgmma_held(shape: MmaAttr) -> Function:
    factors, sizes, type = ".".join(shape.names), shape.sizes, element(shape.elements[0]).c
    count, words = sizes.c.width, HELD_FACTOR.width // 2
    registers = _wrapped([f"%{n}" for n in range(count)])
    a = ", ".join(f"%{count + n}" for n in range(words))
    b, p, turned = (f"%{count + words + n}" for n in range(3))
    device = (
        f"unsigned word[{words}];\n"
        "memcpy(word, a, sizeof word);\n"
        'asm volatile("{ .reg .pred p;"\n'
        f'             "setp.ne.b32 p, {p}, 0;"\n'
        f'             "wgmma.mma_async.sync.aligned.{shape.shape.data}.f32.{factors}"\n'
        f'             " {{{registers}}},"\n'
        f'             " {{{a}}}, {b}, p, 1, 1, {turned}; }}"\n'
        f"             : {operands('+f', 'sums', count)}\n"
        f"             : {operands('r', 'word', words)},\n"
        '               "l"(b), "n"(1), "n"(int(n_major)) : "memory");'
    )
    host = (
        f"const dlc::Layout at = {layout_function(sizes.c)};\n"
        f"const dlc::Layout at_a = {layout_function(HELD_FACTOR)};\n"
        f"dlc::wgmma_held<{type}, {sizes.n}, n_major>(sums, a, b, at, at_a);"
    )
    return Function(
        wgmma_name(shape, held=True),
        f"As wgmma, of {sizes.n} columns and an A that a warpgroup holds together, 16 rows a warp\n"
        "// (PTX ISA: wgmma.mma_async).",
        f"template <bool n_major>\n"
        f"{INLINE} void {wgmma_name(shape, held=True)}(\n"
        f"    float* sums, const {type}* a, long long b)",
        device,
        host,
        needs_of(shape),
        90,
        last_arch=90,
    )


def _wgmma(shape: MmaAttr) -> Function:
    factors, sizes = ".".join(shape.names), shape.sizes
    count = sizes.c.width
    registers = _wrapped([f"%{n}" for n in range(count)])
    a, b, p = (f"%{count + n}" for n in range(3))
    across = shape.reads_across  # of others, rows lie along K, and nothing says so
    turned = f", %{count + 3}, %{count + 4}" if across else ""
    majors = ', "n"(int(m_major)), "n"(int(n_major))' if across else ""
    of_sums, letter, type = sum_types(element(shape.multiplied.sums[0]))
    sums = operands(f"+{letter}", "sums", count)
    scales = ", 1, 1" if type == "float" else ""  # of integers, none
    device = (
        'asm volatile("{ .reg .pred p;"\n'
        f'             "setp.ne.b32 p, {p}, 0;"\n'
        f'             "wgmma.mma_async.sync.aligned.{shape.shape.data}"\n'
        f'             ".{of_sums}.{factors}"\n'
        f'             " {{{registers}}},"\n'
        f'             " {a}, {b}, p{scales}{turned}; }}"\n'
        f"             : {sums}\n"
        f'             : "l"(a), "l"(b), "n"(1){majors} : "memory");'
    )
    host = (
        f"{host_factors(shape)}const dlc::Layout at = {layout_function(sizes.c)};\n"
        f"dlc::wgmma<A, B, {sizes.n}, {sizes.k}, m_major, n_major>(sums, a, b, at);"
    )
    return Function(
        wgmma_name(shape),
        f"Requests that {sizes.n} columns of A B be added to sums that a warpgroup holds together\n"
        "// (PTX ISA: wgmma.mma_async).",
        f"template <bool m_major, bool n_major>\n"
        f"{INLINE} void {wgmma_name(shape)}(\n    {type}* sums, long long a, long long b)",
        device,
        host,
        needs_of(shape),
        90,
        last_arch=90,
    )


def _wrapped(names: list[str]) -> str:
    """Names of registers in a C string, 12 to a line."""
    lines = [", ".join(names[n : n + 12]) for n in range(0, len(names), 12)]
    return ',"\n             " '.join(lines)


def _functions() -> Iterator[Function]:
    yield from (_DESCRIPTOR, _PIN, _PIN_FACTOR, _FENCE, _COMMIT, _WAIT, _FINISH, _SET_REGISTERS)
    for names in WARPGROUP_SHAPES:
        yield _wgmma(MmaAttr(*names))
        if names[0] in HOLDING:
            yield _wgmma_held(MmaAttr(*names))


WGMMA_FUNCTIONS = tuple(_functions())
