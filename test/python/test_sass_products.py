"""Machine code that touches sums while warpgroups' products add to them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_sass import needs_tools, parse
from test_wgmma_tiles import PRODUCER

import dlc
from dlc.backend import BackendError
from dlc.backend.cuda.run import nvcc, sass_products
from dlc.backend.cuda.run.sass import disassemble
from dlc.backend.cuda.run.sass_products import early_accesses

HEAD = """
    CS2R R24, SRZ
    @P0 BRA `(.L_x_9)
    .L_x_7:
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9+URZ+0x20000], R10
    @!P0 BRA `(.L_x_4)
    .L_x_17:
    WARPGROUP.ARRIVE
    HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24
    HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24, gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x1
    @!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R5+URZ+0x20040], RZ
    @P1 BRA `(.L_x_7)
"""
END = """
    STG.E.128 desc[UR4][R2.64], R4
    .L_x_9:
    EXIT
    .L_x_4:
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9+URZ+0x20000], R10
    @!P0 BRA `(.L_x_4)
    BRA `(.L_x_17)
"""
READS = "F2FP.BF16.F32.PACK_AB R5, R55, R54\n    F2FP.BF16.F32.PACK_AB R7, R51, R50"
WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"
"""Of a product of 512 x 2048 x 2048, as ptxas 13.0 printed it."""


def found(lines: str) -> list[str]:
    return [str(early) for early in early_accesses(parse(lines))]


def test_sums_are_read_behind_the_last_wait() -> None:
    assert found(f"{HEAD}{WAIT}\n{READS}{END}") == []


def test_sums_that_an_h200_read_ahead_of_it() -> None:
    product = "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24, gsb0"
    assert found(f"{HEAD}{READS}\n{WAIT}{END}") == [
        f"F2FP.BF16.F32.PACK_AB R5, R55, R54, instruction 10, accesses R55 before {product} is "
        "waited for",
        f"F2FP.BF16.F32.PACK_AB R7, R51, R50, instruction 11, accesses R51 before {product} is "
        "waited for",
    ]


SUMS = "HGMMA.64x32x16.F32.F16 {0}, gdesc[UR4], {0}, gsb0"
CASES: dict[str, tuple[str, str]] = {
    "read after the wait": (f"{SUMS}\n{WAIT}\nMOV R0, R39", ""),
    "read after a wait that need not run": (f"{SUMS}\n@P0 {WAIT}\nMOV R0, R39", "R39"),
    "read of the last": (f"{SUMS}\nMOV R0, R39", "R39"),
    "read of none of them": (f"{SUMS}\nFADD R23, R40, R0", ""),
    "written": (f"{SUMS}\nMOV R30, RZ", "R30"),
    "added to": (f"{SUMS}\n{SUMS}", ""),
    "others overlap": (f"{SUMS}\n{SUMS.replace('{0}', 'R32')}", "R32"),
    "of halves, of which a register has two": (f"{SUMS.replace('F32', 'F16')}\nMOV R0, R32", ""),
    "the newest group": (
        f"{SUMS.replace('{0}', 'R64')}\n{SUMS}\nWARPGROUP.DEPBAR.LE gsb0, 0x1\nMOV R0, R24", "R24",
    ),
    "the group before": (
        f"{SUMS.replace('{0}', 'R64')}\n{SUMS}\nWARPGROUP.DEPBAR.LE gsb0, 0x1\nMOV R0, R64", "",
    ),
    "no group yet": (f"{SUMS.replace(', gsb0', '')}\n{WAIT}\nMOV R0, R24", "R24"),
    "stored in fours": (f"{SUMS}\nSTS.128 [R0+UR4], R22", "R24"),
    "an address": (f"{SUMS}\nLDG.E.128 R4, desc[UR4][R24.64]", "R24"),
    "the half of an address": (f"{SUMS}\nLDG.E R4, desc[UR4][R23.64]", "R24"),
    "the half of a wide sum": (f"{SUMS}\nIMAD.WIDE R4, R2, R3, R23", "R24"),
    "the half of a wide sum with a carry": (f"{SUMS}\nIMAD.WIDE.U32 R4, P0, R2, R3, R23", "R24"),
    "one of two ways": (f"{SUMS}\n@P0 BRA `(.L_x_1)\n{WAIT}\n.L_x_1:\nMOV R0, R24", "R24"),
    "where nothing comes from": (f"{SUMS}\nBRA `(.L_x_1)\nMOV R0, R24\n.L_x_1:\n{WAIT}", ""),
    "what never runs": (f"{SUMS}\n@!PT LDS R24, [RZ]", ""),
    "a subroutine": (f"{SUMS}\nCALL.REL.NOINC `(slow)", "CALL"),
    "a factor that is read": (f"{SUMS.replace('gdesc', 'R8, gdesc')}\nFADD R0, R11, R8", ""),
    "a factor that is written": (f"{SUMS.replace('gdesc', 'R8, gdesc')}\nFADD R11, R0, R1", "R11"),
    "a factor that is a second result": (
        f"{SUMS.replace('gdesc', 'R8, gdesc')}\nSHFL.BFLY PT, R9, R0, 0x1, 0x1f", "R9",
    ),
    "a factor that is compared": (
        f"{SUMS.replace('gdesc', 'R8, gdesc')}\nISETP.NE.AND P0, PT, R9, RZ, PT", "",
    ),
    "sums as a factor": (f"{SUMS}\n{SUMS.format('R64').replace('gdesc', 'R24, gdesc')}", "R24"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_accesses(name: str) -> None:
    lines, register = CASES[name]
    early = found(f"{lines.replace('{0}', 'R24')}\nEXIT")
    assert [register in sentence for sentence in early] == ([True] if register else [])


@needs_tools
def test_nvcc_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed is right machine code, not serialized; without a wait it is refused."""
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    given = [torch.empty(128, 2048, dtype=torch.bfloat16) for _ in range(2)]
    schedule = PRODUCER.replace("producer=1", "producer=1 products=1")
    program = dlc.compile(F.linear, given, "sm_90", "host", schedules={"linear": schedule})
    source = program.kernels[0].source
    assert nvcc.compile_cubin(source).serialized == 0

    def as_if_not_waited(cubin: Path) -> str:
        text = disassemble(cubin)
        assert WAIT in text
        return text.replace(WAIT, WAIT.replace("0x0", "0x7"))

    monkeypatch.setattr(sass_products, "disassemble", as_if_not_waited)
    with pytest.raises(BackendError, match=r"of linear is wrong .* accesses R\d+ before HG"):
        nvcc.compile_cubin(f"{source}\n// once more")
