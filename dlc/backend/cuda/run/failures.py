"""Failures of a GPU as sentences: what failed, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dlc.backend import BackendError, LaunchError
from dlc.backend.cuda.run.driver import (
    FATAL,
    LOAD_FAILURES,
    OUT_OF_MEMORY,
    OUT_OF_RESOURCES,
    DriverError,
)
from dlc.backend.kernel_image import KernelImage
from dlc.target import MAX_GRID, OLDEST_CAPABILITY

_MEMORY = "make room, take smaller inputs, or take the backend 'host'"
_DEAD = "this process cannot use the GPU any more"


def check_gpu(name: str, capability: tuple[int, int]) -> None:
    """BackendError for a GPU that is older than every target."""
    if capability < OLDEST_CAPABILITY:
        raise BackendError(
            f"dlc's kernels need a GPU of compute capability {_dotted(OLDEST_CAPABILITY)} or "
            f"newer, and {name} has {_dotted(capability)}; take the backend 'host'"
        )


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def check_target(target: str, name: str, capability: tuple[int, int]) -> None:
    """BackendError where kernels are scheduled for a newer GPU than the one at hand."""
    major, minor = capability
    if int(target.removeprefix("sm_")) > 10 * major + minor:
        raise BackendError(
            f"the kernels are scheduled for {target}, which is newer than {name} "
            f"(sm_{major}{minor}); compile for a target that it includes, or take the backend "
            "'host'"
        )


def check_grid(func: KernelImage) -> None:
    """LaunchError for a kernel of more blocks than a launch can have."""
    if func.grid_size > MAX_GRID:
        raise LaunchError(
            f"{func.name_} has {func.grid_size} blocks, and a launch at most {MAX_GRID}: take "
            "smaller inputs, or larger blocks"
        )


def check_shared(func: KernelImage, name: str, limit: int) -> None:
    """LaunchError for a kernel whose blocks want more shared memory than the GPU has."""
    wanted = func.shared_bytes
    if wanted > limit:
        raise LaunchError(
            f"a block of {func.name_} wants {wanted} bytes of shared memory, and {name} has "
            f"{limit}; compile it for this GPU's target, or take the backend 'host'"
        )


def load_failure(func: KernelImage, arch: str, error: DriverError) -> BackendError:
    """A cubin that the driver does not load."""
    if error.code == OUT_OF_MEMORY:
        return BackendError(f"there is no memory on the GPU to load {func.name_}; {_MEMORY}")
    if error.code in LOAD_FAILURES:
        return BackendError(
            f"the driver cannot load {func.name_}, compiled by nvcc for {arch} ({error}); an nvcc "
            "that is newer than the driver makes such files: update the driver, put an nvcc of "
            "its CUDA version on PATH, or take the backend 'host'"
        )
    return BackendError(f"{func.name_} cannot be loaded for {arch}: {error}")


def launch_failure(
    func: KernelImage, addresses: Sequence[int], error: DriverError, *, waited: bool
) -> LaunchError:
    """A launch that fails; `waited` if the kernel, and all before it, had run to their end."""
    if error.code in FATAL and not waited:
        what = (
            f"the GPU reports {error} at its launch, which an earlier kernel may have caused: run "
            f"again with --sync (in Python: sync=True) to see which; {_DEAD}"
        )
    elif error.code in FATAL:
        what = f"it fails while it runs: {error}; {_DEAD}"
    elif error.code == OUT_OF_RESOURCES:
        what = f"a block of it wants more registers or threads than the GPU has: {error}"
    elif error.code == OUT_OF_MEMORY:
        what = f"there is no memory on the GPU to launch it: {error}; {_MEMORY}"
    else:
        what = f"it cannot be launched: {error}"
    arguments = ", ".join(
        f"{buffer} at {address:#x}" for buffer, address in zip(func.buffers, addresses, strict=True)
    )
    return LaunchError(
        f"{func.name_}: {what} (grid {func.grid_size}, block {func.block_size}, "
        f"{func.shared_bytes} bytes of shared memory, arguments {arguments})"
    )


def explain(error: BaseException, device: torch.device) -> LaunchError | None:
    """The error to raise for one that ended a program on the GPU; None if the GPU did not fail."""
    first = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    if isinstance(error, torch.OutOfMemoryError):
        return LaunchError(f"there is not enough memory on {device} ({first}); {_MEMORY}")
    if isinstance(error, DriverError) and error.code not in FATAL:
        return LaunchError(f"the CUDA driver refuses a call on {device}: {error}")
    if isinstance(error, torch.AcceleratorError | DriverError):
        return LaunchError(
            f"a kernel failed on {device} ({first}): run again with --sync (in Python: sync=True) "
            f"to see which; {_DEAD}"
        )
    return None
