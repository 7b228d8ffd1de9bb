"""How much a run wants a person, and so where it stands in the list."""

from collections.abc import Sequence
from enum import IntEnum

from holdfast.core.summary.needs import Want
from holdfast.engine.queries.runs import ListedRun

_QUESTIONS = (Want.PERMISSION, Want.APPROVAL)
_OVER = ("done", "archived", "empty")
_BY_CHOICE = ("planned", "stopped")  # a person left it so


class Call(IntEnum):
    """What calls loudest comes first."""

    QUESTION = 0  # an agent or a phase asks, and waits
    TROUBLE = 1  # it was cut off, failed, or cannot be read
    WORDS = 2  # it waits to be told how to go on
    AT_WORK = 3
    AT_REST = 4  # it can go on, and nothing is the matter
    OVER = 5


def call_of(run: ListedRun) -> Call:
    status, want = run.status, run.summary.want
    if status in _OVER:
        return Call.OVER
    if want in _QUESTIONS:
        return Call.QUESTION
    if status == "running":
        return Call.AT_WORK
    if status == "waiting":
        return Call.WORDS
    if status in _BY_CHOICE and want in (None, Want.MESSAGE, Want.WORDS):
        return Call.AT_REST
    return Call.TROUBLE


def wants_you(run: ListedRun) -> bool:
    return call_of(run) <= Call.WORDS


def ordered(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """What wants you first; among equals the order stays, which is that of their last moves."""
    return sorted(runs, key=call_of)


def matching(runs: Sequence[ListedRun], words: str) -> list[ListedRun]:
    """Those in whose name, status, workflow, repository or goal every word occurs."""
    wanted = words.lower().split()
    return [run for run in runs if all(word in _told(run) for word in wanted)]


def _told(run: ListedRun) -> str:
    about = (run.id, run.status, run.summary.workflow, run.summary.repo, run.summary.goal)
    return " ".join(part for part in about if part).lower()
