"""The live area below the event lines: current tasks, open requests and cost. Computed from the run's state alone."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from textwrap import wrap
from typing import NamedTuple

from holdfast.app.text.screen import display_width, pluralize, printable, shorten_to_width
from holdfast.app.text.spans import Row, Span, pad_to_width
from holdfast.core.conversation.call_text import call_summary
from holdfast.core.conversation.live_text import OpenText
from holdfast.core.conversation.states import ConversationState
from holdfast.core.state import Conversation, RunState
from holdfast.core.summary.spending import cost_text, unpriced_count
from holdfast.core.task_state import Task, TaskStage, TaskStatus

_FINISHED_STATUSES = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
_STAGE_ACTIVITIES = {
    TaskStage.VALIDATE: "running the checks",
    TaskStage.COMMIT: "committing",
    TaskStage.MERGE: "waiting for its turn to merge",
}
_THINKING = "thinking"
_NARROW_COLUMNS = 40
_STAGE_COLUMNS = 10  # columns
_TEXT_ROWS = 3  # of what an agent is saying, if no other agent speaks


class Extras(NamedTuple):
    """What is not in the run's state: what agents are saying, and how to answer requests here (else: a command)."""

    texts: Mapping[str, OpenText] = {}
    hints: Mapping[str, str] = {}


_NOTHING = Extras()


def live_rows(state: RunState, run_id: str, now: str, width: int, height: int, extras: Extras = _NOTHING) -> list[Row]:
    """Return rows that fit the width and height of the terminal."""
    room = max(1, height - 2)
    rows = [
        _heading_row(state, run_id, now, width),
        *_task_rows(state, now, width),
        *_permission_rows(state, run_id, width, extras.hints),
        *_text_rows(state, extras.texts, width),
    ]
    if len(rows) <= room:
        return rows
    more = len(rows) - room + 1
    return [*rows[: room - 1], [Span(f"  … and {more} more", "dim")]][:room]


def _heading_row(state: RunState, run_id: str, now: str, width: int) -> Row:
    session = state.newest_session()
    duration = elapsed(session.started if session is not None else None, now)
    left = [part for part in (_workflow_name(state), wave_text(state), progress_text(state), duration) if part]
    title = f"{printable(run_id)} · {' · '.join(left)}"
    room = width - 6
    spent = next((text for text in spend_texts(state) if display_width(f"{title}  {text}") <= room), "")
    tail = f" {spent} " if spent else ""
    title = shorten_to_width(title, room)
    rule = "─" * (room - display_width(title) - display_width(tail) + 1)
    return [Span("── ", "dim"), Span(title, "bold"), Span(f" {rule}", "dim"), Span(tail)]


def _text_rows(state: RunState, texts: Mapping[str, OpenText], width: int) -> Iterator[Row]:
    names = {conversation_id: _speaker_name(state, conversation_id) for conversation_id in texts}
    name_width = min(max(map(display_width, names.values()), default=0), max(4, width // 5))
    for conversation_id, text in texts.items():
        rows = text_rows(text, width - name_width - 8, _TEXT_ROWS if len(texts) == 1 else 1)
        for name, row in zip([names[conversation_id], *[""] * len(rows)], rows, strict=False):
            yield [Span(f"  {pad_to_width(name, name_width)}  "), Span("│ ", "dim"), *row]


def _speaker_name(state: RunState, conversation_id: str) -> str:
    conversation = state.conversations.get(conversation_id)
    if conversation is None:
        return ""
    role = conversation.role if conversation.role != "worker" else None
    about = " ".join(part for part in (conversation.task or conversation.about, role) if part)
    return printable(about or conversation.agent or "")


def text_rows(text: OpenText, width: int, max_rows: int) -> list[Row]:
    """Return the last rows of what an agent is saying."""
    width = max(10, width)
    end = text.text[-(width * (max_rows + 1)) :]  # enough for all rows
    lines = [
        shorten_to_width(line, width)
        for paragraph in end.splitlines()
        for line in wrap(printable(paragraph), width // 2 if _is_wide(paragraph) else width)
    ]
    return [[Span(line, "dim" if text.speaker == "thought" else None)] for line in lines[-max_rows:]]


def _is_wide(text: str) -> bool:
    """Whether the text has characters of two columns, which `wrap` counts as one."""
    return display_width(text) > len(text)


def _workflow_name(state: RunState) -> str:
    return printable(state.run.workflow) if state.run is not None else ""


def wave_text(state: RunState) -> str:
    waves = sorted(state.plan.waves.items()) if state.plan is not None else []
    if len(waves) < 2:  # noqa: PLR2004 - a single wave is not shown
        return ""
    place = next((at for at, (_, wave) in enumerate(waves, 1) if not wave.completed), len(waves))
    return f"wave {place} of {len(waves)}"


def progress_text(state: RunState) -> str:
    done = sum(task.status in _FINISHED_STATUSES for task in state.tasks.values())
    return f"{done} of {pluralize(len(state.tasks), 'task')}" if state.tasks else ""


def spend_texts(state: RunState) -> list[str]:
    """Return the full text, then a short one for a narrow terminal."""
    spent = state.budget
    tokens = spent.input_tokens + spent.output_tokens
    cap = f" of ${spent.cap_dollars:.2f}" if spent.cap_dollars is not None else ""
    unpriced = unpriced_count(state)
    has_cost = spent.dollars is not None or spent.estimate is not None or unpriced or cap
    dollars = (
        f"{'cost ' if unpriced else ''}{cost_text(spent.dollars, unpriced, spent.estimate)}{cap}" if has_cost else ""
    )
    parts = [part for part in (f"{tokens:,} tokens" if tokens else "", dollars) if part]
    return [" · ".join(parts), parts[-1]] if parts else []


def _task_rows(state: RunState, now: str, width: int) -> Iterator[Row]:
    names = {printable(name): task for name, task in state.tasks.items() if task.status is TaskStatus.IN_PROGRESS}
    name_width = min(max(map(display_width, names), default=0), max(4, width // 5))
    for name, task in names.items():
        conversation = _current_conversation(state, task)
        stage, colour = _stage_text(task, conversation)
        iteration = f"iteration {task.iteration}  " if task.iteration > 1 and width > _NARROW_COLUMNS else ""
        room = max(0, width - 1 - name_width - 4 - _STAGE_COLUMNS - len(iteration))
        turn = conversation.turn if conversation is not None else None
        time = elapsed(turn.started if turn is not None else None, now)
        time = f"  {time}" if time and room > _NARROW_COLUMNS // 2 else ""
        activity = printable(_task_activity(state, task, conversation))
        yield [
            Span(f"  {pad_to_width(name, name_width)}  "),
            Span(pad_to_width(stage, _STAGE_COLUMNS), colour),
            Span(iteration, "dim"),
            Span(pad_to_width(activity, room - len(time)) if time else shorten_to_width(activity, room)),
            Span(time, "dim"),
        ]


def _current_conversation(state: RunState, task: Task) -> Conversation | None:
    """Return the task's conversation with its worker or its evaluator, whichever is active."""
    conversation_id = task.evaluator if task.stage is TaskStage.EVALUATE else task.worker
    return state.conversations.get(conversation_id) if conversation_id is not None else None


def _stage_text(task: Task, conversation: Conversation | None) -> tuple[str, str]:
    if conversation is not None and conversation.state == ConversationState.STARTING and conversation.turn is None:
        return "starting", "dim"
    return task.stage, "yellow" if task.stage is TaskStage.WORK else "cyan"


def _task_activity(state: RunState, task: Task, conversation: Conversation | None) -> str:
    if conversation is not None and waits_for_permission(state, conversation):
        return conversation_activity(state, conversation)
    if task.stage in _STAGE_ACTIVITIES:
        return _STAGE_ACTIVITIES[task.stage]
    activity = conversation_activity(state, conversation) if conversation is not None else ""
    if conversation is not None and activity == _THINKING:
        return f"{conversation.agent or 'the agent'} is {activity}"
    return activity or task.summary or ""


def waits_for_permission(state: RunState, conversation: Conversation) -> bool:
    """Whether the agent of this conversation has an open permission request."""
    return any(state.conversations.get(request.conversation) is conversation for request in state.permissions.values())


def conversation_activity(state: RunState, conversation: Conversation) -> str:
    """Return what the agent does in its turn; empty between turns."""
    if waits_for_permission(state, conversation):
        return "waiting for your answer"
    if conversation.turn is None:
        return ""
    if conversation.turn.calls:
        return next(reversed(conversation.turn.calls.values()))
    return _THINKING


def _permission_rows(state: RunState, run_id: str, width: int, hints: Mapping[str, str]) -> Iterator[Row]:
    for request_id, request in state.permissions.items():
        conversation = state.conversations.get(request.conversation)
        subject = f"{conversation.task} " if conversation is not None and conversation.task else ""
        command = hints.get(request_id) or f"holdfast approve {run_id} {request_id}"
        colour = "bold" if request_id in hints else "dim"
        text = printable(f"{subject}asks: {call_summary(request)}")
        if width > len(command) + _NARROW_COLUMNS:
            text = shorten_to_width(text, width - 7 - len(command))
            yield [Span("  ? ", "yellow"), Span(text, "yellow"), Span(f"  {command}", colour)]
        else:
            yield [Span("  ? ", "yellow"), Span(shorten_to_width(text, width - 5), "yellow")]
            yield [Span(shorten_to_width(f"    {command}", width - 1), colour)]


def elapsed(since: str | None, now: str) -> str:
    """`45 s`, `2 m 05 s`, `1 h 02 m`; empty if a time is unknown."""
    try:
        seconds = int((datetime.fromisoformat(now) - datetime.fromisoformat(since or "")).total_seconds())
    except (ValueError, TypeError):
        return ""
    minutes, seconds = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} m"
    return f"{minutes} m {seconds:02} s" if minutes else f"{seconds} s"
