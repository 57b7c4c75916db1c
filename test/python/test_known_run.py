"""A second `dlc run` finds the program by what was exported, and says what the first one said."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from caches import own_cache
from families import FAMILIES, Program, arguments

from dlc import kernel_cache
from dlc.backend import BackendError
from dlc.backend.executor import Executor
from dlc.cli import dlc_cli, known_run
from dlc.cli.job import Job
from dlc.cli.observers import Remarks, Timing
from dlc.cli.program_input import Loaded
from dlc.frontend.export.export_text import text_of_export
from dlc.frontend.export.exported_call import ExportedCall, export_call
from dlc.frontend.export.fx import import_call
from dlc.frontend.scripts.capture import capture_text
from dlc.judge.plain_calls import PlainCalls
from dlc.judge.plain_program import plain_calls
from dlc.judge.reference import evaluate
from dlc.pipeline import text_of
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = own_cache(tmp_path / "cache")
    monkeypatch.setenv("DLC_CACHE_DIR", str(made))
    return made


PROGRAMS = {
    "several results": "x = torch.randn(6, 40)\nx.softmax(-1), x.max(-1), x @ x.t()",
    "views": "x = torch.randn(6, 8)\ny = x * 2\ny, y.t(), x.t(), x[1:]",
    "written": "x = torch.randn(6, 8)\nx.mul_(2)\nx.sum(0), x",
    "a buffer": "torch.nn.BatchNorm1d(8)(torch.randn(6, 8))",
    "constants": "x = torch.randn(6, 8)\n(x + 1, 3, 'text', None)",
    "random": "x = torch.randn(6, 8)\ntorch.nn.functional.dropout(x, 0.5) + torch.randn(6, 8)",
    "complex": "x = torch.randn(6, 8, dtype=torch.complex64)\nx * (1 + 2j), x.conj()",
    "halves": "torch.nn.RMSNorm(64)(torch.randn(4, 64, dtype=torch.float16))",
    "integers": "x = torch.randint(0, 9, (6, 8))\nx // 3, x > 4",
    "nothing": "torch.randn(0, 8).softmax(-1)",
}


def ran(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str, str]:
    """Exit code, standard output without times, and the errors."""
    code = dlc_cli.main(["run", *command, "--backend", "host"])
    out, err = capsys.readouterr()
    return code, re.sub(r"^[- ]+$| +[\d.]+ (ms|us|s)$", "", out, flags=re.MULTILINE), err


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each run in this process that looks for its program, whether it is there."""
    answers: list[bool] = []
    look = known_run.known_run

    def spied(key: str) -> known_run.KnownRun | None:
        known = look(key)
        answers.append(known is not None)
        return known

    monkeypatch.setattr("dlc.cli.run_report.known_run", spied)
    return answers


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_run_says_the_same(
    name: str, capsys: pytest.CaptureFixture[str], found: list[bool]
):
    first, second = (ran(capsys, "-c", PROGRAMS[name]) for _ in range(2))
    assert first == second
    assert found == [False, True]
    assert first[0] == 0


def test_control_flow_takes_the_old_road(capsys: pytest.CaptureFixture[str], found: list[bool]):
    text = "x = torch.randn(4)\ntorch.cond(x.sum() > 0, lambda x: x + 1, lambda x: -x, (x,))"
    first, second = (ran(capsys, "-c", text) for _ in range(2))
    assert first == second
    assert found == [False, False]


def test_a_wrong_result_is_wrong_twice(
    capsys: pytest.CaptureFixture[str], found: list[bool], monkeypatch: pytest.MonkeyPatch
):
    call = Executor.__call__

    def wrong(self: Executor, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        return [result + 1 for result in call(self, *args, **kwargs)]

    monkeypatch.setattr(Executor, "__call__", wrong)
    first, second = (ran(capsys, "-c", PROGRAMS["several results"]) for _ in range(2))
    assert first == second
    assert first[0] == 1
    assert "WRONG" in first[1]
    assert found == [False, True]


def test_what_pytorch_refuses_has_its_place_twice(
    capsys: pytest.CaptureFixture[str], found: list[bool], tmp_path: Path
):
    """Indices are values, by which nothing is found: first they are in range, then not."""
    script = tmp_path / "script.py"
    outputs: list[tuple[int, str, str]] = []
    for last in (3, 19, 19):  # of another length, as bytecode is found by length and second
        values = "import torch\nfrom held import I\nx = torch.randn(4, 8)\ny = x[I]\n"
        (tmp_path / "held.py").write_text(f"import torch\nI = torch.tensor([0, {last}])\n")
        script.write_text(values)
        sys.modules.pop("held", None)
        outputs.append(ran(capsys, str(script)))
    assert found == [False, True, True]
    assert [code for code, _, _ in outputs] == [0, 1, 1]
    assert outputs[1] == outputs[2]
    assert f"{script}:4:" in outputs[1][2]
    assert "out of" in outputs[1][2]


def exported(text: str) -> ExportedCall:
    return export_call(*capture_text(text), whole=DECOMPOSITIONS)


def key(text: str, target: str = "sm_90", **options: Any) -> str | None:
    timing = Timing()
    loaded = Loaded(lambda: pytest.fail("not imported"), exported(text), (), target)
    given = Namespace(**{"bench": False, "profile": False, "freeze": False} | options)
    return known_run.key_of(Job(loaded, given, [timing], timing, {}))


BASE = "x = torch.randn(6, 8)\nx * 2"
OTHERS = {
    "shape": "x = torch.randn(6, 9)\nx * 2",
    "dtype": "x = torch.randn(6, 8, dtype=torch.float64)\nx * 2",
    "strides": "x = torch.randn(8, 6).t()\nx * 2",
    "an integer that was one": "x = torch.randn(6, 8)\nx * 2.0",
    "a number": "x = torch.randn(6, 8)\nx * 3",
    "an operation": "x = torch.randn(6, 8)\nx + 2",
    "a name": "y = torch.randn(6, 8)\ny * 2",
    "a line": "x = torch.randn(6, 8)\n\nx * 2",
    "a column": "x = torch.randn(6, 8)\nif True:\n  y = x * 2\ny",
    "one more result": "x = torch.randn(6, 8)\nx * 2, x",
    "a write": "x = torch.randn(6, 8)\nx.mul_(2)",
    "a structure": "x = torch.randn(6, 8)\n{'a': x * 2}",
    "a constant result": "x = torch.randn(6, 8)\nx * 2, 1",
    "another constant result": "x = torch.randn(6, 8)\nx * 2, True",
    "a view of it": "x = torch.randn(6, 8)\n(x * 2).t()",
    "a parameter": "torch.nn.Linear(8, 8)(torch.randn(6, 8))",
    "without its bias": "torch.nn.Linear(8, 8, bias=False)(torch.randn(6, 8))",
    "training": "torch.nn.Dropout(0.5)(torch.randn(6, 8))",
    "evaluation": "torch.nn.Dropout(0.5).eval()(torch.randn(6, 8))",
    "statistics": "torch.nn.BatchNorm1d(8)(torch.randn(6, 8))",
    "their use": "torch.nn.BatchNorm1d(8).eval()(torch.randn(6, 8))",
    "an epsilon": "torch.nn.LayerNorm(8, eps=1e-5)(torch.randn(6, 8))",
    "another epsilon": "torch.nn.LayerNorm(8, eps=1e-6)(torch.randn(6, 8))",
    "a body": "x = torch.randn(4)\ntorch.cond(x.sum() > 0, lambda x: x + 1, lambda x: -x, (x,))",
    "its body": "x = torch.randn(4)\ntorch.cond(x.sum() > 0, lambda x: x + 2, lambda x: -x, (x,))",
}


def test_whatever_changes_the_program_changes_its_key():
    keys = {name: key(text) for name, text in {"base": BASE, **OTHERS}.items()}
    assert None not in keys.values()
    same = [name for name in keys if list(keys.values()).count(keys[name]) > 1]
    assert not same
    assert key(BASE) == keys["base"]


def test_another_chip_promise_pytorch_or_dlc_has_another_key(monkeypatch: pytest.MonkeyPatch):
    keys = [key(BASE), key(BASE, "sm_80"), key(BASE, freeze=True)]
    for change in ("dlc.cli.known_run.source_key", "torch.__version__"):
        with monkeypatch.context() as patch:
            other = (lambda: "another") if change.endswith("key") else "another"
            patch.setattr(change, other)
            keys.append(key(BASE))
    assert len(set(keys)) == len(keys)


def test_memory_changes_the_key():
    """Alignment and strides are the call's; elements are not in the IR."""

    def text(x: torch.Tensor, *more: torch.Tensor) -> str | None:
        return text_of_export(export_call(lambda *args: args[0] * 2, (x, *more)))

    flat = torch.zeros(65)
    x = flat[:64]
    assert text(x) == text(x.clone()) == text(torch.randn(64))
    texts = [text(x), text(flat[1:]), text(torch.zeros(64, 2)[:, 0]), text(x.double()), text(x, x)]
    assert len(set(texts)) == len(texts)


def test_runs_that_need_the_ir_have_no_key():
    assert key(BASE, bench=True) is None
    assert key(BASE, profile=True) is None
    timing = Timing()
    loaded = Loaded(lambda: pytest.fail("not imported"), exported(BASE), (), "sm_90")
    for watched in ([Remarks(), timing], [timing, Remarks()], []):
        options = Namespace(bench=False, profile=False)
        assert known_run.key_of(Job(loaded, options, watched, timing, {})) is None


def test_what_has_no_text_has_no_key():
    call = exported(BASE)
    (node,) = (n for n in call.compute if "mul" in n.name)
    node.args = (node.args[0], object())  # pyright: ignore[reportAttributeAccessIssue]
    assert text_of_export(call) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_calls_are_the_program(name: str):
    cases = FAMILIES[name][:6]
    args = arguments(cases)
    program = import_call(export_call(Program(cases), args, whole=DECOMPOSITIONS))
    calls = plain_calls(program.module)
    assert calls is not None
    stored = PlainCalls.of_json(calls.to_json())
    assert stored == calls
    bound = [t.detach() for t in program.bind(args)]
    for double in (False, True):
        wanted = evaluate(program.module, bound, double=double)
        for one, other in zip(stored.evaluate(bound, double=double), wanted, strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one.nan_to_num(7), other.nan_to_num(7))


class Meta(dict[str, Any]):
    """What is known of a node, and which of it was read."""

    read: ClassVar[set[str]] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize("text", list(PROGRAMS.values()))
def test_the_importer_reads_what_the_text_tells(text: str):
    call = exported(text)
    for node in call.exported.graph_module.graph.nodes:
        node.meta = Meta(node.meta)
    Meta.read.clear()
    import_call(call)
    assert Meta.read <= {"val", "stack_trace"}


def test_equal_texts_are_equal_ir():
    """Over programs that differ in one thing each, and each of them twice."""
    made: dict[str, str] = {}
    for text in [*PROGRAMS.values(), *PROGRAMS.values(), BASE, *OTHERS.values()]:
        call = exported(text)
        told = text_of_export(call)
        assert told is not None
        ir = text_of(import_call(call).module)
        assert made.setdefault(told, ir) == ir
    assert len(made) == len({*PROGRAMS.values(), BASE, *OTHERS.values()})


COMMAND = ["run", "-c", "torch.randn(4, 40).softmax(-1)", "--backend", "host"]


def test_a_second_run_imports_no_more_than_it_needs(cache: Path):
    """Neither xDSL and what compiles, nor what is for other programs, nor g++'s form of headers."""
    kernel_cache.lowered_overloads.cache_clear()  # they are in the cache, too
    assert dlc_cli.main(COMMAND) == 0
    for header in cache.glob("host-header-*"):
        shutil.rmtree(header)
    code = (
        f"import sys; from dlc.cli.dlc_cli import main; assert main({COMMAND}) == 0; "
        "print('loaded', *sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    needless = ("xdsl", "dlc.dialects", "dlc.transforms", "dlc.schedule", "dlc.simulator",
                "dlc.pipeline", "dlc.registry", "dlc.compiler", "dlc.ir.sizes",
                "dlc.frontend.export.fx", "dlc.frontend.export.imported",
                "dlc.frontend.export.sized_call", "dlc.frontend.aten.decomposing",
                "dlc.frontend.aten.factorizations", "dlc.frontend.aten.unchecked_functions",
                "dlc.backend.memory_use", "dlc.backend.cuda", "dlc.backend.export")  # fmt: skip
    found = {name for name in loaded if name.startswith(needless)}
    assert found <= {"xdsl", "xdsl.utils", "xdsl.utils.exceptions"}  # the classes of errors
    assert "host-header" not in entries(cache)


def test_no_collection_looks_at_what_is_imported():
    """PyTorch's objects are some 400,000: to look at them takes as long as the whole of dlc."""
    assert dlc_cli.main(COMMAND) == 0
    code = (
        "import gc; from dlc.cli.dlc_cli import main; looked = [0]\n"
        "gc.callbacks.append(lambda phase, _: looked.append(len(gc.get_objects())))\n"
        f"assert main({COMMAND}) == 0; print('looked at', max(looked))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 40_000


def entries(cache: Path) -> Mapping[str, Path]:
    return {path.name.rpartition("-")[0]: path for path in cache.iterdir()}


def test_a_damaged_or_lost_entry_is_written_anew(
    cache: Path, capsys: pytest.CaptureFixture[str], found: list[bool]
):
    first = ran(capsys, "-c", BASE)
    (entries(cache)["run"] / "run.json").write_text("{}")
    second = ran(capsys, "-c", BASE)
    entries(cache)["kernel-ir"].rename(cache / "elsewhere")
    outputs: Sequence[object] = [first, second, *(ran(capsys, "-c", BASE) for _ in range(2))]
    assert found == [False, False, False, True]
    assert all(output == first for output in outputs)


def test_what_others_may_write_is_refused(cache: Path, capsys: pytest.CaptureFixture[str]):
    ran(capsys, "-c", BASE)
    entry = entries(cache)["run"]
    assert entry.stat().st_mode & 0o777 == 0o700
    entry.chmod(0o777)
    with pytest.raises(BackendError, match="is another user's, or others may write to it"):
        known_run.known_run(entry.name.rpartition("-")[2])
    code, _, err = ran(capsys, "-c", BASE)
    assert (code, "remove it" in err) == (1, True)
