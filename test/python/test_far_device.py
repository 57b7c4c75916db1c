"""Programs whose tensors lie on another device than the CPU: what no test on a CPU alone sees."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.cpp_extension import include_paths

from dlc.backend import BackendError
from dlc.backend.host.cxx import compiler

HERE = Path(__file__).parent
SOURCE = HERE / "far_device" / "far_device.cpp"


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Path:
    """The device, compiled once for this PyTorch."""
    if torch.version.cuda is not None or not sys.platform.startswith("linux"):
        pytest.skip("a PyTorch for CUDA has a device of that name itself")
    try:
        command = [*compiler(), "-O0", "-std=c++20", "-fPIC", "-shared"]
    except BackendError as error:
        pytest.skip(str(error))
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    path = Path(request.config.cache.mkdir("far_device")) / f"{key}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        torch_libraries = Path(torch.__file__).parent / "lib"
        command += [f"-I{folder}" for folder in include_paths()]
        command += [str(SOURCE), "-o", str(made), f"-L{torch_libraries}", "-ltorch_cpu", "-lc10"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        made.replace(path)
    return path


def test_programs_on_another_device(library: Path) -> None:
    """In a process of their own, whose PyTorch has that device from the beginning."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"FAR_DEVICE": str(library), "PYTHONPATH": os.pathsep.join(paths)}
    plugins = ["-p", "far_device.load", "-p", "no:cacheprovider"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *plugins,
        str(HERE / "far_device" / "cases.py"),
    ]
    done = subprocess.run(
        command, env=os.environ | own, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout + done.stderr
