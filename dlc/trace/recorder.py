"""An observer that writes down a program's texts and passes while it is compiled."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from dlc.backend.cuda.print.printer import print_with_lines
from dlc.dialects import kernel
from dlc.passes import Stage, Step, last_step
from dlc.pipeline import stage_of
from dlc.registry import get_pass
from dlc.remarks import Remark
from dlc.trace.edits import section_edits
from dlc.trace.lines import Lines, mark, origins, pane, places_of, split
from dlc.trace.model import Pane, Pass, Said


class Recorder:
    """
    The panes of a program and what its passes did. It writes into the locations of the module that
    is compiled where its operations stand in each text: see `dlc.trace.lines`.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        """`sources` are the texts of the program's files that are known, by their names."""
        self.sources = sources
        self.panes: list[Pane] = []
        self.passes: list[Pass] = []
        self._sections: dict[str, list[str]] = {}

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        lines = Lines(module)
        python, links = self._python(module)
        if python.lines:
            self.panes.append(python)
        self._take(stage_of(module), module, lines, links)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        lines = Lines(module)
        sections = split(lines.text, lines.sections)
        said = [Said(r.kernel, r.text, r.text.startswith("skipped")) for r in remarks]
        edits = section_edits(self._sections, sections)
        summary = first_sentence(get_pass(step.pass_name))
        self.passes.append(Pass(step.name, summary, seconds, said, edits))
        self._sections = sections
        if step == last_step(step.stage):
            before = self.panes[-1].ir
            links = {op: origins(op, before) for op in lines.spans}
            self._take(step.stage, module, lines, links)

    def finish(self, module: ModuleOp) -> None:
        """Adds the CUDA text of a module that is Kernel IR now."""
        if any(isinstance(op, kernel.FuncOp) for op in module.walk()):
            self.panes.append(cuda_pane(module, self.panes[-1].ir))

    def _take(
        self,
        stage: Stage,
        module: ModuleOp,
        lines: Lines,
        links: Mapping[Operation, Sequence[int]],
    ) -> None:
        self.panes.append(pane(stage, lines, links))
        self._sections = split(lines.text, lines.sections)
        mark(module, lines, stage)

    def _python(self, module: ModuleOp) -> tuple[Pane, dict[Operation, list[int]]]:
        """The lines of the program that operations come from, and those of each operation."""
        found: dict[Operation, list[tuple[str, int]]] = {}
        for op in module.walk():
            places = [(p.filename.data, p.line.data) for p in places_of(op.location)]
            found[op] = [place for place in places if place[1] > 0]
        wanted = sorted({place for places in found.values() for place in places})
        lines: list[str] = []
        at: dict[tuple[str, int], int] = {}
        for number, (file, line) in enumerate(wanted):
            if number == 0 or file != wanted[number - 1][0]:
                lines.append(f"# {file}")
            at[file, line] = len(lines)
            lines.append(f"{line:4}  {self._line(file, line)}")
        links = {op: [at[place] for place in places] for op, places in found.items()}
        return Pane("python", lines, [[] for _ in lines], {}), links

    def _line(self, file: str, line: int) -> str:
        if file not in self.sources:
            return linecache.getline(file, line).rstrip()
        lines = self.sources[file].splitlines()
        return lines[line - 1] if line <= len(lines) else ""


def first_sentence(cls: type) -> str:
    """The first sentence of a docstring."""
    text = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def cuda_pane(module: ModuleOp, before: str) -> Pane:
    """The CUDA text of a module; its lines are linked to those of the Kernel IR, just marked."""
    text, written = print_with_lines(module)
    lines = text.splitlines()
    links: list[set[int]] = [set() for _ in lines]
    for op in module.walk():
        for line in _own_lines(op, written):
            links[line].update(origins(op, before))
    sections = {
        op.name_: (span.start, span.stop)
        for op, span in written.items()
        if isinstance(op, kernel.FuncOp)
    }
    return Pane("cuda", lines, [sorted(some) for some in links], sections)


def _own_lines(op: Operation, written: Mapping[Operation, range]) -> set[int]:
    """
    The lines of an operation but for those of what it holds; of one that wrote none those of the
    operations that use its results, in which it stands.
    """
    if op not in written:
        if isinstance(op.parent_op(), ModuleOp) or op.regions:
            return set()
        users = {use.operation for result in op.results for use in result.uses}
        return set[int]().union(*(_own_lines(user, written) for user in users))
    inner = {
        line
        for region in op.regions
        for block in region.blocks
        for held in block.ops
        if held in written
        for line in written[held]
    }
    return set(written[op]) - inner
