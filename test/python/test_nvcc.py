"""nvcc: found, driven, and its report read."""

import importlib.metadata
import re
from pathlib import Path

import pytest

from dlc.backend import BackendError
from dlc.backend.cuda.run import nvcc, tools

SOURCE = """extern "C" __global__ void __launch_bounds__(256) twice(float* x, int n) {
  __shared__ float s[512];
  const int i = blockIdx.x * 256 + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) x[i] = s[threadIdx.x] + s[threadIdx.x ^ 1];
}
"""


def has_nvcc() -> bool:
    try:
        nvcc.find_nvcc()
    except BackendError:
        return False
    return True


needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="needs nvcc")


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_path_is_preferred_to_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "a" / "nvcc", "exit 0")
    program(tmp_path / "home" / "bin" / "nvcc", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "a"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert nvcc.find_nvcc() == tmp_path / "a" / "nvcc"
    monkeypatch.setenv("PATH", "")
    assert nvcc.find_nvcc() == tmp_path / "home" / "bin" / "nvcc"


def wheel(site: Path, name: str, *files: str) -> None:
    """An installed distribution with these files, as pip leaves it."""
    info = site / f"{name.replace('-', '_')}-13.0.88.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 13.0.88\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        program(site / file, "exit 0")


def test_wheels_are_found_without_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(tools, "TOOLKIT", str(tmp_path / "toolkit"))
    finder = importlib.metadata.MetadataPathFinder()
    monkeypatch.setattr(
        importlib.metadata, "distribution",
        lambda name: next(iter(finder.find_distributions(
            importlib.metadata.DistributionFinder.Context(name=name, path=[str(tmp_path)])
        )), None) or _missing(name),
    )  # fmt: skip
    with pytest.raises(BackendError, match=r"nvcc was not found on PATH.*pip install"):
        nvcc.find_nvcc()
    wheel(tmp_path, "nvidia-cuda-nvcc", "nvidia/cu13/bin/nvcc", "nvidia/cu13/bin/ptxas")
    wheel(tmp_path, "nvidia-cuda-crt")
    with pytest.raises(BackendError, match="also needs nvidia-cuda-runtime, nvidia-nvvm"):
        nvcc.find_nvcc()
    wheel(tmp_path, "nvidia-cuda-runtime")
    wheel(tmp_path, "nvidia-nvvm")
    assert nvcc.find_nvcc() == (tmp_path / "nvidia/cu13/bin/nvcc").resolve()


def _missing(name: str) -> importlib.metadata.Distribution:
    raise importlib.metadata.PackageNotFoundError(name)


@needs_nvcc
def test_compile_reads_the_report_and_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    cubin = nvcc.compile_cubin(SOURCE, "sm_90")
    assert cubin.path.read_bytes()[:4] == b"\x7fELF"
    assert 0 < cubin.registers < 64
    assert (cubin.spill_bytes, cubin.shared_bytes, cubin.stack) == (0, 2048, 0)
    run = nvcc._run
    monkeypatch.setattr(
        nvcc, "_run", lambda command: run(command) if "--version" in command else pytest.fail("ran")
    )
    assert nvcc.compile_cubin(SOURCE, "sm_90") == cubin


@needs_nvcc
def test_an_error_keeps_the_source() -> None:
    with pytest.raises(BackendError, match='identifier "nonsense" is undefined') as caught:
        nvcc.compile_cubin(SOURCE.replace("? x[i]", "? nonsense[i]"), "sm_80")
    found = re.search(r"nvcc refuses (\S+) for sm_80", str(caught.value))
    assert found
    assert "nonsense" in Path(found[1]).read_text()


@needs_nvcc
def test_texts_are_compiled_at_once_and_equal_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    other = SOURCE.replace("twice", "other")
    a, b, c = nvcc.compile_cubins(
        [SOURCE, other, SOURCE], "sm_90", lambda done, of: told.append((done, of))
    )
    assert a == c != b
    assert told == [(1, 2), (2, 2)]
    with pytest.raises(BackendError, match="nvcc refuses"):
        nvcc.compile_cubins([other, SOURCE.replace("int i", "int 0")], "sm_90")


@needs_nvcc
def test_options_from_the_environment_make_another_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = nvcc.compile_cubin(SOURCE)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-lineinfo")
    assert nvcc.compile_cubin(SOURCE).path != plain.path


@needs_nvcc
def test_an_architecture_that_nvcc_does_not_know() -> None:
    with pytest.raises(BackendError, match=r"nvcc 1\d\.\d+ does not know sm_61: put one on PATH"):
        nvcc.compile_cubin(SOURCE, "sm_61")


def test_usage_takes_the_largest() -> None:
    log = """ptxas info    : Function properties for a
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 20 registers, used 1 barriers, 2048 bytes smem, 376 bytes cmem[0]
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 120 registers, used 0 barriers"""
    remark = "ptxas info : (C7514) Potential Performance Loss: wgmma.mma_async instructions are"
    ignored = "ptxas info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to"
    assert nvcc._usage(f"{log}\n{ignored} determine register count")["serialized"] == 1
    assert nvcc._usage(f"{log}\n{remark} serialized") == {
        "registers": 120, "spill_stores": 4, "spill_loads": 12, "shared_bytes": 2048, "stack": 8,
        "serialized": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "exact"),
    [("cp.async.bulk.tensor.2d", "sm_90"), ("wgmma.mma_async", "sm_90a"), ("setmaxnreg", "sm_90a")],
)
def test_the_a_target_only_where_needed(text: str, exact: str) -> None:
    assert nvcc.exact_arch(text, "sm_90") == exact
    assert nvcc.exact_arch(text, "sm_90a") == "sm_90a"
