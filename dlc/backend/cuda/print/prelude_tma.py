"""The prelude's functions of mbarriers and of the tensor memory accelerator."""

from dlc.backend.cuda.print.prelude_function import INLINE, Function


def _mbarrier(
    name: str, summary: str, parameters: str, device: str, host: str, min_arch: int
) -> Function:
    signature = f"{INLINE} void {name}(\n    unsigned long long* barrier{parameters})"
    return Function(name, summary, signature, device, host, ("shared_address",), min_arch)


_MBARRIER_WAIT = _mbarrier(
    "mbarrier_wait",
    "Waits until the phase of this parity has ended (PTX ISA: mbarrier.try_wait).",
    ", unsigned parity",
    # the loop in one text: ptxas serializes products in flight around a loop of C
    'asm volatile("{ .reg .pred p; again: "\n'
    '             "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; "\n'
    '             "@!p bra again; }"\n'
    '             :: "r"(shared_address(barrier)), "r"(parity) : "memory");',
    "dlc_mbarrier_wait(barrier, parity);",
    90,
)
"""At the scope of a block, as arrivals of other blocks are: these have waited for what they read,
and nothing that they wrote is read. That of a cluster is a barrier of all memory in each warp and
chunk, 1000 clocks on an H200."""


def _tma_load(rank: int) -> Function:
    names = [f"c{i}" for i in range(rank)]
    slots = ", ".join(f"%{3 + i}" for i in range(rank))
    values = ", ".join(f'"r"({name})' for name in names)
    return Function(
        f"tma_load_{rank}d",
        "Requests the box at these coordinates, innermost first, from the tensor memory\n"
        "// accelerator; its bytes count on `barrier` (PTX ISA: cp.async.bulk.tensor).",
        f"{INLINE} void tma_load_{rank}d(\n"
        f"    void* shared, const tensor_map* map, unsigned long long* barrier,\n"
        f"    {', '.join(f'int {name}' for name in names)})",
        f'asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"\n'
        f'             ".mbarrier::complete_tx::bytes [%0], [%1, {{{slots}}}], [%2];"\n'
        f'             :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),\n'
        f'                {values} : "memory");',
        f"const int at[] = {{{', '.join(names)}}};\n"
        f"dlc_tma_load(shared, map, barrier, at, {rank});",
        ("shared_address", "tensor_map"),
        90,
    )


def _tma_multicast(rank: int) -> Function:
    names = [f"c{i}" for i in range(rank)]
    slots = ", ".join(f"%{4 + i}" for i in range(rank))
    values = ", ".join(f'"r"({name})' for name in names)
    return Function(
        f"tma_multicast_{rank}d",
        "The same in several blocks of the cluster, a bit of BLOCKS each, `first` the lowest: at\n"
        "// this place and on this mbarrier of each (PTX ISA: .multicast::cluster).",
        f"template <int BLOCKS>\n{INLINE} void tma_multicast_{rank}d(\n"
        f"    void* shared, const tensor_map* map, unsigned long long* barrier, int first,\n"
        f"    {', '.join(f'int {name}' for name in names)})",
        f'asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"\n'
        f'             ".mbarrier::complete_tx::bytes.multicast::cluster"\n'
        f'             " [%0], [%1, {{{slots}}}], [%2], %3;"\n'
        f'             :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),\n'
        f'                "h"((unsigned short)(BLOCKS << first)),\n'
        f'                {values} : "memory");',
        f"const int at[] = {{{', '.join(names)}}};\n"
        f"dlc_tma_multicast(shared, map, barrier, at, {rank}, BLOCKS << first);",
        ("shared_address", "tensor_map"),
        90,
        last_arch=100,
    )


def _tma_store(rank: int) -> Function:
    names = [f"c{i}" for i in range(rank)]
    slots = ", ".join(f"%{2 + i}" for i in range(rank))
    values = ", ".join(f'"r"({name})' for name in names)
    return Function(
        f"tma_store_{rank}d",
        "Requests that a box be stored at these coordinates, innermost first; it joins the\n"
        "// thread's open group (PTX ISA: cp.async.bulk.tensor).",
        f"{INLINE} void tma_store_{rank}d(\n"
        f"    const tensor_map* map, const void* shared, "
        f"{', '.join(f'int {name}' for name in names)})",
        f'asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"\n'
        f'             " [%0, {{{slots}}}], [%1];"\n'
        f'             :: "l"(map), "r"(shared_address(shared)),\n'
        f'                {values} : "memory");',
        f"const int at[] = {{{', '.join(names)}}};\ndlc_tma_store(shared, map, at, {rank});",
        ("shared_address", "tensor_map"),
        90,
    )


def _tma_wait(name: str, what: str, read: bool) -> Function:
    instruction = f"cp.async.bulk.wait_group{'.read' if read else ''}"
    return Function(
        name,
        f"Waits until all stores but the N newest groups {what}\n// (PTX ISA: {instruction}).",
        f"template <int N>\n{INLINE} void {name}()",
        f'asm volatile("{instruction} %0;" :: "n"(N) : "memory");',
        f"dlc_tma_wait(N, {'true' if read else 'false'});",
        min_arch=90,
    )


def _fence(name: str, summary: str, instruction: str) -> Function:
    device = f'asm volatile("{instruction};" ::: "memory");'
    return Function(name, summary, f"{INLINE} void {name}()", device, "// in order", min_arch=90)


MBARRIER_FUNCTIONS = [
    _mbarrier(
        "mbarrier_init",
        "Starts phase 0, which `count` arrivals end (PTX ISA: mbarrier.init).",
        ", unsigned count",
        'asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"\n'
        '             :: "r"(shared_address(barrier)), "r"(count) : "memory");',
        "dlc_mbarrier_init(barrier, count);",
        80,
    ),
    _mbarrier(
        "mbarrier_arrive",
        "One arrival (PTX ISA: mbarrier.arrive).",
        "",
        'asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }"\n'
        '             :: "r"(shared_address(barrier)) : "memory");',
        "dlc_mbarrier_arrive(barrier);",
        80,
    ),
    _mbarrier(
        "mbarrier_arrive_at",
        "One arrival at this mbarrier of a block of the cluster (PTX ISA: mapa, mbarrier.arrive).",
        ", int block",
        'asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"\n'
        '             "mbarrier.arrive.shared::cluster.b64 _, [there]; }"\n'
        '             :: "r"(shared_address(barrier)), "r"(block) : "memory");',
        "dlc_mbarrier_arrive_at(barrier, block);",
        90,
    ),
    _mbarrier(
        "mbarrier_expect_tx",
        "The phase also waits for `bytes` (PTX ISA: mbarrier.expect_tx).",
        ", unsigned bytes",
        'asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"\n'
        '             :: "r"(shared_address(barrier)), "r"(bytes) : "memory");',
        "dlc_mbarrier_expect_tx(barrier, bytes);",
        90,
    ),
    _mbarrier(
        "mbarrier_arrive_expect_tx",
        "Expects `bytes` and arrives (PTX ISA: mbarrier.arrive.expect_tx).",
        ", unsigned bytes",
        'asm volatile("{ .reg .b64 state;"\n'
        '             "mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }"\n'
        '             :: "r"(shared_address(barrier)), "r"(bytes) : "memory");',
        "dlc_mbarrier_expect_tx(barrier, bytes);\ndlc_mbarrier_arrive(barrier);",
        90,
    ),
    _MBARRIER_WAIT,
    _fence(
        "fence_mbarrier_init",
        "Shows initialized mbarriers to the asynchronous proxy (PTX ISA: fence.mbarrier_init).",
        "fence.mbarrier_init.release.cluster",
    ),
    _fence(
        "fence_proxy_async",
        "Orders ordinary shared accesses before asynchronous ones (PTX ISA: fence.proxy).",
        "fence.proxy.async.shared::cta",
    ),
]
"""mbarriers, and the fences beside them."""

TMA_FUNCTIONS = [
    Function(
        "tensor_map",
        "A tensor for the tensor memory accelerator; a kernel takes it first, by value, as\n"
        "// `const __grid_constant__ tensor_map` (CUDA driver API: CUtensorMap).",
        "struct alignas(128) tensor_map { unsigned long long words[16]; };",
        min_arch=90,
    ),
    *(_tma_load(rank) for rank in range(1, 6)),
    *(_tma_multicast(rank) for rank in range(1, 6)),
    *(_tma_store(rank) for rank in range(1, 6)),
    Function(
        "tma_commit",
        "Closes the open group of stores (PTX ISA: cp.async.bulk.commit_group).",
        f"{INLINE} void tma_commit()",
        'asm volatile("cp.async.bulk.commit_group;" ::: "memory");',
        "dlc_tma_commit();",
        min_arch=90,
    ),
    _tma_wait("tma_wait", "are written", read=False),
    _tma_wait("tma_wait_read", "have been read", read=True),
]
"""Tensor maps, loads and stores."""
