"""As many compilers at once as there are CPUs."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

OnDone: TypeAlias = Callable[[int, int], None]
"""Is told how many items are done, and of how many."""


def cpu_count() -> int:
    """The CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_all(
    work: Callable[[T], R],
    items: Iterable[T],
    jobs: int | None = None,
    on_done: OnDone | None = None,
) -> dict[T, R]:
    """
    The result of `work` for each item, equal items once, `jobs` at a time (default: the CPUs at
    hand). The first error is raised; what has not begun by then is not begun.
    """
    distinct = list(dict.fromkeys(items))
    done: dict[T, R] = {}
    if len(distinct) == 1:  # which needs no thread
        done[distinct[0]] = work(distinct[0])
        if on_done is not None:
            on_done(1, 1)
        return done
    with ThreadPoolExecutor(jobs or cpu_count()) as pool:
        futures = {pool.submit(work, item): item for item in distinct}
        try:
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                if on_done is not None:
                    on_done(len(done), len(distinct))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done
