"""How a session begins after an interruption, and how it ends: for those above who ask and tell."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import ResumeChoice

Chooser = Callable[[Analysis], ResumeChoice | None]  # None when nobody chose


class SessionResult(NamedTuple):
    reason: str
    detail: str | None = None
