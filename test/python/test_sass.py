"""SASS: instructions, widths of accesses, loops and nvdisasm itself."""

import importlib.metadata
from pathlib import Path

import pytest

from dlc.backend import BackendError
from dlc.backend.cuda.run import nvcc, sass, tools

HEAD = """	.target	sm_90
//--------------------- .text.{name} --------------------------
	.section	.text.{name},"ax",@progbits
	.align	128
        .global         {name}
        .size           {name},(.L_x_end - {name})
{name}:
.text.{name}:
"""


def listing(lines: str, name: str = "k") -> str:
    """A kernel as nvdisasm prints it: each line an instruction, or a label on its own."""
    printed = HEAD.format(name=name).splitlines()
    address = 0
    for line in filter(None, map(str.strip, lines.splitlines())):
        if line.endswith(":"):
            printed.append(line)
        else:
            printed.append(f"        /*{address:04x}*/ {line:>30} ;")
            address += 16
    return "\n".join(printed)


def parse(lines: str) -> sass.Function:
    [function] = sass.parse(listing(lines))
    return function


TRAP = """
    EXIT
    .L_x_99:
    BRA `(.L_x_99)
"""
"""What every kernel ends with: a loop that nothing reaches."""

GEMM = """
    S2R R7, SR_CTAID.X
    CS2R R38, SRZ
    .L_x_0:
    LDG.E.128.CONSTANT R48, desc[UR4][R58.64]
    BAR.SYNC.DEFER_BLOCKING 0x0
    STS.128 [R56], R44
    @!PT LDS RZ, [RZ]
    BAR.SYNC.DEFER_BLOCKING 0x0
    MOV R3, RZ
    .L_x_1:
    LDS.128 R16, [R41]
    LDS R20, [R40]
    FFMA R4, R16, R20.reuse, R4
    FFMA R5, R17, R20.reuse, R5
    FFMA R6, R18, R20.reuse, R6
    FFMA R7, R19, R20, R7
    ISETP.NE.AND P0, PT, R3, 0x10, PT
    @P0 BRA `(.L_x_1)
    ISETP.NE.AND P1, PT, R2, 0x80, PT
    @P1 BRA `(.L_x_0)
    FFMA R4, R4, 2, R5
    STG.E.128 desc[UR4][R2.64], R4
"""


def test_instructions() -> None:
    function = parse(GEMM + TRAP)
    assert function.name == "k"
    assert len(function.instructions) == 22
    load = function.instructions[2]
    assert load == sass.Instruction("", "LDG.E.128.CONSTANT", "R48, desc[UR4][R58.64]")
    assert load.opcode == "LDG"
    branch = function.instructions[15]
    assert (branch.predicate, branch.opcode, branch.target) == ("@P0", "BRA", ".L_x_1")


def test_several_kernels() -> None:
    text = f"{listing(GEMM + TRAP, 'a')}\n{listing('EXIT', 'b_1')}"
    assert [(f.name, len(f.instructions)) for f in sass.parse(text)] == [("a", 22), ("b_1", 1)]
    assert sass.parse("") == []


@pytest.mark.parametrize(
    ("line", "access"),
    [
        ("LDG.E.128.CONSTANT R48, desc[UR4][R58.64]", ("LDG", 128)),
        ("LDG.E.CONSTANT R0, desc[UR4][R2.64]", ("LDG", 32)),
        ("LDG.E.64 R4, [R2.64]", ("LDG", 64)),
        ("LDG.E.U8.CONSTANT R4, desc[UR4][R2.64]", ("LDG", 8)),
        ("LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64]", ("LDG", 256)),
        ("@P0 STG.E.128 desc[UR4][R2.64], R4", ("STG", 128)),
        ("STS.U16 [R0], R3", ("STS", 16)),
        ("LDS R3, [R0+UR4]", ("LDS", 32)),
        # LTC128B says how much the L2 cache fetches, not how much is copied.
        ("LDGSTS.E.LTC128B R7, desc[UR6][R2.64]", ("LDGSTS", 32)),
        ("LDGSTS.E.BYPASS.LTC128B.128 R7, desc[UR6][R2.64], P0", ("LDGSTS", 128)),
        ("LDL.LU R0, [R1]", ("LDL", 32)),
        ("UTMALDG.2D [UR8], [UR4], desc[UR6]", ("UTMALDG", 0)),
        ("@!PT LDS RZ, [RZ]", None),
        ("LDC.64 R2, c[0x0][0x210]", None),
        ("LDSM.16.M88.4 R4, [R2]", None),
    ],
)
def test_widths(line: str, access: tuple[str, int] | None) -> None:
    [instruction] = parse(line).instructions
    assert instruction.access == access


def test_the_innermost_loop_is_hot() -> None:
    function = parse(GEMM + TRAP)
    assert [loop.depth for loop in function.loops] == [1, 2]
    assert function.hot_loop == function.loops[1]
    body = function.body(function.loops[1])
    assert sass.fma_share(body) == 4 / 8
    assert sass.accesses(body) == {("LDS", 128): 1, ("LDS", 32): 1}
    # The outer loop's own body leaves the inner one and the dummy out.
    outer = [i.opcode for i in function.body(function.loops[0])]
    assert outer == ["LDG", "BAR", "STS", "BAR", "MOV", "ISETP", "BRA"]


def test_a_large_body_outweighs_a_small_inner_loop() -> None:
    fmas = "FFMA R4, R16, R20, R4\n" * 64
    function = parse(f"""
        .L_x_0:
        {fmas}
        .L_x_1:
        FFMA R0, R1, R2, R3
        @P0 BRA `(.L_x_1)
        BRA.U UP0, `(.L_x_0)
        {TRAP}
    """)
    assert function.hot_loop == function.loops[0]
    assert sass.fma_share(function.body(function.loops[0])) == 64 / 65


def test_products_of_matrices_outweigh_multiply_adds() -> None:
    fmas = "FFMA R4, R16, R20, R4\n" * 64
    function = parse(f"""
        .L_x_0:
        HMMA.16816.F32.BF16 R4, R16, R20, R4
        @P0 BRA `(.L_x_0)
        .L_x_1:
        {fmas}
        @P0 BRA `(.L_x_1)
        {TRAP}
    """)
    assert function.hot_loop == function.loops[0]


def test_without_multiply_adds_other_arithmetic_counts() -> None:
    function = parse(f"""
        .L_x_0:
        LDG.E R0, [R2.64]
        IADD3 R2, R2, 0x4, RZ
        IADD3 R3, R3, 0x4, RZ
        @P0 BRA `(.L_x_0)
        .L_x_1:
        FADD R0, R1, R2
        @P0 BRA `(.L_x_1)
        {TRAP}
    """)
    assert function.hot_loop == function.loops[1]


def test_a_kernel_without_loops() -> None:
    function = parse(f"FFMA R0, R1, R2, R3\n{TRAP}")
    assert function.loops == []
    assert function.hot_loop is None
    assert sass.parse(HEAD.format(name="empty"))[0].loops == []


def test_jumps_back_from_slow_paths_are_no_loops() -> None:
    """A shuffle's slow path stands after EXIT, that of a division is a subroutine."""
    function = parse("""
        S2R R2, SR_TID.X
        @P0 BRA `(.L_x_6)
        BRA.DIV UR9, `(.L_x_7)
        SHFL.BFLY PT, R3, R0, 0x10, 0x1f
        .L_x_18:
        FADD R0, R14, R3
        CALL.REL.NOINC `($__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath)
        .L_x_6:
        EXIT
        .L_x_7:
        WARPSYNC.COLLECTIVE R16, `(.L_x_13)
        SHFL.BFLY P0, R3, R3, R17, R18
        .L_x_13:
        BRA `(.L_x_18)
        .L_x_19:
        FFMA R10, R0, 2, RZ
        @P0 BRA `(.L_x_19)
        RET.REL.NODEC R12 `(k)
    """)
    assert function.loops == []


def test_a_slow_path_is_no_part_of_a_round() -> None:
    function = parse("""
        .L_x_0:
        BRA.DIV UR9, `(.L_x_7)
        .L_x_18:
        FFMA R0, R14, R3, R0
        @P0 BRA `(.L_x_0)
        EXIT
        .L_x_7:
        BRA `(.L_x_18)
    """)
    [loop] = function.loops
    assert [i.mnemonic for i in function.body(loop)] == ["BRA.DIV", "FFMA", "BRA"]
    assert loop.depth == 1


def test_where_threads_meet_again_is_no_loop() -> None:
    """BSSY names the place that BSYNC waits for, before or behind it; neither is a branch back."""
    function = parse(f"""
        .L_x_0:
        LDG.E R0, [R2.64]
        BSSY.RECONVERGENT B0, `(.L_x_2)
        @P0 BRA `(.L_x_2)
        .L_x_1:
        FFMA R4, R0, R4, R5
        @P1 BRA `(.L_x_1)
        BSYNC.RECONVERGENT B0
        .L_x_2:
        BSSY B1, `(.L_x_0)
        FADD R6, R6, R4
        BSYNC B1
        @P2 BRA `(.L_x_0)
        STG.E [R2.64], R6
        BSSY B0, `(.L_x_1)
        BSYNC B0
        {TRAP}
    """)
    outer, inner = function.loops
    assert (outer.depth, inner.depth) == (1, 2)
    assert function.hot_loop == inner
    assert [i.opcode for i in function.body(inner)] == ["FFMA", "BRA"]
    assert [i.opcode for i in function.body(outer)] == [
        "LDG", "BSSY", "BRA", "BSYNC", "BSSY", "FADD", "BSYNC", "BRA",
    ]  # fmt: skip


def test_two_branches_back_make_one_loop() -> None:
    function = parse("""
        .L_x_0:
        @P0 BRA `(.L_x_0)
        FFMA R0, R14, R3, R0
        @P1 BRA `(.L_x_0)
        EXIT
    """)
    [loop] = function.loops
    assert len(function.body(loop)) == 3


def test_the_tool_is_found_and_its_errors_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    tool = tmp_path / "cuda" / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\ntest "$1" = --version || { echo "not an ELF: $2"; exit 3; }\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert sass.find_nvdisasm() == tool
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(b"nonsense")
    with pytest.raises(BackendError, match=r"nvdisasm -c .*kernel.cubin fails: not an ELF"):
        sass.disassemble(cubin)


def test_the_wheel_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools, "TOOLKIT", "/no/such/toolkit")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(BackendError, match="pip install 'nvidia-cuda-nvdisasm"):
        sass.find_nvdisasm()


def has_tools() -> bool:
    try:
        nvcc.find_nvcc()
        sass.find_nvdisasm()
    except BackendError:
        return False
    return True


needs_tools = pytest.mark.skipif(not has_tools(), reason="needs nvcc and nvdisasm")


@needs_tools
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_a_real_kernel(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    cubin = nvcc.compile_cubin(
        """
        extern "C" __global__ void dot(const float4* __restrict__ x, float* y, int n) {
          float s = 0;
          #pragma unroll 1
          for (int i = threadIdx.x; i < n; i += 256) {
            const float4 v = x[i];
            s = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, v.w * v.w + s)));
          }
          y[threadIdx.x] = s;
        }
        """,
        arch,
    )
    [function] = sass.parse(sass.disassemble(cubin.path))
    assert function.name == "dot"
    assert function.hot_loop is not None
    body = function.body(function.hot_loop)
    assert sum(i.opcode in sass.FMA for i in body) == 3
    assert sass.accesses(body) == {("LDG", 128): 1}
    assert sass.accesses(function.instructions) == {("LDG", 128): 1, ("STG", 32): 1}
    assert sass.disassemble(cubin.path)  # from the cache
