"""Pictures of the trace page, in a browser: tensor cores, roofs, and hazards at their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
import trace_pictures
from ptx_fragments import D_M64N16
from test_trace import HALVES, data_of
from test_wgmma_tiles import schedule

from dlc.backend import BackendError
from dlc.backend.cuda.run.nvcc import find_nvcc
from dlc.backend.cuda.run.sass import find_nvdisasm
from dlc.cli.dlc_cli import main
from dlc.passes import STAGES
from dlc.plugins import DIALECTS, resolve
from dlc.target import get_target

WARPGROUPS = schedule((64, 256), (64, 256), 256)
RACE = "race: thread 1 of block 0 reads %max_parts[0]"
STATUS = "return document.getElementById('status').textContent"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    if reason := browser.missing():
        pytest.skip(f"{reason}: apt-get install chromium chromium-driver")
    with browser.Browser(tmp_path_factory.mktemp("browser"), 1280, 800) as window:
        yield window


@pytest.fixture(scope="module")
def warpgroups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a product by warpgroups."""
    folder = tmp_path_factory.mktemp("warpgroups")
    module, file = folder / "k.mlir", folder / "page.html"
    program = ["-c", HALVES.replace("64", "256"), "--target", "sm_90"]
    assert main(["compile", *program, "--ir", "loop", "-o", str(module)]) == 0
    module.write_text(re.sub('schedule ".*"', f'schedule "{WARPGROUPS}"', module.read_text()))
    assert main(["trace", str(module), "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a kernel that lacks a barrier."""
    folder = tmp_path_factory.mktemp("racing")
    module, file = folder / "k.mlir", folder / "page.html"
    program = ["-c", "torch.softmax(torch.randn(8, 2048), -1)", "--target", "sm_90"]
    assert main(["compile", *program, "--ir", "kernel", "-o", str(module)]) == 0
    lines = module.read_text().splitlines()
    lines.remove(next(line for line in lines if line.strip() == "kernel.barrier"))
    module.write_text("\n".join(lines))
    assert main(["trace", str(module), "--check", "-o", str(file)]) == 0
    return file


def test_machine_code_lights_with_its_lines(tmp_path: Path, window: browser.Browser) -> None:
    try:
        find_nvcc()
        find_nvdisasm()
    except BackendError as error:
        pytest.skip(str(error))
    file = tmp_path / "page.html"
    given = ["-c", "torch.randn(64) * torch.randn(64) + 1", "--target", "sm_90"]
    assert main(["trace", *given, "--sass", "-o", str(file)]) == 0
    window.open(file)
    window.run(
        "[...document.querySelectorAll('.pane[data-ir=loop] .line')]"
        ".find(line => line.textContent.includes('arith.mulf')).click()"
    )
    texts = "return [...document.querySelectorAll(`.pane[data-ir=sass] ${arguments[0]}`)]" + (
        ".map(line => line.textContent)"
    )
    assert any("FMUL" in line or "FFMA" in line for line in window.run(texts, ".lit"))
    sass = next(p for p in data_of(file.read_text())["panes"] if p["ir"] == "sass")
    assert window.run(texts, ".line") == sass["lines"]
    assert window.errors() == []


def test_words_are_those_of_the_dialects(warpgroups: Path, window: browser.Browser) -> None:
    """Operations, attributes and the words of formats are coloured as such; no other word is."""
    window.open(warpgroups)
    panes = {pane["ir"]: pane["lines"] for pane in data_of(warpgroups.read_text())["panes"]}
    lines = [line for ir in STAGES for line in panes.get(ir, [])]
    shown = {name for line in lines for name in named_in(line)}
    own = {op.name for name in DIALECTS for op in resolve(DIALECTS, name).operations}
    assert len(shown & own) > 30
    coloured = (
        "return arguments[0].filter(word => "
        "codeLine(`  %x = ${word} %y : f32`).querySelector(arguments[1])?.textContent !== word)"
    )
    assert window.run(coloured, sorted(shown), ".o") == []
    assert window.run(coloured, ["#tile.shared", "#kernel.local"], ".a") == []
    assert window.run(coloured, ["across", "swizzle"], ".k") == []
    strange = ["tile.lod", "#tile.shred", "acros"]
    assert window.run(coloured, strange, "span.o, span.a, span.k") == strange
    assert not window.run(
        "return document.querySelectorAll('[data-ir=cuda] :is(.o, .a, .k)').length"
    )


def named_in(line: str) -> list[str]:
    """The operations that a line of IR names."""
    return re.findall(r"^ *(?:%[^=]*= )?([a-z_]+\.\w+)", line)


@pytest.mark.parametrize("name", ["rms-norm", "tiny-llama"])
def test_pages_are_small_and_open(name: str, tmp_path: Path, window: browser.Browser) -> None:
    file = trace_pictures.write_page(name, tmp_path)
    size = file.stat().st_size
    assert size < 2e6
    said = trace_pictures.opening(window, file)
    assert said.startswith(f"{file}: {size / 1e6:.2f} MB, opens in ")
    kernels = data_of(file.read_text())["kernels"]
    options = "return document.querySelectorAll('#kernel option').length"
    assert window.run(options) == 1 + len(kernels)
    assert window.errors() == []


def test_fragments_of_a_warpgroup_are_those_of_the_manual(warpgroups: Path) -> None:
    data = data_of(warpgroups.read_text())
    (product,) = data["kernels"][0]["products"]
    lines = next(pane["lines"] for pane in data["panes"] if pane["ir"] == "kernel")
    assert f"kernel.wgmma <{product['shape']}>" in lines[product["line"]]
    assert product["ops"] == sum("kernel.wgmma <" in line for line in lines)
    (sums,) = product["fragments"]
    assert (product["lanes"], sums["columns"], len(sums["lanes"])) == (128, 256, 64)
    assert product["shared"] == [
        "A (64 x 16) in %x_ring, swizzled in rows of 128 bytes",
        "B (16 x 256) in %y_ring, swizzled in rows of 128 bytes",
    ]
    rows = zip(sums["lanes"], sums["places"], strict=True)
    held = [[f"{t}.{d}" for t, d in zip(*row, strict=True)][:16] for row in rows]
    assert held == [row.split() for row in D_M64N16.split("\n") if row]


def test_roofs_are_those_of_the_chip(warpgroups: Path) -> None:
    roofs = data_of(warpgroups.read_text())["chip"]["roofs"]
    assert list(roofs) == ["f32", "tf32 on tensor cores", "halves on tensor cores"]
    assert list(roofs.values()) == sorted(roofs.values())
    assert roofs["halves on tensor cores"] == pytest.approx(989e12, rel=0.1)
    assert "tf32 on tensor cores" not in get_target("sm_75").roofs


def test_threads_of_a_warpgroup_are_coloured(warpgroups: Path, window: browser.Browser) -> None:
    window.open(warpgroups)
    window.press("3")
    window.run("document.querySelector('.lanes input').value = 64")
    window.run("document.querySelector('.lanes input').dispatchEvent(new Event('input'))")
    held = "return [...document.querySelectorAll('rect.held')].map(r => r.dataset.lane)"
    assert window.run(held) == ["64"] * 16  # in the 32 columns that are drawn
    said = window.run("return document.querySelector('.lanes').textContent")
    assert "64 holds 128 elements of C" in said
    assert window.errors() == []


def test_a_thread_of_a_tile_is_chosen(warpgroups: Path, window: browser.Browser) -> None:
    window.open(warpgroups)
    window.press("3")
    owners = data_of(warpgroups.read_text())["kernels"][0]["owners"]
    drawn = "return [...document.querySelectorAll('[data-thread].own')].length"
    for thread in (0, 5):
        window.run("document.querySelector('.threads input').value = arguments[0]", thread)
        window.run("document.querySelector('.threads input').dispatchEvent(new Event('input'))")
        assert window.run(drawn) == sum(row.count(thread) for row in owners["threads"]) > 0
    blocks = "return [...document.querySelectorAll('[data-block]')].length"
    assert window.run(blocks) == len(owners["corners"])
    assert window.errors() == []


@pytest.mark.parametrize("page", ["racing", "warpgroups"])
def test_banks_have_rows_of_lanes(
    page: str, request: pytest.FixtureRequest, window: browser.Browser
) -> None:
    """In a row stand the banks that the lanes served together meet, with the first lane of each."""
    file: Path = request.getfixturevalue(page)
    window.open(file)
    window.press("3")
    banks = data_of(file.read_text())["kernels"][0]["banks"]
    assert banks
    drawn = window.run(
        "return [...document.querySelectorAll('#costs svg:has(.heat)')].map(e => [e.ariaLabel,"
        " [...e.querySelectorAll('.heat')].map((r, n) => [r.y.baseVal.value / 14,"
        " r.x.baseVal.value / 20, Number(e.querySelectorAll('text.lane')[n].textContent)])])"
    )
    for bank in banks:
        met: dict[tuple[int, int], int] = {}
        for lane, byte in enumerate(bank["lanes"]):
            for word in range(byte // 4, (byte + bank["width"]) // 4):
                met.setdefault((lane * bank["width"] // 128, word % 32), lane)
        told = f"{bank['text']}: {bank['ways']:g} way"
        seen = sorted([row, number, lane] for (row, number), lane in met.items())
        assert any(label.startswith(told) and sorted(at) == seen for label, at in drawn), told
    assert window.errors() == []


def test_kernels_of_tensor_cores_are_below_the_roof(
    warpgroups: Path, window: browser.Browser
) -> None:
    window.open(warpgroups)
    window.press("3")
    places = (
        "const dot = document.querySelector('#costs circle');"
        "const roofs = [...dot.parentNode.querySelectorAll('polyline')];"
        "const tops = roofs.map(r => Math.min(...[...r.points].map(p => p.y)));"
        "return [dot.cx.baseVal.value, dot.cy.baseVal.value, Math.min(...tops)]"
    )
    x, y, top = window.run(places)
    assert 0 < x < 560
    assert 0 < top < y < 260


def test_hazards_stand_at_the_lines_of_both_threads(racing: Path, window: browser.Browser) -> None:
    window.open(racing)
    marked = "return [...document.querySelectorAll('.pane[data-ir=kernel] .line.hazard')]" + (
        ".map(line => [line.textContent, line.title])"
    )
    found = window.run(marked)
    accesses = {line.split("%max_parts[")[0].split("kernel.")[1] for line, _ in found}
    assert {access.split()[0] for access in accesses} == {"load", "store"}
    assert all(RACE in said for _, said in found)
    window.run("document.querySelector('.line.hazard').click()")
    assert RACE in window.run(STATUS)
    assert window.errors() == []
