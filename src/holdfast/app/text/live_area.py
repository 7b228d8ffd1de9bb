"""The part of the screen that shows a run at work: who is at what, and what it cost so far. Of the state alone."""

from collections.abc import Iterator
from datetime import datetime

from holdfast.app.text.screen import columns_of, counted, plain, shortened
from holdfast.app.text.spans import Row, Span, padded
from holdfast.core.conversation.call_text import summary_of
from holdfast.core.conversation.states import Phase
from holdfast.core.state import Conversation, RunState, Stage, Task, TaskStatus
from holdfast.core.summary.spending import cost_text, unpriced_in

_SETTLED = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)
_WAITS = {
    Stage.VALIDATE: "running the checks",
    Stage.COMMIT: "committing",
    Stage.MERGE: "waiting for its turn to merge",
}
_THINKING = "thinking"
_TOO_NARROW = 40
_STAGE = 10  # columns


def area(state: RunState, run_id: str, now: str, width: int, height: int) -> list[Row]:
    """No row is wider than the terminal, and there are never more than it has room for."""
    room = max(1, height - 2)
    rows = [_head(state, run_id, now, width), *_tasks(state, now, width), *_questions(state, run_id, width)]
    if len(rows) <= room:
        return rows
    more = len(rows) - room + 1
    return [*rows[: room - 1], [Span(f"  … and {more} more", "dim")]][:room]


def _head(state: RunState, run_id: str, now: str, width: int) -> Row:
    sitting = state.newest_sitting()
    began = elapsed(sitting.started if sitting is not None else None, now)
    left = [part for part in (_workflow(state), wave_of(state), progress_of(state), began) if part]
    told = f"{plain(run_id)} · {' · '.join(left)}"
    room = width - 6
    spent = next((one for one in spent_on(state) if columns_of(f"{told}  {one}") <= room), "")
    tail = f" {spent} " if spent else ""
    told = shortened(told, room)
    rule = "─" * (room - columns_of(told) - columns_of(tail) + 1)
    return [Span("── ", "dim"), Span(told, "bold"), Span(f" {rule}", "dim"), Span(tail)]


def _workflow(state: RunState) -> str:
    return plain(state.run.workflow) if state.run is not None else ""


def wave_of(state: RunState) -> str:
    waves = sorted(state.plan.waves.items()) if state.plan is not None else []
    if len(waves) < 2:  # noqa: PLR2004 - a single one is not worth a word
        return ""
    place = next((at for at, (_, wave) in enumerate(waves, 1) if not wave.completed), len(waves))
    return f"wave {place} of {len(waves)}"


def progress_of(state: RunState) -> str:
    done = sum(task.status in _SETTLED for task in state.tasks.values())
    return f"{done} of {counted(len(state.tasks), 'task')}" if state.tasks else ""


def spent_on(state: RunState) -> list[str]:
    """In full, and in the little that a narrow terminal has room for."""
    spent = state.budget
    tokens = spent.input_tokens + spent.output_tokens
    cap = f" of ${spent.cap_dollars:.2f}" if spent.cap_dollars is not None else ""
    unpriced = unpriced_in(state)
    told = spent.dollars is not None or unpriced or cap
    dollars = f"{'cost ' if unpriced else ''}{cost_text(spent.dollars, unpriced)}{cap}" if told else ""
    parts = [part for part in (f"{tokens:,} tokens" if tokens else "", dollars) if part]
    return [" · ".join(parts), parts[-1]] if parts else []


def _tasks(state: RunState, now: str, width: int) -> Iterator[Row]:
    names = {plain(name): task for name, task in state.tasks.items() if task.status is TaskStatus.IN_PROGRESS}
    wide = min(max(map(columns_of, names), default=0), max(4, width // 5))
    for name, task in names.items():
        talk = _talk(state, task)
        stage, colour = _stage(task, talk)
        often = f"iteration {task.iteration}  " if task.iteration > 1 and width > _TOO_NARROW else ""
        room = max(0, width - 1 - wide - 4 - _STAGE - len(often))
        time = elapsed(talk.turn.started if talk is not None and talk.turn is not None else None, now)
        time = f"  {time}" if time and room > _TOO_NARROW // 2 else ""
        what = plain(_doing(state, task, talk))
        yield [
            Span(f"  {padded(name, wide)}  "),
            Span(padded(stage, _STAGE), colour),
            Span(often, "dim"),
            Span(padded(what, room - len(time)) if time else shortened(what, room)),
            Span(time, "dim"),
        ]


def _talk(state: RunState, task: Task) -> Conversation | None:
    """The conversation that the task is in now."""
    who = task.evaluator if task.stage is Stage.EVALUATE else task.worker
    return state.conversations.get(who) if who is not None else None


def _stage(task: Task, talk: Conversation | None) -> tuple[str, str]:
    if talk is not None and talk.state == Phase.STARTING and talk.turn is None:
        return "starting", "dim"
    return task.stage, "yellow" if task.stage is Stage.WORK else "cyan"


def _doing(state: RunState, task: Task, talk: Conversation | None) -> str:
    if talk is not None and asks(state, talk):
        return doing(state, talk)
    if task.stage in _WAITS:
        return _WAITS[task.stage]
    at = doing(state, talk) if talk is not None else ""
    if talk is not None and at == _THINKING:
        return f"{talk.agent or 'the agent'} is {at}"
    return at or task.summary or ""


def asks(state: RunState, talk: Conversation) -> bool:
    """True of one whose agent waits to be allowed something."""
    return any(state.conversations.get(asked.conversation) is talk for asked in state.permissions.values())


def doing(state: RunState, talk: Conversation) -> str:
    """What an agent is at in its turn; nothing when it is in none."""
    if asks(state, talk):
        return "waits for your answer"
    if talk.turn is None:
        return ""
    if talk.turn.calls:
        return next(reversed(talk.turn.calls.values()))
    return _THINKING


def _questions(state: RunState, run_id: str, width: int) -> Iterator[Row]:
    for request, asked in state.permissions.items():
        talk = state.conversations.get(asked.conversation)
        who = f"{talk.task} " if talk is not None and talk.task else ""
        command = f"holdfast approve {run_id} {request}"
        asks = f"{who}asks: {summary_of(asked)}"
        if width > len(command) + _TOO_NARROW:
            words = shortened(plain(asks), width - 7 - len(command))
            yield [Span("  ? ", "yellow"), Span(words, "yellow"), Span(f"  {command}", "dim")]
        else:
            yield [Span("  ? ", "yellow"), Span(shortened(plain(asks), width - 5), "yellow")]
            yield [Span(shortened(f"    {command}", width - 1), "dim")]


def elapsed(since: str | None, now: str) -> str:
    """`45 s`, `2 m 05 s`, `1 h 02 m`; nothing when it is not known."""
    try:
        seconds = int((datetime.fromisoformat(now) - datetime.fromisoformat(since or "")).total_seconds())
    except (ValueError, TypeError):
        return ""
    minutes, seconds = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} m"
    return f"{minutes} m {seconds:02} s" if minutes else f"{seconds} s"
