"""How a sitting begins after an interruption, and how it ends: for those above who ask and tell."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.analysis import Analysis
from holdfast.core.decision import Choice


class Way(NamedTuple):
    """How to go on past what stood in the way: the choice, and a person's own words with it."""

    choice: Choice
    words: str | None = None


Chooser = Callable[[Analysis], Way | None]  # None when nobody is there to choose


class Ended(NamedTuple):
    reason: str
    detail: str | None = None
