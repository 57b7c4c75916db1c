"""The trace page: what it holds is what the command line prints, and it works in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import pytest
from ptx_fragments import A_M16N8K16, B_M16N8K16, C_M16N8
from xdsl.context import Context

from dlc.backend import BackendError
from dlc.backend.cuda.run.nvcc import find_nvcc
from dlc.backend.cuda.run.sass import find_nvdisasm
from dlc.cli.dlc_cli import main
from dlc.dialects import host
from dlc.dialects.loop import KernelOp
from dlc.escapes import html_json, html_text
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.passes import PRINTED
from dlc.registry import register
from dlc.schedule.estimate import estimate
from dlc.stages import Stages
from dlc.target import SECTOR_BYTES, get_target, set_target
from dlc.trace.build import trace_of
from dlc.trace.edits import applied, edits
from dlc.trace.machine_code import pane_of
from dlc.trace.model import Pane, Trace, as_json
from dlc.trace.page import FOLDER, SCRIPTS, page

TEXT = "torch.relu(torch.matmul(torch.randn(16,64) + torch.randn(64), torch.randn(64,16)))"
PRODUCTS = "torch.randn(3, 100, 64) @ torch.randn(3, 64, 200)"
CUT = {
    "torch.randn(300, 640) @ torch.randn(640, 520)": 5,  # the blocks that share its sums
    PRODUCTS: 3,
    "torch.randn(256, 640).softmax(-1)": 1,
}
"""Programs of a kernel, and the blocks that have the same tile of it, or of its matrices."""
CAUSAL = "F.scaled_dot_product_attention(*[torch.randn(1, 32, 512, 64)] * 3, is_causal=True)"
PROGRAMS = {
    "product": TEXT,
    "two kernels": "torch.softmax(torch.randn(37, 129).T.contiguous() @ torch.randn(37, 5), 0)",
    "nothing to compute": "torch.relu(torch.randn(0, 4))",
    "one number": "torch.randn(1).exp()",
    "a branch": (
        "torch.cond(torch.randn(()) > 0, lambda x: x + 1, lambda x: x * 2, (torch.randn(8),))"
    ),
}


def traced(text: str, observers: Any = (), **options: Any) -> tuple[Trace, Stages]:
    """The trace of a program, and the same program compiled beside it."""
    program = import_program(*capture_text(text))
    set_target(program.module, "sm_90")
    ctx = register(Context())
    trace = trace_of(ctx, program.module.clone(), text, {"<command>": text}, observers, **options)
    return trace, Stages(program.module)


@pytest.fixture(scope="module")
def product() -> Trace:
    return traced(TEXT)[0]


@pytest.fixture(scope="module")
def products() -> Trace:
    """Of matrices, in tiles of registers."""
    return traced(PRODUCTS)[0]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_panes_are_what_is_printed(text: str) -> None:
    trace, stages = traced(text)
    panes = {pane.ir: pane for pane in trace.panes}
    for ir in PRINTED:
        if ir in panes:
            assert [*panes[ir].lines, ""] == stages.text(ir).split("\n")
    assert {*PRINTED} - panes.keys() <= {"cuda"}
    assert ("cuda" in panes) == bool(trace.kernels)


def section(pane: Pane, name: str) -> list[str]:
    inside = {n for begin, end in pane.sections.values() for n in range(begin, end)}
    if name:
        return list(pane.lines[slice(*pane.sections[name])]) if name in pane.sections else []
    return [line for n, line in enumerate(pane.lines) if n not in inside]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_edits_lead_from_pane_to_pane(text: str) -> None:
    trace, _ = traced(text)
    panes = {pane.ir: pane for pane in trace.panes}
    for name in ["", *(kernel.name for kernel in trace.kernels)]:
        lines = section(panes["torch"], name)
        for done in trace.passes:
            lines = applied(lines, done.edits.get(name, ()))
        assert lines == section(panes["kernel"], name)


def test_links_lead_to_lines(product: Trace) -> None:
    for before, pane in zip(product.panes, product.panes[1:], strict=False):
        assert len(pane.links) == len(pane.lines)
        assert all(0 <= n < len(before.lines) for links in pane.links for n in links)
    assert not any(product.panes[0].links)


def test_an_operation_is_followed_from_python_to_cuda(product: Trace) -> None:
    panes = {pane.ir: pane for pane in product.panes}

    def line(ir: str, text: str) -> int:
        return next(n for n, found in enumerate(panes[ir].lines) if text in found)

    assert TEXT in panes["python"].lines[panes["torch"].links[line("torch", "relu.default")][0]]
    assert panes["tensor"].links[line("tensor", '"2 relu.default"')] == [
        line("torch", "relu.default")
    ]
    maximum = [line(ir, "arith.maximumf") for ir in ("loop", "tile", "kernel")]
    assert panes["tile"].links[maximum[1]] == [maximum[0]]
    assert panes["kernel"].links[maximum[2]] == [maximum[1]]
    assert maximum[2] in panes["cuda"].links[line("cuda", "= max_nan(")]


LISTING = """
	.section	.text.one,"ax",@progbits
one:
.text.one:
	//## File "/a/kernel.cu", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/usr/include/math.hpp", line 7 inlined at "/a/kernel.cu", line 5
	//## File "/a/kernel.cu", line 9 inlined at "/a/kernel.cu", line 4
	//## File "/a/kernel.cu", line 4
.L_x_0:
        /*0010*/              @!P0 FFMA R2, R1, R1, R2 ;
        /*0020*/                   BRA `(.L_x_0) ;
	.section	.text.two,"ax",@progbits
        /*0000*/                   EXIT ;
"""


def test_machine_code_is_linked_to_lines() -> None:
    found = pane_of(LISTING)
    assert [line.split("*/")[-1].split()[0] for line in found.lines] == [
        "LDC", ".L_x_0:", "@!P0", "BRA", "EXIT",
    ]  # fmt: skip
    assert found.links == [[2], [], [3, 8], [3, 8], []]
    assert found.sections == {"one": (0, 4), "two": (4, 5)}


def test_machine_code_of_a_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_nvcc()
        find_nvdisasm()
    except BackendError as error:
        pytest.skip(str(error))
    trace = traced(TEXT, sass=True)[0]
    cuda, sass = trace.panes[-2:]
    assert (cuda.ir, sass.ir) == ("cuda", "sass")
    assert set(sass.sections) == {k.name for k in trace.kernels}
    fma = [n for n, line in enumerate(sass.lines) if "FFMA" in line]
    assert fma
    assert all(any("fmaf(" in cuda.lines[k] for k in sass.links[n]) for n in fma)
    (product,) = trace.kernels
    assert product.machine["multiply_adds_of_these"] > 0
    assert product.machine["accesses_of_local_memory"] == 0


def test_a_kernel_is_shown_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, file = PROGRAMS["two kernels"], tmp_path / "page.html"
    names = [k.name for k in traced(text)[0].kernels]
    given = ["trace", "-c", text, "--target", "sm_90", "-o", str(file), "--kernel"]
    assert main([*given, names[1]]) == 0
    data = re.search('id="data">(.*?)</script>', file.read_text("utf-8"))
    assert data is not None
    assert json.loads(data[1])["shown"] == names[1]
    assert main([*given, f"{names[0]}x"]) == 1
    said = capsys.readouterr().err
    assert f"there is no kernel '{names[0]}x' to show" in said
    assert f"hint: did you mean {names[0]}?" in said


def test_memory_is_that_of_the_plan() -> None:
    text = "torch.randn(64,64) @ torch.randn(64,64) @ torch.randn(64,64) @ torch.randn(64,64)"
    trace, stages = traced(text)
    memory = trace.memory
    assert memory is not None
    launches = [op for op in stages.module("kernel").walk() if isinstance(op, host.LaunchOp)]
    names = [op.callee.name_ for op in launches if op.callee is not None]
    assert list(memory.launches) == names
    assert len(memory.launches) > 1
    for block in memory.blocks:
        assert 0 <= block.first < block.last < len(memory.launches)
        assert 0 <= block.offset <= memory.workspace - block.bytes
    assert memory.results == 64 * 64 * 4
    one = traced(PROGRAMS["product"])[0].memory
    assert one is not None
    assert (one.workspace, one.blocks) == (0, [])


def test_edits() -> None:
    for before, after in (("", ""), ("", "ab"), ("ab", ""), ("abcd", "axcyd"), ("aaa", "aa")):
        assert applied(before, edits(before, after)) == list(after)


def test_passes_tell_what_they_did(product: Trace) -> None:
    passes = {done.name: done for done in product.passes}
    staging = passes["t:007_stage_inputs"]
    assert staging.summary.startswith("Slabs of inputs that a block reads more than once")
    assert any("staged y" in said.text and not said.declined for said in staging.remarks)
    assert all(said.declined for said in passes["t:003_split_matmul_k"].remarks)
    assert "add_matmul_relu" not in passes["t:003_split_matmul_k"].edits
    assert all(done.seconds > 0 for done in product.passes)


def test_launches_take_what_explain_says() -> None:
    trace, stages = traced("torch.randn(64, 8192) @ torch.randn(8192, 64)")
    module = stages.module("loop")
    target = get_target("sm_90")
    said = sum(estimate(op, target).seconds for op in module.walk() if isinstance(op, KernelOp))
    assert len(trace.kernels) == 2
    assert sum(kernel.seconds for kernel in trace.kernels) == pytest.approx(said)


def test_kernels_have_their_launch(product: Trace) -> None:
    (kernel,) = product.kernels
    found = kernel.name, kernel.grid, kernel.block, kernel.launches
    assert found == ("add_matmul_relu", 4, 64, 1)
    assert kernel.cost is not None
    assert kernel.seconds == kernel.cost.seconds > 0
    assert kernel.figures["barriers"] > 0
    assert [axis.kind for axis in kernel.axes] == ["block", "block", "thread", "thread"]


def test_the_picture_says_who_stores_what(products: Trace) -> None:
    (kernel,) = products.kernels
    kinds = [axis.kind for axis in kernel.axes]
    assert kinds == ["block"] * 3 + ["thread"] * 2 + ["register"] * 2
    owners = kernel.owners
    assert owners is not None
    assert (owners.name, owners.shape, owners.block) == ("matmul", [100, 200], [32, 32])
    # thread %ti * 8 + %tj stores columns %tj * 4 + %rj of row %ti * 2 + %ri
    side = range(32)
    assert owners.threads == [[row // 2 * 8 + c // 4 for c in side] for row in side]
    assert owners.places == [[row % 2 * 4 + c % 4 for c in side] for row in side]
    assert (owners.held, owners.number, owners.corners[0]) == (8, 0, (0, 0, 0))


@pytest.mark.parametrize(("text", "matrices"), CUT.items())
def test_the_output_is_cut_in_the_tiles_of_blocks(text: str, matrices: int) -> None:
    """All blocks have one, and the numbers are those by which the first matrix is reached."""
    (kernel, *_) = traced(text)[0].kernels
    owners = kernel.owners
    assert owners is not None
    (rows, columns), (tall, wide) = owners.shape, owners.block
    corners = {(row, column): number for number, row, column in owners.corners}
    assert {*corners} == {(r, c) for r in range(0, rows, tall) for c in range(0, columns, wide)}
    assert len(corners) == len(owners.corners) == len({*corners.values()})
    assert kernel.grid == matrices * len(corners)
    assert corners[0, 0] == owners.number
    numbers = [number for number, *_ in owners.corners]
    assert numbers == sorted(numbers)
    assert 0 <= numbers[0] < numbers[-1] < kernel.grid


def test_blocks_have_the_numbers_that_the_launch_gives_them() -> None:
    """Those of the last rows first, in four waves, of which every second runs back."""
    (kernel, *_) = traced(CAUSAL)[0].kernels
    owners = kernel.owners
    assert owners is not None
    assert "last=2 waves=4" in kernel.schedule
    assert (owners.block, kernel.grid) == ([32, 64], 32 * 16)
    panels = [15, 14, 13, 12, 8, 9, 10, 11, 7, 6, 5, 4, 0, 1, 2, 3]
    assert owners.corners == [(32 * n, 32 * panel, 0) for n, panel in enumerate(panels)]
    assert owners.number == 32 * panels.index(0)


def test_the_chart_has_chunks_in_the_slots_of_rings(product: Trace) -> None:
    pipeline = product.kernels[0].pipeline
    assert pipeline is not None
    assert [(r.name, r.depth, r.chunks, r.kind) for r in pipeline.rings] == [
        (f"{name}_ring", 3, 2, "async") for name in "xyz"
    ]
    assert pipeline.turns == 2
    for stay in pipeline.stays:
        assert stay.slot == stay.chunk % 3
        assert 0 <= stay.filled < stay.acquired < stay.released < pipeline.end
        assert stay.filled < 2 * 3 * 0.25 <= stay.acquired  # both chunks are asked for first
    assert len(pipeline.stays) == 2 * 3


def test_a_slot_is_free_before_it_is_asked_for_again() -> None:
    pipeline = traced("torch.randn(2048, 512) @ torch.randn(512, 2048)")[0].kernels[0].pipeline
    assert pipeline is not None
    assert pipeline.turns < pipeline.rings[0].chunks  # the first turns
    for one in pipeline.stays:
        for two in pipeline.stays:
            if (one.ring, one.slot) == (two.ring, two.slot) and one.chunk < two.chunk:
                assert 0 <= one.released < two.filled


def test_costs_of_lines_are_those_of_the_kernel(product: Trace) -> None:
    (kernel,) = product.kernels
    pane = next(pane for pane in product.panes if pane.ir == "kernel")
    fma = [cost for line, cost in kernel.lines.items() if "math.fma" in pane.lines[int(line)]]
    assert sum(cost.slots for cost in fma) == kernel.figures["fmas"] == 16 * 64 * 16 / (2 * 128)
    costs = kernel.lines.values()
    assert sum(cost.slots for cost in costs) == kernel.figures["slots"]
    assert sum(cost.bytes for cost in costs) == kernel.figures["sectors"] * SECTOR_BYTES
    assert sum(cost.wavefronts for cost in costs) == kernel.figures["wavefronts"]
    assert max(cost.registers for cost in costs) == kernel.figures["registers"]
    for bank in kernel.banks:
        cost = kernel.lines[str(bank.line)]
        assert cost.ways == bank.ways
        assert cost.wavefronts > 0
    assert kernel.blocks_per_sm >= 1


HALVES = "torch.randn(64, 64, dtype=torch.bfloat16) @ torch.randn(64, 64, dtype=torch.bfloat16)"


@pytest.fixture(scope="module")
def halves() -> Trace:
    return traced(HALVES)[0]


def test_fragments_are_those_of_the_manual(halves: Trace) -> None:
    (kernel,) = halves.kernels
    (product,) = kernel.products
    pane = next(pane for pane in halves.panes if pane.ir == "kernel")
    assert f"kernel.mma <{product.shape}>" in pane.lines[product.line]
    assert product.ops == sum("kernel.mma <" in line for line in pane.lines)
    figures = [A_M16N8K16, B_M16N8K16, C_M16N8]
    for fragment, figure in zip(product.fragments, figures, strict=True):
        cells = [row.split() for row in figure.split("\n") if row]
        held = [[f"{n}.{k}" for n, k in zip(*both, strict=True)] for both in
                zip(fragment.lanes, fragment.places, strict=True)]  # fmt: skip
        assert held == cells, fragment.name


def test_kernels_without_tensor_cores_have_no_fragments(product: Trace) -> None:
    assert product.kernels[0].products == []


def test_rows_of_matrices_meet_no_bank_twice(halves: Trace) -> None:
    reads = [bank for bank in halves.kernels[0].banks if bank.text.startswith("read of")]
    assert {len(bank.lanes) for bank in reads} <= {8, 16, 32}
    assert {(bank.width, bank.ways) for bank in reads} == {(16, 1)}


def test_accesses_of_shared_memory_have_lanes(products: Trace) -> None:
    banks = products.kernels[0].banks
    kernel = next(pane for pane in products.panes if pane.ir == "kernel")
    reads = [b for b in banks if b.text == "read of x_ring, 16 bytes a lane"]
    assert reads
    for bank in banks:
        assert bank.text.split(",")[0].rpartition(" ")[2] in kernel.lines[bank.line]
    # eight threads read the same 16 bytes of a row of 36 words, of every second row
    assert [b for b in reads[0].lanes] == [lane // 8 * 2 * 36 * 4 for lane in range(32)]


def test_costs_are_those_of_the_explanation(product: Trace) -> None:
    (cost,) = [kernel.cost for kernel in product.kernels]
    assert cost is not None
    assert cost.flops == 16 * 64 * 16 * 2 + 16 * 64 + 16 * 16  # each sum of x and y once
    assert cost.bytes == 4 * (16 * 64 + 64 + 64 * 16 + 16 * 16)


def test_hazards_stand_at_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "-c", TEXT, "--target", "sm_90", "--ir", "kernel"]) == 0
    text = capsys.readouterr().out
    module, file = tmp_path / "k.mlir", tmp_path / "page.html"
    without = [line for line in text.splitlines() if line.strip() != "kernel.barrier"]
    assert len(without) < len(text.splitlines())
    module.write_text("\n".join(without))
    assert main(["trace", str(module), "--check", "-o", str(file)]) == 0
    data = data_of(file.read_text())
    lines = next(pane["lines"] for pane in data["panes"] if pane["ir"] == "kernel")
    checked = data["kernels"][0]["checked"]
    assert checked["answer"] == "hazard"
    for access in (a for hazard in checked["hazards"] for a in hazard["accesses"]):
        assert access["text"].endswith(lines[access["line"]].strip())


def test_a_trace_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "-c", TEXT, "--target", "sm_90"]) == 0
    alone = capsys.readouterr().out
    file = tmp_path / "page.html"
    assert main(["compile", "-c", TEXT, "--target", "sm_90", "--trace", str(file)]) == 0
    assert capsys.readouterr().out == alone
    assert data_of(file.read_text())["title"] == TEXT


def test_a_module_is_traced_from_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "-c", TEXT, "--target", "sm_90", "--ir", "tile"]) == 0
    module, file = tmp_path / "k.mlir", tmp_path / "page.html"
    module.write_text(capsys.readouterr().out)
    assert main(["trace", str(module), "-o", str(file)]) == 0
    data = data_of(file.read_text())
    assert [pane["ir"] for pane in data["panes"]] == ["python", "tile", "kernel", "cuda"]


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_strings_of_programs_stay_text() -> None:
    evil = "</script><script>alert(1)</script><!-- & \" ' \x1b \u2028"
    assert "<" not in html_json({evil: [evil]})
    assert json.loads(html_json({evil: [evil]})) == {evil: [evil]}
    assert not {"<", ">", '"', "'", "\x1b"} & set(html_text(evil))
    trace, _ = traced("torch.relu(torch.randn(3))")
    text = page(replace(trace, title=evil))
    assert data_of(text)["title"] == evil
    assert "alert(1)</script>" not in text


def test_data_are_plain() -> None:
    with pytest.raises(TypeError, match="holds no object"):
        as_json([object()])


def test_the_script_is_typed() -> None:
    if (tsc := shutil.which("tsc")) is None:
        pytest.skip("no tsc on PATH: npm install -g typescript")
    options = "--checkJs --allowJs --noEmit --strict --target es2022".split()
    library = ["--lib", "es2022,dom,dom.iterable"]
    files = [FOLDER / name for name in SCRIPTS]
    done = subprocess.run([tsc, *options, *library, *files], capture_output=True)
    assert done.returncode == 0, done.stdout.decode()


@pytest.fixture(scope="module")
def shown(product: Trace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    """The page in a window as wide as a small laptop's."""
    if reason := browser.missing():
        pytest.skip(f"{reason}: apt-get install chromium chromium-driver")
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "page.html"
    file.write_text(page(product))
    with browser.Browser(folder / "profile") as window:
        window.open(file)
        yield window


LIT = "return [...document.querySelectorAll('.pane[data-ir=' + arguments[0] + '] .lit')]" + (
    ".map(line => line.textContent)"
)
STATUS = "return document.getElementById('status').textContent"


def click_line(window: browser.Browser, ir: str, text: str) -> None:
    window.run(
        "[...document.querySelectorAll(`.pane[data-ir=${arguments[0]}] .line`)]"
        ".find(line => line.textContent.includes(arguments[1])).click()",
        ir,
        text,
    )


def test_selection_links_the_panes(shown: browser.Browser) -> None:
    click_line(shown, "tile", "arith.maximumf")
    (at,) = shown.run(LIT.replace(".lit", ".at"), "tile")
    assert "arith.maximumf" in at
    assert "arith.maximumf" in shown.run(LIT, "loop")[0]
    assert any("= max_nan(" in line for line in shown.run(LIT, "cuda"))
    assert any("relu.default" in line for line in shown.run(LIT, "torch"))
    click_line(shown, "torch", "func.return")
    assert "6 CUDA: no image" in shown.run(STATUS)
    shown.press("escape")
    assert shown.run("return document.querySelectorAll('.lit, .line.at').length") == 0
    assert shown.errors() == []


def test_what_the_pointer_is_over_shows_its_images(shown: browser.Browser) -> None:
    over = "[...document.querySelectorAll('.pane[data-ir=tile] .line')]" + (
        ".find(line => line.textContent.includes('arith.maximumf'))"
        ".dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))"
    )
    shown.run(over)
    assert any("= max_nan(" in line for line in shown.run(LIT.replace(".lit", ".near"), "cuda"))
    shown.run("document.getElementById('panes').dispatchEvent(new MouseEvent('mouseleave'))")
    assert shown.run("return document.querySelectorAll('.near').length") == 0


def test_panes_show_the_texts(shown: browser.Browser, product: Trace) -> None:
    shown.press("1")
    for pane in product.panes:
        lines = shown.run(
            f"return [...document.querySelectorAll('.pane[data-ir={pane.ir}] .line')]"
            ".map(line => line.textContent)"
        )
        kernel = product.kernels[0].name
        assert lines == (section(pane, kernel) if pane.sections else list(pane.lines))


def test_keys_move_the_line(shown: browser.Browser) -> None:
    shown.press("1")
    shown.run("document.querySelector('.pane[data-ir=loop] .code').focus()")
    shown.press("escape")
    for key in ("j", "down", "down", "k"):
        shown.press(key)
    at = shown.run("return document.querySelector('.line.at').textContent")
    lines = shown.run(
        "return [...document.querySelectorAll('.pane[data-ir=loop] .line')].map(l => l.textContent)"
    )
    assert at == lines[1]
    shown.press("tab")
    assert shown.run("return document.activeElement.dataset.pane") == "4"


def test_the_slider_replays_the_kernel(shown: browser.Browser, product: Trace) -> None:
    shown.press("2")
    shown.run("document.getElementById('whole').click()")
    names = [done.name for done in product.passes]
    kernel = product.kernels[0].name
    lines = section(product.panes[1], kernel)
    for number, done in enumerate(product.passes):
        shown.run(
            "const s = document.getElementById('slider'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            number,
        )
        lines = applied(lines, done.edits.get(kernel, ()))
        texts = shown.run(
            "return [...document.querySelectorAll('#diff .line:not(.old)')]"
            ".map(l => l.classList.contains('new') ? l.textContent.slice(2) : l.textContent)"
        )
        assert texts == lines, done.name
    shown.press("k")
    assert names[-2] in shown.run("return document.getElementById('step').textContent")
    assert shown.run("return document.querySelectorAll('#steps .declined').length") > 0
    shown.run("document.getElementById('whole').click()")


def test_words_are_marked_in_changed_lines(shown: browser.Browser, product: Trace) -> None:
    shown.press("2")
    number = [done.name for done in product.passes].index("t:007_stage_inputs")
    shown.run(f"document.querySelectorAll('#steps li')[{number}].click()")
    marked = shown.run(
        "return [...document.querySelectorAll('#diff .new mark')].map(m => m.textContent)"
    )
    assert "%x_smem" in marked
    assert not any("arith" in word for word in marked)


def test_nothing_scrolls_sideways(shown: browser.Browser) -> None:
    for view in "123":
        shown.press(view)
        wide = "return [document.documentElement.scrollWidth, window.innerWidth]"
        width, window = shown.run(wide)
        assert width <= window
    assert shown.errors() == []
