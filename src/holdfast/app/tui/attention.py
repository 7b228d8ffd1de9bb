"""How urgently a run needs a person, which is also the order of the list."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

from holdfast.app.text.screen import WAITING_FOR_TIME, status_text
from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.core.summary.needs import NeedKind
from holdfast.engine.queries.runs import ListedRun

_REQUEST_WANTS = (NeedKind.PERMISSION, NeedKind.APPROVAL)
_FINISHED_STATUSES = (RunStatus.DONE, RunStatus.ARCHIVED, RunStatus.EMPTY)
# left so by a person, or continued by `watch` and `serve` when its time comes
_IDLE_STATUSES = (
    EndReason.PLANNED,
    EndReason.STOPPED,
    EndReason.IDLE,
    EndReason.REWOUND,
    *(EndReason(status) for status in WAITING_FOR_TIME),
)


class Attention(IntEnum):
    """The most urgent comes first."""

    REQUEST = 0  # an agent or a phase waits for an answer
    TROUBLE = 1  # interrupted, failed or unreadable
    MESSAGE = 2  # waits for instructions
    RUNNING = 3
    IDLE = 4  # can continue, and has no problem
    FINISHED = 5


AttentionKey = Literal["question", "trouble", "words", "at_work", "at_rest", "over"]

ATTENTION_KEYS: dict[Attention, AttentionKey] = {  # in `--json`
    Attention.REQUEST: "question",
    Attention.TROUBLE: "trouble",
    Attention.MESSAGE: "words",
    Attention.RUNNING: "at_work",
    Attention.IDLE: "at_rest",
    Attention.FINISHED: "over",
}


def attention_of(run: ListedRun) -> Attention:
    status, want = run.status, run.summary.want
    if status in _FINISHED_STATUSES:
        return Attention.FINISHED
    if want in _REQUEST_WANTS:
        return Attention.REQUEST
    if status == RunStatus.RUNNING:
        return Attention.RUNNING
    if status == EndReason.WAITING:
        return Attention.MESSAGE
    if status in _IDLE_STATUSES and want in (None, NeedKind.MESSAGE, NeedKind.INSTRUCTIONS):
        return Attention.IDLE
    return Attention.TROUBLE


def needs_person(run: ListedRun) -> bool:
    return attention_of(run) <= Attention.MESSAGE


def sort_by_attention(runs: Sequence[ListedRun]) -> list[ListedRun]:
    """Sort the most urgent first. The sort is stable: equals stay in the order of their last activity."""
    return sorted(runs, key=attention_of)


def filter_runs(runs: Sequence[ListedRun], query: str) -> list[ListedRun]:
    """Return the runs whose name, status, workflow, repository or goal contain every word."""
    words = query.lower().split()
    return [run for run in runs if all(word in _search_text(run) for word in words)]


def _search_text(run: ListedRun) -> str:
    fields = (run.id, run.status, status_text(run.status), run.summary.workflow, run.summary.repo, run.summary.goal)
    return " ".join(part for part in fields if part).lower()
