"""
dlc: a hackable compiler from PyTorch programs to CUDA kernels, through six IRs.

    f = dlc.compile(module_or_function, example_args, target="sm_90", backend="host")
    y = f(*args)
    print(f.ir("tile"))
    print(f.kernels[0].source)
    g = f.with_schedule({"matmul": "tileify,blockify-launch{block=64,64 thread=16,16}"})
    h = dlc.load("edited.mlir")
    dlc.load_plugin("my_steps.py")
    tokens = dlc.generate(model, [[1, 15043, 29892]], max_new_tokens=32)
    print(dlc.tune(module_or_function, example_args, objective="static", budget="60s"))

`import dlc` loads neither PyTorch nor xDSL; the first use of a name does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dlc.version import VERSION

if TYPE_CHECKING:
    from dlc.compiler import CompiledProgram, compile, load_program
    from dlc.generation.generator import Generator, generate
    from dlc.loaded import LoadedProgram, load
    from dlc.plugins import load_plugin
    from dlc.stages import Kernel
    from dlc.tuning.tune_program import TunedKernels, tune

__all__ = [
    "CompiledProgram",
    "Generator",
    "Kernel",
    "LoadedProgram",
    "TunedKernels",
    "compile",
    "generate",
    "load",
    "load_plugin",
    "load_program",
    "tune",
]
__version__ = VERSION

_PLACES = {
    "Generator": "generation.generator",
    "generate": "generation.generator",
    "Kernel": "stages",
    "LoadedProgram": "loaded",
    "load": "loaded",
    "load_plugin": "plugins",
    "TunedKernels": "tuning.tune_program",
    "tune": "tuning.tune_program",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dlc' has no attribute '{name}'")
    return getattr(import_module(f"dlc.{_PLACES.get(name, 'compiler')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
