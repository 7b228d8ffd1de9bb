"""The rows of one run: its goal, needs, phases, tasks, agents and next step. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from holdfast.app.text.live_area import (
    conversation_activity,
    elapsed,
    progress_text,
    spend_texts,
    text_rows,
    waits_for_permission,
    wave_text,
)
from holdfast.app.text.log_lines import EventLine
from holdfast.app.text.screen import pluralize, printable, status_colour, status_text
from holdfast.app.text.spans import Row, Span, fit_row, pad_to_width
from holdfast.app.text.task_tree import phase_rows, task_rows
from holdfast.core.conversation.call_text import cut_lines
from holdfast.core.conversation.live_text import OpenText
from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.messages.answers import answer_text
from holdfast.core.run_status import RunStatus
from holdfast.core.state import Conversation
from holdfast.core.summary.needs import Need, NeedKind
from holdfast.core.summary.spending import cost_text
from holdfast.engine.queries.logs import RunView

_MAX_TASKS = 200
_MAX_CONVERSATIONS = 30
_MAX_NEEDS = 10
_TEXT_ROWS = 4  # of what an agent is saying
_DETAIL_LINES = 30  # per need
_SUBJECT_COLUMNS = 12  # in the log

_KEY_HINTS = {
    NeedKind.PERMISSION: "a approves, d denies",
    NeedKind.APPROVAL: "a approves, d requests changes",
    NeedKind.EFFECT: "check it yourself, then r resumes",
    NeedKind.FAILURE: "r resumes and asks how",
    NeedKind.ISSUE: "r resumes and asks how",
    NeedKind.INSTRUCTIONS: "s sends a message, then r resumes",
    NeedKind.MESSAGE: "delivered with the next prompt",
}


def detail_rows(
    view: RunView, needs: Sequence[Need], now: str, width: int, texts: Mapping[str, OpenText] | None = None
) -> list[Row]:
    """Return all rows, cut to `width`. `texts` are what agents are saying."""
    rows = [
        *_fact_rows(view, now, width),
        *_need_rows(needs, width),
        *_section("phases", phase_rows(view.state)),
        *_section("tasks", task_rows(view.state, _MAX_TASKS)),
        *_section("agents", _conversation_rows(view, now, width, texts or {})),
        *_section("next", _resume_rows(view, width)),
    ]
    return [fit_row(row, width) for row in rows]


def _section(title: str, rows: Iterator[Row], colour: str = "bold") -> Iterator[Row]:
    first = next(rows, None)
    if first is not None:
        yield from ([], [Span(title, colour)], first, *rows)


def _fact_rows(view: RunView, now: str, width: int) -> Iterator[Row]:
    state = view.state
    yield from wrap_rows(state.run.goal if state.run is not None else state.feature or "", width, max_rows=3)
    session = state.newest_session()
    duration = elapsed(session.started, now) if session is not None and view.status == RunStatus.RUNNING else ""
    facts = [state.run.workflow if state.run is not None else "", wave_text(state), progress_text(state), duration]
    facts += spend_texts(state)[:1]
    yield [
        Span(printable(status_text(view.status)), status_colour(view.status)),
        *(Span(f" · {printable(fact)}") for fact in facts if fact),
    ]
    if state.run is not None and state.run.repo:
        yield [Span(printable(state.run.repo.removesuffix("/.git")), "dim")]
    unreadable = len(state.malformed) + state.notes_dropped
    if unreadable:
        yield [
            Span(
                f"{pluralize(unreadable, 'unreadable line')} in the log: holdfast verify {printable(view.run_id)}",
                "red",
            )
        ]


def _need_rows(needs: Sequence[Need], width: int) -> Iterator[Row]:
    if not needs:
        return
    yield []
    yield [Span("needs you", "yellow")]
    for need in needs[:_MAX_NEEDS]:
        about = f"{need.about}: " if need.about else ""
        for row in wrap_rows(f"{about}{need.text}", width - 2, max_rows=4):
            yield [Span("  "), *row]
        for line in cut_lines(need.detail, _DETAIL_LINES, "a or d show more"):
            yield from ([Span("    "), Span(part)] for part in _split_at_width(line, width - 4))
        answer = f"{answer_text(need.answer)}; r resumes the run and applies it" if need.answer is not None else ""
        yield from wrap_rows(
            f"    {printable(answer)}" if answer else f"    {_KEY_HINTS[need.want]}", width, max_rows=2, colour="dim"
        )
    if len(needs) > _MAX_NEEDS:
        yield [Span(f"  … and {len(needs) - _MAX_NEEDS} more", "dim")]


def _split_at_width(line: str, width: int) -> list[str]:
    """Split without regard to words, so that a command is shown exactly."""
    width = max(10, width)
    return [line[start : start + width] for start in range(0, len(line), width)] or [""]


def _conversation_rows(view: RunView, now: str, width: int, texts: Mapping[str, OpenText]) -> Iterator[Row]:
    """Yield open conversations first, then ended ones; the newest first."""
    newest = [*reversed(view.state.conversations.values())]
    open_texts = {
        id(view.state.conversations[key]): text for key, text in texts.items() if key in view.state.conversations
    }
    ordered = [
        *(conversation for conversation in newest if conversation.state not in ENDED_STATES),
        *(conversation for conversation in newest if conversation.state in ENDED_STATES),
    ]
    names = {id(conversation): _conversation_name(conversation) for conversation in ordered}
    name_width = min(max(map(len, names.values()), default=0), max(12, width // 3))
    spend_width = max(len(_spend_text(conversation)) for conversation in ordered) if ordered else 0
    for conversation in ordered[:_MAX_CONVERSATIONS]:
        state, colour = _conversation_state(view, conversation)
        yield [
            Span(f"  {pad_to_width(names[id(conversation)], name_width)}  "),
            Span(f"{state:11}  ", colour),
            Span(f"{_spend_text(conversation):>{spend_width}}  " if spend_width else "", "dim"),
            Span(printable(_conversation_progress(view, conversation, now))),
        ]
        if id(conversation) in open_texts:
            yield from (
                [Span("    │ ", "dim"), *row] for row in text_rows(open_texts[id(conversation)], width - 6, _TEXT_ROWS)
            )
    if len(ordered) > _MAX_CONVERSATIONS:
        yield [Span(f"  … and {len(ordered) - _MAX_CONVERSATIONS} more", "dim")]


def _conversation_name(conversation: Conversation) -> str:
    kind, _, file = (conversation.agent or "?").partition(":")
    agent = file.rpartition("/")[2] or kind
    return printable(
        " ".join(part for part in (conversation.task or conversation.about, conversation.role, agent) if part)
    )


def _conversation_state(view: RunView, conversation: Conversation) -> tuple[str, str | None]:
    if conversation.state in ENDED_STATES:
        return conversation.state, "dim"
    if waits_for_permission(view.state, conversation):
        return "asks", "yellow"
    if view.status != RunStatus.RUNNING:
        return ("interrupted", "yellow") if conversation.turn is not None else ("idle", "dim")
    return ("working", "cyan") if conversation.turn is not None else (conversation.state.partition("_")[0], None)


def _conversation_progress(view: RunView, conversation: Conversation, now: str) -> str:
    if conversation.state in ENDED_STATES or (view.status != RunStatus.RUNNING and conversation.turn is None):
        return pluralize(conversation.turns, "turn")
    time = (
        elapsed(conversation.turn.started, now)
        if conversation.turn is not None and view.status == RunStatus.RUNNING
        else ""
    )
    return " · ".join(part for part in (conversation_activity(view.state, conversation), time) if part) or pluralize(
        conversation.turns, "turn"
    )


def _spend_text(conversation: Conversation) -> str:
    tokens = f"{conversation.tokens / 1000:,.1f}k" if conversation.tokens >= 1000 else f"{conversation.tokens}"  # noqa: PLR2004 - a thousand
    parts = [f"{tokens} tok" if conversation.tokens else "", _conversation_cost(conversation)]
    return " ".join(part for part in parts if part)


def _conversation_cost(conversation: Conversation) -> str:
    if not conversation.priced and conversation.estimate is None and not conversation.has_unknown_cost:
        return ""
    reported = conversation.cost if conversation.priced else None
    return cost_text(reported, int(conversation.has_unknown_cost), conversation.estimate)


def _resume_rows(view: RunView, width: int) -> Iterator[Row]:
    decision = view.analysis.decision
    if view.status in (RunStatus.RUNNING, RunStatus.ARCHIVED, RunStatus.EMPTY):
        return
    if view.state.is_missing_plan:
        yield [Span(f"  it cannot continue; delete it with: holdfast reset {printable(view.run_id)}")]
    elif decision.case is ResumeCase.COMPLETE:
        yield [Span(f"  done; merge it with: holdfast merge {printable(view.run_id)}")]
    elif decision.case is ResumeCase.WAITING:
        yield [Span("  waiting for your approval: a approves, d requests changes; then r resumes")]
    elif decision.case is ResumeCase.AUTO:
        yield [Span(f"  r resumes it at {printable(decision.next_step or 'the next step')}")]
    else:
        yield [Span("  r resumes it and asks you to choose:")]
        for option in decision.options:
            yield from (
                [Span("    "), *row] for row in wrap_rows(f"{option.key}. {option.label}", width - 4, max_rows=3)
            )


def wrap_rows(text: str, width: int, max_rows: int, colour: str | None = None) -> Iterator[Row]:
    """Wrap text into at most `max_rows` rows."""
    lines = wrap(printable(" ".join(text.split())), max(10, width), max_lines=max_rows, placeholder=" …")
    yield from ([Span(line, colour)] for line in lines)


def log_rows(lines: Sequence[EventLine], width: int) -> list[Row]:
    """Return the rows of the log, newest last."""
    subject_width = min(_SUBJECT_COLUMNS, max((len(line.subject) for line in lines), default=0))
    return [
        fit_row(
            [
                Span(f"{line.time:8}  ", "dim"),
                Span(f"{pad_to_width(line.subject, subject_width)}  " if subject_width else "", "bold"),
                Span(line.text, line.colour),
            ],
            width,
        )
        for line in lines
    ]
