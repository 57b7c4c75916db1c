"""
The layers of dlc, and the picture of them in docs/architecture.md: python docs/architecture.py

`test/python/test_layers.py` holds every import to them.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

LAYERS: tuple[dict[str, str], ...] = (
    {"dlc.cli": "the commands dlc and dlc-opt"},
    {"dlc.dynamo": 'torch.compile(backend="dlc")'},
    {"dlc": "what users import"},
    {"dlc.tuning": "dlc.tune: search over schedules", "dlc.generation": "dlc.generate"},
    {"dlc_bench": "contenders, timers, counters"},
    {"dlc.compiler": "dlc.compile", "dlc.loaded": "dlc.load"},
    {
        "dlc.variant": "a program for one set of shapes",
        "dlc.shared_kernels": "kernels for all sizes of a program",
    },
    {
        "dlc.bound_kernels": "kernels for all sizes at some",
        "dlc.compile_options": "how a program is compiled",
    },
    {
        "dlc.stages": "a program in all its IRs",
        "dlc.importing": "one import for many sizes",
    },
    {
        "dlc.trace": "a program's IRs, passes and costs as a page",
        "dlc.kernel_cache": "Kernel IR on disk",
    },
    {
        "dlc.transforms": "passes: one file each, a folder for each IR",
        "dlc.judge": "is a result right?",
        "dlc.explain": "why this schedule?",
        "dlc.cuda_graph": "captured programs",
        "dlc.gradients": "by PyTorch",
        "dlc.saved": "programs as files",
        "dlc.missing_attributes": "what to ask",
    },
    {
        "dlc.schedule": "which schedule, by which estimate",
        "dlc.backend": "CUDA text, drivers, the host, exports",
        "dlc.simulator": "runs Kernel IR, finds races",
        "dlc.models": "Hugging Face models",
    },
    {
        "dlc.analysis": "questions to the IR; edits nothing",
        "dlc.frontend.export": "exported calls as Torch IR",
        "dlc.pipeline": "runs passes, shows observers",
    },
    {"dlc.frontend.scripts": "which statements are the program"},
    {"dlc.frontend.aten": "operations in fewer others"},
    {"dlc.frontend.state": "what a program reads beside its arguments"},
    {"dlc.frontend": "a program's source, its arguments, and what they must be"},
    {"dlc.dialects": "the six IRs: operations, verifiers, text, canonical forms"},
    {"dlc.target": "what is a fact of a chip"},
    {
        "dlc.ir": "index expressions, monoids, scalars, elements",
        "dlc.registry": "names to classes",
        "dlc.precision": "what products of f32 may be computed in",
    },
    {
        "dlc.passes": "the list of passes",
        "dlc.log": "what DLC_LOG shows",
        "dlc.error_report": "errors as sentences",
        "dlc.version": "which dlc",
    },
    {"dlc.plugins": "what dlc and others bring, by kind and name"},
    {
        "dlc.diagnostics": "errors with a place and a hint",
        "dlc.remarks": "what a pass did",
        "dlc.text": "tables, diffs",
        "dlc.file_kinds": "what files are for",
        "dlc.notebook": "programs in notebooks",
        "dlc.garbage": "when it is collected",
        "dlc.plugin_sources": "where plug-ins come from",
    },
    {
        "dlc.escapes": "strings of programs in texts of other languages",
        "dlc.source_files": "what keys of code are of",
    },
)
"""Top to bottom, each part with what it is: a module imports from its own part and from below."""

PICTURE = Path(__file__).with_name("layers.svg")
WIDTH, HEIGHT, GAP = 960, 46, 8


def picture() -> str:
    """The layers as SVG, light or dark as the reader's page is."""
    boxes: list[str] = []
    for row, layer in enumerate(LAYERS):
        width = (WIDTH - GAP * (len(layer) - 1)) / len(layer)
        for column, (part, what) in enumerate(layer.items()):
            x, y = column * (width + GAP), row * (HEIGHT + GAP)
            middle = x + width / 2
            boxes += [
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="4"/>',
                f'<text class="part" x="{middle:.0f}" y="{y + 19}">{escape(part)}</text>',
                f'<text x="{middle:.0f}" y="{y + 36}">{escape(what)}</text>',
            ]
    height = len(LAYERS) * (HEIGHT + GAP) - GAP
    style = (
        "rect{fill:#f4f1ea;stroke:#8a8170}text{font:11px sans-serif;text-anchor:middle;fill:#222}"
        ".part{font:bold 13px monospace}@media(prefers-color-scheme:dark){rect{fill:#26241f;"
        "stroke:#8a8170}text{fill:#eee}}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {WIDTH + 2} {height + 2}">'
    return "\n".join([head, f"<style>{style}</style>", *boxes, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
