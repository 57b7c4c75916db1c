"""Which operations of a kernel can be evaluated as parts of one expression."""

import pytest
from harness import parse

from dlc.analysis.kernel.expression_parts import parts_of_expressions
from dlc.dialects.kernel import FuncOp

TYPE = "memref<64xf32>"
SHARED = "memref<64xf32, #kernel.shared>"
LOCAL = "memref<4xf32, #kernel.local>"


def parts(body: str) -> dict[str, list[str]]:
    """The names of the parts of each operation, which is called by its result or what it does."""
    text = f"""kernel.func @k(%x: {TYPE}) -> (%y: {TYPE}) grid 1 block 32 {{
      %z = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %t = kernel.thread_id
      %s = kernel.alloc_shared : {SHARED}
      %l = kernel.alloc_local : {LOCAL}
      {body}
    }}"""
    func = next(op for op in parse(text).walk() if isinstance(op, FuncOp))
    found: dict[str, list[str]] = {}
    for op, own in parts_of_expressions(func).items():
        name = (op.results[0].name_hint if op.results else None) or op.name
        found[name] = [str(part.results[0].name_hint) for part in own]
    return found


def test_parts_are_in_the_order_of_operands() -> None:
    body = f"""%a = kernel.load %x[%t] : {TYPE}
      %b = kernel.load %x[%t + 1] : {TYPE}
      %u = arith.subf %b, %a : f32
      kernel.store %u, %y[%t] : {TYPE}"""
    assert parts(body) == {"u": ["b", "a"], "kernel.store": ["u"]}


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        (f"kernel.store %z, %y[0] : {TYPE}", ["a", "e", "d"]),
        (f"kernel.store %z, %s[0] : {SHARED}", ["a", "e", "b"]),
        (f"kernel.store %z, %l[0] : {LOCAL}", ["a", "b", "d"]),
        (f"kernel.atomic_add %z, %y[0] : {TYPE}", ["a", "e", "d"]),
        (f"kernel.cp_async %x[0], %s[0] elements 1 : {TYPE}, {SHARED}", ["a", "e", "b"]),
        ("kernel.barrier", ["a", "e"]),
        ("kernel.sync_warp", ["a", "e"]),
        ("kernel.wait 0", ["a", "e"]),
        ("scf.for %i = %c0 to %c1 step %c1 {\n}", ["a"]),
        (f"%o = kernel.load %y[1] : {TYPE}", ["a", "e", "b", "d"]),
    ],
)
def test_what_stands_between_says_which_loads_are_parts(between: str, kept: list[str]) -> None:
    """A load each of an input, of local memory, of an output and of shared memory."""
    body = f"""%a = kernel.load %x[%t] : {TYPE}
      %e = kernel.load %l[0] : {LOCAL}
      %b = kernel.load %y[%t] : {TYPE}
      %d = kernel.load %s[%t] : {SHARED}
      {between}
      %q = arith.addf %a, %e : f32
      %r = arith.addf %b, %d : f32"""
    found = parts(body)
    assert sorted(found.get("q", []) + found.get("r", [])) == sorted(kept)


def test_an_expression_reads_what_its_parts_read() -> None:
    body = f"""%a = kernel.load %s[%t] : {SHARED}
      %u = math.exp %a : f32
      %v = math.exp %z : f32
      kernel.barrier
      %w = arith.addf %u, %v : f32"""
    assert parts(body) == {"u": ["a"], "w": ["v"]}


def test_a_local_load_is_a_part_of_all_its_users_or_of_none() -> None:
    body = f"""%a = kernel.load %l[0] : {LOCAL}
      %b = kernel.load %l[1] : {LOCAL}
      %u = arith.mulf %a, %a : f32
      %v = arith.addf %b, %a : f32
      kernel.store %z, %l[2] : {LOCAL}
      %w = math.exp %b : f32"""
    assert {name: own for name, own in parts(body).items() if own} == {"u": ["a"], "v": ["a"]}


def test_shuffles_keep_their_order() -> None:
    body = """%a = kernel.shuffle xor %z, 1 width 32 : f32
      %b = kernel.shuffle xor %z, 2 width 32 : f32
      %u = arith.addf %a, %b : f32"""
    assert parts(body) == {"u": ["b"]}


def test_indices_and_choices_have_names() -> None:
    body = f"""%i = kernel.index %t + 1
      %a = kernel.load %x[%i] where (%t < 7) : {TYPE}
      %b = kernel.load %x[%i + 1] where (%t < 8) : {TYPE}
      %c = kernel.load %x[%i + 2] where (%t < 9) : {TYPE}
      %u = math.exp %a : f32
      kernel.store %b, %y[%i] : {TYPE}
      kernel.atomic_add %u, %y[0] : {TYPE}
      kernel.store %c, %y[%t] where (%t < 9) : {TYPE}"""
    assert parts(body) == {"kernel.atomic_add": ["u"], "kernel.store": ["c"]}
    assert parts(body[: body.index("kernel.atomic_add")]) == {"kernel.store": ["b"]}
