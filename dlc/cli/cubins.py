"""`dlc compile --cubin`: machine code beforehand, on a machine that needs no GPU."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.cuda.print.interface import shared_bytes
from dlc.backend.cuda.print.printer import print_kernel
from dlc.backend.cuda.run.nvcc import compile_cubins
from dlc.backend.parallel import OnDone
from dlc.dialects.kernel import FuncOp
from dlc.target import target_of
from dlc.text import table


def cubin_table(module: ModuleOp, on_done: OnDone | None = None) -> str:
    """
    Compiles the kernels of a Kernel IR module for its target, into the cache where a GPU of that
    architecture finds them; says of each what ptxas does, and its file.
    """
    funcs = [op for op in module.ops if isinstance(op, FuncOp) and op.grid_size > 0]
    arch = target_of(module).name
    cubins = compile_cubins([print_kernel(func) for func in funcs], arch, on_done)
    rows = [
        [
            func.name_,
            str(cubin.registers),
            str(cubin.spill_bytes),
            str(shared_bytes(func)),
            str(cubin.path),
        ]
        for func, cubin in zip(funcs, cubins, strict=True)
    ]
    return table(["kernel", "registers", "spill bytes", "shared bytes", f"cubin ({arch})"], rows)
