"""Searches over schedules: what they propose, and in which order."""

from __future__ import annotations

import random

import loop_cases
import pytest
from tuning_cases import subject

from dlc.schedule.heuristics import choose_schedule, ranked_schedules
from dlc.tuning.move_values import MoveValues
from dlc.tuning.searches import GreedySearch
from dlc.tuning.space import Space
from dlc.tuning.tree_search import SHORT_LIST, TreeSearch
from dlc.tuning.tuner import SEARCHES

TILED = (loop_cases.gemm(128, 96, 256), loop_cases.window(2, 64, 32, 16))


def test_all_schedules_of_a_small_space_are_found() -> None:
    """And the search ends by itself when all are known."""
    of = subject(loop_cases.silu_mul(1, 8))
    every = set(Space(of.module, of.name).schedules())
    assert len(every) > 5
    search, proposed = TreeSearch(Space(of.module, of.name), seed=0), list[str]()
    while (schedule := search.propose()) is not None:
        proposed.append(schedule)
        search.observe(schedule, 1.0)
    assert len(set(proposed)) == len(proposed)
    assert len(every & set(proposed)) > 0.9 * len(every)


@pytest.mark.parametrize("kind", SEARCHES)
def test_searches_are_deterministic_and_begin_with_the_default(kind: str) -> None:
    of = subject(loop_cases.softmax(5, 130))

    def proposals() -> list[str | None]:
        search = SEARCHES[kind](Space(of.module, of.name), 7, None)
        found: list[str | None] = []
        for number in range(6):
            schedule = search.propose()
            found.append(schedule)
            if schedule is not None:
                search.observe(schedule, 1.0 + len(schedule) % 5 - number / 100)
        return found

    first = proposals()
    assert first == proposals()
    assert first[0] == Space(of.module, of.name).default


def test_greedy_goes_from_the_best() -> None:
    """The shorter, the better: it ends at a schedule of which no neighbour is shorter."""
    of = subject(loop_cases.silu_mul(1, 64))
    search = GreedySearch(Space(of.module, of.name), seed=0)
    while (schedule := search.propose()) is not None:
        search.observe(schedule, len(schedule))
    assert search.best[0] == len("tileify")


# Choices by what was found of them anywhere.


def test_choices_are_drawn_by_the_mean_of_their_schedules() -> None:
    of = subject(loop_cases.softmax(5, 130))
    space, moves, rng = Space(of.module, of.name), MoveValues(), random.Random(0)
    state = space.start
    while len(choices := space.choices(state)) < 3:
        state = space.take(state, choices[0])
    assert len({moves.mean(state.place, choice) for choice in choices}) == 1
    for value in (1.0, 2.0):
        moves.add({state.place: choices[1]}, 4 * value)
        moves.add({state.place: choices[2]}, value)
    good, unknown, bad = (moves.mean(state.place, choices[n]) for n in (1, 0, 2))
    assert good > unknown > bad
    drawn = [moves.draw(rng, state, choices, scale=10) for _ in range(300)]
    assert drawn.count(choices[1]) > 2 * drawn.count(choices[2]) > 0
    assert set(map(str, choices)) == set(map(str, drawn))


def test_what_is_good_is_drawn_more_often_than_at_random() -> None:
    of = subject(loop_cases.softmax(5, 130))

    def good(kind: str) -> int:
        search, count = SEARCHES[kind](Space(of.module, of.name), 0, None), 0
        for _ in range(100):
            schedule = search.propose()
            assert schedule is not None
            is_good = "threads=16" in schedule
            search.observe(schedule, 1.0 if is_good else 3.0)
            count += is_good
        return count

    assert good("mcts") > 2 * good("random") > 0


# Tilings that the estimate ranks.


@pytest.mark.parametrize("case", TILED, ids=lambda c: c.name)
def test_ranked_tilings_begin_with_the_default(case: loop_cases.Case) -> None:
    of = subject(case)
    ranked = ranked_schedules(of.kernel, of.target, SHORT_LIST)
    assert ranked[0] == choose_schedule(of.kernel, of.target).schedule
    assert 5 < len(set(ranked)) == len(ranked) <= SHORT_LIST


@pytest.mark.parametrize("case", TILED, ids=lambda c: c.name)
def test_ranked_tilings_are_proposed_in_turn_with_the_tree(case: loop_cases.Case) -> None:
    """All that can be obeyed, each once, with the nodes of the tree on their way."""
    of = subject(case)
    space = Space(of.module, of.name)
    listed = [space.followed(text)[1].schedule for text in space.short_list(SHORT_LIST)]
    search = TreeSearch(space, seed=0)
    proposed = list[str]()
    for _ in range(2 * SHORT_LIST):
        schedule = search.propose()
        assert schedule is not None
        proposed.append(schedule)
        search.observe(schedule, 1.0)
    assert len(set(proposed)) == len(proposed)
    assert set(listed) <= set(proposed)
    assert proposed[1] == next(text for text in listed if text != space.default)
    assert max(len(search.paths[text]) for text in listed) > 3


def test_kernels_that_are_not_tiled_have_no_ranked_tilings() -> None:
    of = subject(loop_cases.softmax(5, 130))
    assert Space(of.module, of.name).short_list(SHORT_LIST) == []
    assert Space(of.module, of.name, "tileify").short_list(SHORT_LIST) == []
