"""Answers about IR that is asked the same things again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

About = TypeVar("About", bound=Hashable)
Answer = TypeVar("Answer")


class Analyses:
    """
    What has been found out about a kernel, each thing once: `analyses.get(question, about)` is
    `question(about)`, where a question is a function of nothing but the IR around an operation.

    Who asks many questions makes one, hands it on as an argument to what asks with it, and stores
    it with nothing that outlives its asking. An answer is right while nothing that the question
    looks at is edited: whoever edits the kernel in between calls `invalidate`, or makes a new one.
    What every operation can tell of itself at little cost, such as subscripts and ranges of
    values, is not asked here: those answers know what they follow from, and are never stale.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[object, object], object] = {}

    def get(self, question: Callable[[About], Answer], about: About) -> Answer:
        """The answer to a question about an operation."""
        key = (question, about)
        try:
            return cast(Answer, self._answers[key])
        except KeyError:  # more are asked again than for the first time
            pass
        answer = self._answers[key] = question(about)
        return answer

    def invalidate(self) -> None:
        """Forgets all answers: the IR has been edited."""
        self._answers.clear()
