"""How a session begins after an interruption, and how it ends: for the surfaces that ask and report."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import ResumeChoice

Chooser = Callable[[Analysis], ResumeChoice | None]  # returns None without a choice


class SessionResult(NamedTuple):
    reason: str
    detail: str | None = None
