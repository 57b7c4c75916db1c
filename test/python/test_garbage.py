"""How often garbage is looked for, while dlc works and after it."""

from __future__ import annotations

import gc

from dlc.garbage import YOUNG, rarely_collected


def test_the_first_to_come_leaves_first() -> None:
    """As threads that compile at once do."""
    found = gc.get_threshold()
    first, last = rarely_collected(), rarely_collected()
    for each in (first, last):
        each.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == YOUNG
    last.__exit__(None, None, None)
    assert gc.get_threshold() == found


def test_one_within_another() -> None:
    found = gc.get_threshold()
    with rarely_collected(), rarely_collected():
        assert gc.get_threshold()[0] == YOUNG
    assert gc.get_threshold() == found


def test_where_none_is_collected_none_is() -> None:
    found = gc.get_threshold()
    try:
        gc.set_threshold(0)
        with rarely_collected():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*found)
