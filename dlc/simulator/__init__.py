"""
The meaning of Kernel IR: runs kernels on NumPy arrays, and reports what a GPU would let pass.

    outputs = run_kernel(func, [x, w])
    outputs = run_module(module, [x, w])

All threads of some blocks are one NumPy axis and run in step: a value is an array over them, a
condition that differs among them a mask. What threads may see of each other's accesses does not
depend on the order in which they run here: it is derived from barriers, waits and arrivals alone,
so a race is found whether or not it would have changed the result. Where threads that run in step
wait for each other, the kernel is run again in groups of threads that take turns, in two orders
(`dlc.simulator.divergence`).

The first `Hazard` is raised; `dlc.simulator.checker` collects all that there are.
"""

from dlc.simulator.hazards import Access, Hazard
from dlc.simulator.run import run_kernel, run_module

__all__ = ["Access", "Hazard", "run_kernel", "run_module"]
