"""A run in a list, as on the board."""

from typing import Literal

import msgspec

from holdfast.app.text.screen import status_text
from holdfast.app.tui.attention import ATTENTION_KEYS, Attention, AttentionKey, attention_of
from holdfast.core.end_reason import end_reason_text
from holdfast.engine.queries.runs import ListedRun

Column = Literal["needs", "work", "rest", "done"]

_COLUMNS: dict[Attention, Column] = {
    Attention.REQUEST: "needs",
    Attention.TROUBLE: "needs",
    Attention.MESSAGE: "needs",
    Attention.RUNNING: "work",
    Attention.IDLE: "rest",
    Attention.FINISHED: "done",
}


class RunRow(msgspec.Struct, frozen=True):
    """A run in a list. `want` and `need` are kind and text of the first of its `needs`; unknown costs are null.

    Of a parked run that needs no answer, `need` is the reason. `adopted`: the tool that began it.
    `resumes_at`: when a run that waits for time gets a prompt again.
    """

    id: str
    status: str
    status_text: str
    attention: AttentionKey
    needs_you: bool
    column: Column
    slug: str | None
    goal: str | None
    workflow: str | None
    repo: str | None
    condition: str
    created: str | None
    updated: str | None
    sessions: int
    events: int
    tasks_done: int
    tasks: int
    tokens: int
    dollars: float | None
    estimate: float | None
    unpriced: int
    needs: int
    want: str | None
    need: str | None
    adopted: str | None = None
    resumes_at: str | None = None


class RunList(msgspec.Struct, frozen=True):
    """All runs, the most urgent first. `unwatched`: runs whose changes are seen late."""

    runs: list[RunRow]
    unwatched: int = 0


def status_words(status: str) -> str:
    """A status in a table is one or two words, which say too little where there is room for a sentence."""
    return status if status_text(status) == status else end_reason_text(status).partition(" (")[0]


def row_of(run: ListedRun) -> RunRow:
    attention = attention_of(run)
    return RunRow(
        id=run.id,
        status=str(run.status),
        status_text=status_words(run.status),
        attention=ATTENTION_KEYS[attention],
        needs_you=attention <= Attention.MESSAGE,
        column=_COLUMNS[attention],
        **{name: value for name, value in run.summary._asdict().items() if name in RunRow.__struct_fields__},
    )
