"""
The first full run on a GPU: one command, offline, under ten minutes, nobody watching.

    python bench/first_run.py --fill wheels          # beforehand, where there is a network
    python bench/first_run.py [--wheels wheels] [--output DIRECTORY] [--budget 9.5m]
    python bench/first_run.py --rehearse             # the same on the host backend, in small

Needs a checkout, PyTorch, nvcc, and the folder of wheels, from which dlc's dependencies are
installed beside them without touching them. The stages: install, build PyCUDA if it is missing
(without it cuda-bindings launches, which PyTorch for CUDA brings along), the GPU tests, the ladder
of tensor cores, attention and linears beside their estimates, the 84 cases beside PyTorch, what a
launch costs, tokens of a language model, compute-sanitizer, counters of a few kernels. A stage that
fails or outruns its time is ended, told, and the next one begins. Writes into DIRECTORY:
measured.json, results.json, results.md, results.png, launch.json, tokens.json, stages.md, log.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite import parse_budget

ROOT = Path(__file__).resolve().parent.parent
PURE = ("xdsl==0.74.0", "immutabledict==4.3.1", "ordered-set==4.1.0")
"""What dlc needs and a machine with PyTorch may lack; wheels for every Python."""
SOURCES = ("pycuda==2026.1",)
LAST_LINES = 12
MOST_LOG_BYTES = 12 << 20
REHEARSED = r"^suite/(rmsnorm|softmax)\.tl\.s32$"
SMALL = r"^halves/tl\.kv_proj\.s1$"
PROFILED = "torch.randn(512,2048) @ torch.randn(2048,2048)"
GPU_TESTS = (
    "test/python/test_gpu_mechanisms.py",
    "test/python/test_gpu.py",
    "test/python/test_gpu_programs.py",
)
"""The first took 44 seconds beside an H100 with 16 cores, the second 33, the third twice that."""
GROUPS = "ladder", "attention", "halves"
"""Of bench/measured.py."""
AFTER_TIMES = 190.0
"""Seconds for the stages after the times."""


@dataclass
class Stage:
    """A command with the most seconds that it may take."""

    name: str
    seconds: float
    command: Sequence[str]
    elapsed: float = 0.0
    verdict: str = "not begun"
    last: list[str] = field(default_factory=list)


class Run:
    """The stages of one run, their environment and their log."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.output: Path = options.output
        self.output.mkdir(parents=True, exist_ok=True)
        self.log = self.output / "log.txt"
        self.log.write_text("")
        self.work = Path(tempfile.mkdtemp(prefix="dlc-first-run-"))
        self.deadline = time.monotonic() + options.budget
        self.stages: list[Stage] = []
        paths = [self.work / "site", self.work / "pycuda", ROOT, ROOT / "bench"]
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONUNBUFFERED": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # what the machine has may warn, which fails
            "DLC_COMMIT": os.environ.get("DLC_COMMIT") or commit(),
        }

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def stage(self, name: str, seconds: float, *command: str) -> Stage:
        """Runs a command, ended after `seconds` or when the budget is spent; tells how it went."""
        patient = seconds * self.options.patience
        stage = Stage(name, max(0.0, min(patient, self.left)), command)
        self.stages.append(stage)
        begin = time.monotonic()
        if stage.seconds < 1:
            stage.verdict = "not begun: the budget is spent"
        else:
            stage.verdict = self._execute(stage)
        stage.elapsed = time.monotonic() - begin
        print(f"{name}: {stage.verdict}, {stage.elapsed:.0f} s", flush=True)
        self.write_stages()
        return stage

    def _execute(self, stage: Stage) -> str:
        with self.log.open("a") as log:
            log.write(f"\n======== {stage.name}: {' '.join(stage.command)}\n")
            log.flush()
            begin = log.tell()
            try:
                process = subprocess.Popen(
                    stage.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT,
                    env=self.environment, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                return f"cannot be started: {error.strerror}"
            try:
                code = process.wait(stage.seconds)
                verdict = "done" if code == 0 else f"failed with code {code}"
            except subprocess.TimeoutExpired:
                verdict = f"ended after {stage.seconds:.0f} s"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with self.log.open("rb") as stream:
            stream.seek(begin)
            said = stream.read().decode(errors="replace").splitlines()
        stage.last = [line for line in said if line.strip()][-LAST_LINES:]
        return verdict

    def write_stages(self) -> None:
        """What happened so far, as Markdown."""
        lines = ["# First run", "", f"commit {self.environment['DLC_COMMIT']}", "",
                 "| stage | verdict | seconds | of at most |", "|---|---|---|---|"]  # fmt: skip
        lines += [
            f"| {s.name} | {s.verdict} | {s.elapsed:.0f} | {s.seconds:.0f} |" for s in self.stages
        ]
        for stage in self.stages:
            lines += ["", f"## {stage.name}", "", "```", *stage.last, "```"]
        (self.output / "stages.md").write_text("\n".join(lines) + "\n")

    def python(self, *arguments: str) -> list[str]:
        return [sys.executable, *arguments]

    def finish(self) -> None:
        """Keeps the log small enough to be carried away, and removes what was built."""
        if self.log.stat().st_size > MOST_LOG_BYTES:
            tail = self.log.read_bytes()[-MOST_LOG_BYTES:]
            self.log.write_bytes(b"(the beginning is cut off)\n" + tail)
        shutil.rmtree(self.work, ignore_errors=True)


def commit() -> str:
    """Of the checkout, or `unknown` where it has no history."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
    with contextlib.suppress(OSError):  # there may be no git
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout.strip() or "unknown"
    return "unknown"


def fill(folder: Path) -> int:
    """Downloads what `install` and `pycuda` take; the wheels are for any platform."""
    folder.mkdir(parents=True, exist_ok=True)
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    wheels = subprocess.run([*download, "--only-binary=:all:", *PURE]).returncode
    sources = subprocess.run(
        [*download, "--no-binary=:all:", "--no-build-isolation", *SOURCES]
    ).returncode
    return wheels or sources


def install(run: Run) -> None:
    """Wheels beside the machine's packages, found before them."""
    wheels = sorted(map(str, run.options.wheels.glob("*.whl")))
    if not wheels:
        print(f"install: no wheels in {run.options.wheels}, what is installed is taken", flush=True)
        return
    run.stage(
        "install", 60, *run.python("-m", "pip", "install", "-q", "--no-index", "--no-deps",
                                   "--no-compile", "--target", str(run.work / "site"), *wheels),
    )  # fmt: skip


SITECONF = """\
CUDA_ROOT = {root!r}
CUDA_INC_DIR = [{root!r} + "/include"]
CUDADRV_LIB_DIR = [{stub!r}]
CUDA_ENABLE_CURAND = False
CXXFLAGS = ["-O1", "-g0", "-w"]
LDFLAGS = ["-L" + {stub!r}, "-Wl,--no-as-needed", "-lcuda"]
"""
"""
PyCUDA's build without its random numbers, which would need another library's headers. A linker may
leave out a library that gives it no symbols, as the empty one does.
"""
PARALLEL_BUILD = """\
import os, runpy
from concurrent.futures import ThreadPoolExecutor
import setuptools
from distutils.ccompiler import CCompiler

def compile(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0,
            extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, post, options, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    arguments = self._get_cc_args(options, debug, extra_preargs)
    def one(made):
        self._compile(made, *build[made], arguments, post, options)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, build))
    return objects

CCompiler.compile = compile
runpy.run_path("setup.py", run_name="__main__")
"""
"""Runs a setup.py whose files are compiled side by side, of which setuptools knows nothing."""


def toolkit(nvcc: str) -> Path:
    """Where the toolkit of an nvcc is, which may be a script that calls the true one."""
    with contextlib.suppress(OSError):
        command = [nvcc, "--dryrun", "-x", "cu", "-c", os.devnull, "-o", os.devnull]
        told = subprocess.run(command, capture_output=True, text=True)
        if found := re.search(r"^#\$ TOP=(.+)$", told.stderr + told.stdout, re.MULTILINE):
            return Path(os.path.realpath(found[1].strip()))
    return Path(os.path.realpath(nvcc)).parent.parent


def build_pycuda(run: Run) -> None:
    """
    PyCUDA from its sources, in place, linked to an empty library of the driver's name: the
    driver's own is found when it is loaded.
    """
    archives = sorted(run.options.wheels.glob("pycuda-*.tar.gz"))
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    probe = subprocess.run(run.python("-c", "import pycuda.driver"), env=run.environment,
                           capture_output=True)  # fmt: skip
    if probe.returncode == 0 or not archives:
        print("pycuda: " + ("is there" if probe.returncode == 0 else "no sources"), flush=True)
        return
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(run.work, filter="data")
    [unpacked] = run.work.glob("pycuda-*/")
    unpacked.rename(run.work / "pycuda")
    stub = run.work / "stub"
    stub.mkdir()
    (stub / "empty.c").write_text("")
    library = ["-shared", "-Wl,-soname,libcuda.so.1", "-o", str(stub / "libcuda.so")]
    with contextlib.suppress(OSError):  # the build then says that there is no compiler
        subprocess.run(["gcc", *library, str(stub / "empty.c")], check=False)
    site = SITECONF.format(root=str(toolkit(nvcc)), stub=str(stub))
    (run.work / "pycuda" / "siteconf.py").write_text(site)
    (run.work / "pycuda" / "build_parallel.py").write_text(PARALLEL_BUILD)
    build = f"cd {run.work / 'pycuda'} && {sys.executable} build_parallel.py build_ext --inplace"
    test = "" if run.options.rehearse else f" && {sys.executable} -c 'import pycuda.driver'"
    done = run.stage("pycuda", 90, "bash", "-c", build + test)
    if done.verdict != "done":  # a half of it must not be found
        shutil.rmtree(run.work / "pycuda", ignore_errors=True)


def measure(run: Run) -> None:
    """Tests, results, times, sanitizer, counters."""
    rehearse = run.options.rehearse
    backend = "host" if rehearse else "cuda"
    suite = ["bench/suite.py", "--backend", backend, "--output", str(run.output / "results"),
             "--log", str(run.log)]  # fmt: skip
    if rehearse:
        suite += ["--only", REHEARSED, "--seconds", "0.05", "--jobs", "1", "--patience", "10"]
    tests = ("test/python/test_executor.py",) if rehearse else GPU_TESTS
    cores = os.cpu_count() or 1  # most of what a test takes is nvcc, on one core
    side_by_side = ["-p", "xdist.plugin", "--dist", "worksteal", "--max-worker-restart", "60",
                    "-n", "1" if rehearse else str(cores)]  # fmt: skip
    if importlib.util.find_spec("xdist") is None:
        side_by_side = []
    pytest = ["-m", "pytest", "-v", "--tb=short", "-W", "default", "-p", "no:cacheprovider"]
    run.stage("tests", 120, *run.python(*pytest, *side_by_side, *tests))
    measured = ["bench/measured.py", "--backend", backend, "--log", str(run.log), "--output",
                str(run.output / "measured"), "--budget", "75s"]  # fmt: skip
    groups = ["--only", SMALL, "--target", "sm_90"] if rehearse else []
    groups = groups or [word for group in GROUPS for word in ("--group", group)]
    run.stage("measured", 85, *run.python(*measured, *groups))
    after = 0 if rehearse else AFTER_TIMES
    timing = max(30.0, run.left - after - 20)
    peers = "eager" if rehearse else "eager,torch.compile"
    run.stage(
        "times", timing + 15, *run.python(*suite, "--peers", peers, "--budget", f"{timing:.0f}s")
    )
    run.stage(
        "launches", 30,
        *run.python("bench/launch.py", "--backend", backend, "--output",
                    str(run.output / "launch.json"), *(["--repeat", "2"] if rehearse else [])),
    )  # fmt: skip
    tokens = ["bench/generation.py", "--output", str(run.output / "tokens"), "--budget", "65s"]
    case = ["--rehearse"] if rehearse else ["--only", "TinyLlama b1$"]
    run.stage("tokens", 75, *run.python(*tokens, *case))
    run.stage(
        "sanitizer",
        80,
        *run.python(
            "bench/sanitize.py",
            "--backend",
            backend,
            "--budget",
            f"{75 * run.options.patience:.0f}s",
        ),
    )
    run.stage(
        "counters", 60,
        *run.python("-m", "dlc.cli.dlc_cli", "run", "--backend", backend, "--profile", "-c",
                    "torch.randn(8,64) @ torch.randn(64,32)" if rehearse else PROFILED),
    )  # fmt: skip


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().split("\n")[0])
    default = Path(os.environ.get("OUT") or ROOT / "build" / "first_run")
    parser.add_argument("--wheels", type=Path, default=ROOT / "wheels")
    parser.add_argument("--output", type=Path, default=default)
    parser.add_argument("--budget", type=parse_budget, default=parse_budget("9.5m"))
    parser.add_argument("--patience", type=float, default=1.0, help="times as long for a stage")
    parser.add_argument("--rehearse", action="store_true", help="on the host backend, in small")
    parser.add_argument("--fill", type=Path, metavar="FOLDER", help="download wheels, and end")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    options = make_parser().parse_args(argv)
    if options.fill:
        return fill(options.fill)
    run = Run(options)
    try:
        install(run)
        build_pycuda(run)
        measure(run)
    finally:
        run.write_stages()
        run.finish()
    print((run.output / "stages.md").read_text().partition("\n## ")[0])
    report = run.output / "results.md"
    if report.exists():
        print(report.read_text().partition("\n## Cases")[0])
    return 0 if all(stage.verdict == "done" for stage in run.stages) else 1


if __name__ == "__main__":
    sys.exit(main())
