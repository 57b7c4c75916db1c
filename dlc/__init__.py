"""
dlc: a hackable compiler from PyTorch programs to CUDA kernels, through six IRs.

    f = dlc.compile(module_or_function, example_args, target="sm_90", backend="host")
    y = f(*args)
    print(f.ir("tile"))
    print(f.kernels[0].source)

`import dlc` loads neither PyTorch nor xDSL; the first use of a name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlc.version import VERSION

if TYPE_CHECKING:
    from dlc.compiler import CompiledProgram, Kernel, compile, load_program

__all__ = ["CompiledProgram", "Kernel", "compile", "load_program"]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dlc' has no attribute '{name}'")
    from dlc import compiler

    return getattr(compiler, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
