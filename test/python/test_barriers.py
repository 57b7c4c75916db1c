"""Barrier placement and redundancy, against all traces of small random programs."""

import random
from collections.abc import Iterator

import pytest
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from dlc.analysis.kernel import conflicts as analysis
from dlc.analysis.kernel.barriers import missing_barriers
from dlc.analysis.kernel.slots import Slots, trip_count
from dlc.dialects import kernel
from dlc.dialects.kernel_memory import is_shared
from dlc.registry import register
from dlc.transforms.kernel.place_barriers import place_barriers

HEAD = """
kernel.func @k(%x: memref<4096xf32>, %n: memref<1xi64>) -> (%y: memref<4096xf32>) grid 8 block 128 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %b = kernel.block_id
  %t = kernel.thread_id
  %A = kernel.alloc_shared : memref<128xf32, #kernel.shared>
  %B = kernel.alloc_shared : memref<128xf32, #kernel.shared>
  %v = kernel.load %x[%t] : memref<4096xf32>
"""
WRITE_A = "kernel.store %v, %A[%t floordiv 2] : memref<128xf32, #kernel.shared>"
WRITE_B = "kernel.store %v, %B[%t floordiv 2] : memref<128xf32, #kernel.shared>"
READ_A = "%a = kernel.load %A[0] : memref<128xf32, #kernel.shared>"
READ_B = "%q = kernel.load %B[0] : memref<128xf32, #kernel.shared>"


def func_of(body: str) -> kernel.FuncOp:
    module = Parser(register(Context()), HEAD + body + "\n}").parse_module()
    assert isinstance(module, ModuleOp)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, kernel.FuncOp))


def redundant_barriers(func: kernel.FuncOp) -> list[kernel.BarrierOp]:
    """
    Barriers without all of which every two accesses that were separated still are, chosen in
    program order. Runs of the same operation count as accesses of different threads here.
    """
    barriers = [op for op in func.walk() if isinstance(op, kernel.BarrierOp)]
    redundant: list[kernel.BarrierOp] = []
    if not barriers:
        return redundant
    slots = Slots(func)
    before = set(analysis.conflicts(func, slots))
    for barrier in barriers:
        ignored = frozenset([*redundant, barrier])
        if set(analysis.conflicts(func, slots, ignored)) <= before:
            redundant.append(barrier)
    return redundant


def outline(block: Block) -> list[object]:
    """The accesses and barriers of a block, loops and ifs as nested lists."""
    found: list[object] = []
    for op in block.ops:
        match op:
            case kernel.BarrierOp():
                found.append("|")
            case kernel.LoadOp() if is_shared(op.ref):
                found.append(f"R{op.ref.name_hint}")
            case kernel.StoreOp() if is_shared(op.ref):
                found.append(f"W{op.ref.name_hint}")
            case kernel.CpAsyncOp():
                found.append(f"copy{op.target.name_hint}")
            case kernel.WaitOp():
                found.append("wait")
            case scf.ForOp() | scf.IfOp():
                found.append([outline(region.block) for region in op.regions if region.blocks])
            case _:
                pass
    return found


def placed(body: str) -> list[object]:
    func = func_of(body)
    count = place_barriers(func, Slots(func))
    assert count == sum(isinstance(op, kernel.BarrierOp) for op in func.walk())
    func.verify()
    assert not missing_barriers(func)
    return outline(func.body.block)


def test_write_then_read() -> None:
    assert placed(f"{WRITE_A}\n{READ_A}") == ["WA", "|", "RA"]


def test_reads_and_separate_buffers_need_none() -> None:
    assert placed(f"{READ_A}\n{READ_A.replace('%a ', '%a2 ')}\n{WRITE_B}") == ["RA", "RA", "WB"]


def test_a_thread_meets_its_own() -> None:
    """Threads' numbers say which elements are whose, in whatever order they lie."""
    own = "%A[127 - %t] : memref<128xf32, #kernel.shared>"
    load, store = f"%a = kernel.load {own}", f"kernel.store %v, {own}"
    assert placed(f"{store}\n{load}\n{store}") == ["WA", "RA", "WA"]
    other = load.replace("127 - %t", "%t")
    assert placed(f"{store}\n{other}") == ["WA", "|", "RA"]


def test_read_then_write_and_write_then_write() -> None:
    assert placed(f"{READ_A}\n{WRITE_A}\n{WRITE_A}") == ["RA", "|", "WA", "|", "WA"]


def test_gemm_has_two_barriers_in_an_iteration() -> None:
    found = placed(
        f"""scf.for %k = %c0 to %c4 step %c1 {{
          scf.for %i = %c0 to %c4 step %c1 {{ {WRITE_A} }}
          {WRITE_B}
          scf.for %i = %c0 to %c4 step %c1 {{
            {READ_A}
            scf.for %j = %c0 to %c4 step %c1 {{ {READ_B} }}
          }}
        }}"""
    )
    assert found == [[["|", [["WA"]], "WB", "|", [["RA", [["RB"]]]]]]]


def test_a_loop_that_runs_once_is_not_repeated() -> None:
    found = placed(f"scf.for %k = %c0 to %c1 step %c1 {{ {WRITE_A}\n{READ_A} }}")
    assert found == [[["WA", "|", "RA"]]]


def test_a_reduction_in_a_loop() -> None:
    body = f"{WRITE_A}\n{READ_A}\n{WRITE_B}\n{READ_B}"
    found = placed(f"scf.for %k = %c0 to %c4 step %c1 {{ {body} }}")
    assert found == [[["WA", "|", "RA", "WB", "|", "RB"]]]


def test_a_barrier_stands_outside_of_what_only_some_threads_do() -> None:
    found = placed(
        f"""%p = kernel.test where (%t < 5)
        {WRITE_A}
        scf.if %p {{ {READ_A} }}
        scf.if %p {{
          scf.for %i = %c0 to %t step %c1 {{ {WRITE_A} }}
        }}"""
    )
    assert found == ["WA", "|", [["RA"]], "|", [[[["WA"]]]]]


def test_a_barrier_stands_inside_of_what_all_threads_do() -> None:
    found = placed(
        f"""%m = kernel.load %n[0] : memref<1xi64>
        %i = arith.index_cast %m : i64 to index
        %p = kernel.test where (%b + %i < 5)
        scf.if %p {{ {WRITE_A}\n{READ_A} }} else {{ {READ_A.replace("%a ", "%a2 ")} }}"""
    )
    assert found == [[["WA", "|", "RA"], ["RA"]]]


def test_no_place_is_an_error() -> None:
    func = func_of(f"%p = kernel.test where (%t < 5)\nscf.if %p {{ {WRITE_A}\n{READ_A} }}")
    with pytest.raises(DiagnosticException, match="depends on the thread"):
        place_barriers(func, Slots(func))


def test_asynchronous_copies_write_until_their_wait() -> None:
    copy = (
        "kernel.cp_async %x[%t], %A[%t] elements 1 : memref<4096xf32>, "
        "memref<128xf32, #kernel.shared>\nkernel.commit"
    )
    loop = f"scf.for %k = %c0 to %c4 step %c1 {{ {copy}\nkernel.wait 0\n{READ_A} }}"
    assert placed(loop) == [[["|", "copyA", "wait", "|", "RA"]]]
    assert placed(f"{copy}\nkernel.wait 0\n{READ_A}") == ["copyA", "wait", "|", "RA"]
    # A barrier before the wait does not make the copy visible.
    func = func_of(f"{copy}\nkernel.barrier\nkernel.wait 0\n{READ_A}")
    assert [str(c) for c in missing_barriers(func)] == [
        "'kernel.cp_async' writes A before 'kernel.load' reads it"
    ]
    # Nothing is in flight after a wait for all.
    twice = f"{copy}\nkernel.wait 0\nkernel.barrier\nkernel.wait 0\n{READ_A}"
    assert not missing_barriers(func_of(twice))


def test_atomics_do_not_conflict_with_each_other() -> None:
    add = "kernel.atomic_add %v, %A[0] : memref<128xf32, #kernel.shared>"
    assert not missing_barriers(func_of(f"{add}\n{add}"))
    assert missing_barriers(func_of(f"{add}\n{READ_A}"))


def test_redundant_barriers() -> None:
    func = func_of(
        f"kernel.barrier\n{WRITE_A}\nkernel.barrier\nkernel.barrier\n{READ_A}\nkernel.barrier"
    )
    redundant = redundant_barriers(func)
    assert len(redundant) == 3
    for barrier in redundant:
        barrier.detach()
    assert outline(func.body.block) == ["WA", "|", "RA"]


RING = "memref<2x128xf32, #kernel.shared>"
TURN = f"""
  %slot = kernel.index %k mod 2
  kernel.wait 0
  kernel.barrier
  kernel.cp_async %x[%t], %R[(%k + 1) mod 2, %t] elements 1 : memref<4096xf32>, {RING}
  kernel.commit
  kernel.store %v, %A[%t] : memref<128xf32, #kernel.shared>
  kernel.barrier
  scf.for %i = %c0 to %c2 step %c1 {{
    %a = kernel.load %A[%i] : memref<128xf32, #kernel.shared>
    %r = kernel.load %R[%slot, 127 - %t] : {RING}
  }}"""


def test_a_loop_within_a_ring_does_not_hide_its_slots() -> None:
    """Nor does a copy, between its request and its end, conflict with itself."""
    func = func_of(
        f"%R = kernel.alloc_shared : {RING}"
        f"\nkernel.cp_async %x[%t], %R[0, %t] elements 1 : memref<4096xf32>, {RING}"
        f"\nkernel.commit\nscf.for %k = %c0 to %c4 step %c1 {{\nkernel.barrier\n{TURN} }}"
    )
    first, *others = redundant_barriers(func)
    assert not others
    assert first.next_op is not None
    assert first.next_op.name == "kernel.index", "the barrier before the wait"


@pytest.mark.parametrize(
    ("index", "rest", "needed"),
    [
        ("%t * 4 + %i", "%t * 4 + 3 - %i", False),
        ("%k * 512 + %t * 4", "%t * 4 + %i", False),
        ("%k * 256 + %t * 4", "%t * 4 + %i", True),
        ("%t * 4 + %i", "%t * 4 + %i + 1", True),
        ("%t * 4 + %i", "%t * 2 + %i", True),
        ("%t * 4 + %i", "(127 - %t) * 4 + %i", True),
    ],
)
def test_what_threads_have_for_themselves(index: str, rest: str, needed: bool) -> None:
    """Elements that are dealt to the threads alike when they are written and when they are read."""
    memref = "memref<2048xf32, #kernel.shared>"
    func = func_of(f"""
      %s = kernel.alloc_shared : {memref}
      scf.for %k = %c0 to %c2 step %c1 {{
        scf.for %i = %c0 to %c4 step %c1 {{
          kernel.store %v, %s[{index}] : {memref}
        }}
        scf.for %i = %c0 to %c4 step %c1 {{
          %r = kernel.load %s[{rest}] : {memref}
        }}
      }}""")
    assert bool(missing_barriers(func)) == needed


def test_a_barrier_between_runs_of_one_operation_is_kept() -> None:
    """Different threads may write the same element in different iterations."""
    func = func_of(f"scf.for %k = %c0 to %c4 step %c1 {{ {WRITE_A}\nkernel.barrier }}")
    assert redundant_barriers(func) == []


# Random programs.


def random_body(rng: random.Random, depth: int, *, barriers: bool) -> str:
    lines: list[str] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        number = rng.randint(0, 10**9)
        if depth and kind < 0.3:
            bound = rng.choice(["%c1", "%c2", "%c4", "%b"])
            inner = random_body(rng, depth - 1, barriers=barriers)
            lines.append(f"scf.for %k{number} = %c0 to {bound} step %c1 {{\n{inner}\n}}")
        elif depth and kind < 0.45:
            inner = random_body(rng, depth - 1, barriers=barriers)
            other = random_body(rng, depth - 1, barriers=barriers)
            lines.append(f"%p{number} = kernel.test where (%b < {rng.randint(1, 7)})")
            tail = f" else {{\n{other}\n}}" if rng.random() < 0.5 else ""
            lines.append(f"scf.if %p{number} {{\n{inner}\n}}{tail}")
        elif barriers and kind < 0.6:
            lines.append("kernel.barrier")
        else:
            text = rng.choice([WRITE_A, WRITE_B, READ_A, READ_B])
            lines.append(text.replace("%a ", f"%a{number} ").replace("%q ", f"%q{number} "))
    return "\n".join(lines)


def traces(block: Block, limit: int = 3) -> Iterator[list[Operation]]:
    """All sequences of operations that a block can execute, loops up to `limit` times."""
    results: list[list[Operation]] = [[]]
    for op in block.ops:
        match op:
            case scf.ForOp():
                trips = trip_count(op)
                counts = range(limit + 1) if trips is None else [min(trips, limit)]
                bodies = list(traces(op.body.block, limit))
                options: list[list[Operation]] = []
                for count in counts:
                    runs: list[list[Operation]] = [[]]
                    for _ in range(count):
                        runs = [run + body for run in runs for body in bodies]
                    options += runs
            case scf.IfOp():
                options = list(traces(op.true_region.block, limit))
                if op.false_region.blocks:
                    options += list(traces(op.false_region.block, limit))
                else:
                    options.append([])
            case kernel.LoadOp() | kernel.StoreOp() | kernel.BarrierOp():
                options = [[op]]
            case _:
                continue
        results = [r + o for r in results for o in options]
        if len(results) > 1_000:
            raise OverflowError
    yield from results


def conflicts(func: kernel.FuncOp) -> set[tuple[Operation, Operation]]:
    """The pairs that meet with no barrier between in some trace."""
    found: set[tuple[Operation, Operation]] = set()
    for trace in traces(func.body.block):
        since: list[kernel.LoadOp | kernel.StoreOp] = []
        for op in trace:
            if isinstance(op, kernel.BarrierOp):
                since = []
            elif isinstance(op, kernel.LoadOp | kernel.StoreOp) and is_shared(op.ref):
                for other in since:
                    writes = isinstance(op, kernel.StoreOp) or isinstance(other, kernel.StoreOp)
                    if other.ref is op.ref and writes:
                        found.add((other, op))
                since.append(op)
    return found


def programs(count: int, *, barriers: bool) -> Iterator[tuple[kernel.FuncOp, set[object]]]:
    rng = random.Random(7)
    while count:
        func = func_of(random_body(rng, 2, barriers=barriers))
        try:
            found = conflicts(func)
        except OverflowError:
            continue
        yield func, set(found)
        count -= 1


def test_conflicts_are_those_of_all_traces() -> None:
    for func, expected in programs(60, barriers=True):
        found = {(c.first.op, c.second.op) for c in missing_barriers(func)}
        assert found == {(a, b) for a, b in expected if a is not b}, func  # pyright: ignore


def test_placement_leaves_no_conflict_and_no_needless_barrier() -> None:
    total = 0
    for func, expected in programs(20, barriers=False):
        place_barriers(func, Slots(func))
        func.verify()
        assert all(a is b for a, b in conflicts(func)), func
        assert bool(expected) or not any(isinstance(o, kernel.BarrierOp) for o in func.walk())
        barriers = [op for op in func.walk() if isinstance(op, kernel.BarrierOp)]
        total += len(barriers)
        for barrier in barriers:
            next_op, block = barrier.next_op, barrier.parent
            assert block is not None
            barrier.detach()
            assert any(a is not b for a, b in conflicts(func)), "a barrier is not needed"
            if next_op is None:
                block.add_op(barrier)
            else:
                block.insert_op_before(barrier, next_op)
    assert total > 15


def test_dropping_keeps_every_separation() -> None:
    dropped = 0
    for func, before in programs(60, barriers=True):
        redundant = redundant_barriers(func)
        dropped += len(redundant)
        for barrier in redundant:
            barrier.detach()
        assert conflicts(func) == before
    assert dropped > 20


CLUSTERED = """
kernel.func @turned(%x: memref<32xf32>) -> (%y: memref<32xf32>) grid 4 block 32 cluster 4 {
  %t = kernel.thread_id
  %s = kernel.alloc_shared : memref<32xf32, #kernel.shared>
  %all = kernel.map_cluster %s
    : memref<32xf32, #kernel.shared> -> memref<4x32xf32, #kernel.cluster>
  %v = kernel.load %x[%t] : memref<32xf32>
  kernel.store %v, %s[%t] : memref<32xf32, #kernel.shared>
  %w = kernel.load %all[3, %t * -1 + 31] : memref<4x32xf32, #kernel.cluster>
  kernel.store %w, %y[%t] : memref<32xf32>
}
"""


def test_elements_of_other_references_have_other_numbers() -> None:
    (func,) = Parser(register(Context()), CLUSTERED).parse_module().ops
    assert isinstance(func, kernel.FuncOp)
    stores = [op for op in func.walk() if isinstance(op, kernel.StoreOp)]
    loads = [op for op in func.walk() if isinstance(op, kernel.LoadOp)]
    assert Slots(func).each_its_own(stores[0], stores[0])
    assert not Slots(func).each_its_own(stores[0], loads[1])
