"""One run in full: what it is, what it needs, how far its phases and tasks are, who is at work. Of values alone."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from holdfast.app.text.live_area import asks, doing, elapsed, progress_of, spent_on, wave_of
from holdfast.app.text.log_lines import ToldLine
from holdfast.app.text.screen import counted, plain, status_colour
from holdfast.app.text.spans import Row, Span, fitted, padded
from holdfast.app.text.task_tree import phase_rows, task_tree
from holdfast.core.conversation.call_text import cut
from holdfast.core.conversation.states import OVER
from holdfast.core.decide.resume import Case
from holdfast.core.messages.answers import told_answer
from holdfast.core.state import Conversation
from holdfast.core.summary.needs import Need, Want
from holdfast.core.summary.spending import cost_text
from holdfast.engine.queries.logs import RunView

_MOST_TASKS = 200
_MOST_TALKS = 30
_MOST_NEEDS = 10
_DETAIL_LINES = 30  # of one need
_SUBJECT = 12  # columns, of a line of the log

_ANSWERS = {
    Want.PERMISSION: "a approves, d denies",
    Want.APPROVAL: "a approves, d asks for changes",
    Want.EFFECT: "look, then r resumes",
    Want.FAILURE: "r resumes, and asks how",
    Want.TROUBLE: "r resumes, and asks how",
    Want.WORDS: "s sends words, r goes on with them",
    Want.MESSAGE: "it comes with the next prompt",
}


def details(view: RunView, needs: Sequence[Need], now: str, width: int) -> list[Row]:
    """All rows, none wider than this."""
    rows = [
        *_facts(view, now, width),
        *_needs(needs, width),
        *_section("phases", phase_rows(view.state)),
        *_section("tasks", task_tree(view.state, _MOST_TASKS)),
        *_section("agents", _agents(view, now, width)),
        *_section("how it goes on", _way_on(view, width)),
    ]
    return [fitted(row, width) for row in rows]


def _section(title: str, rows: Iterator[Row], colour: str = "bold") -> Iterator[Row]:
    first = next(rows, None)
    if first is not None:
        yield from ([], [Span(title, colour)], first, *rows)


def _facts(view: RunView, now: str, width: int) -> Iterator[Row]:
    state = view.state
    yield from wrapped(state.run.goal if state.run is not None else state.feature or "", width, most=3)
    sitting = state.newest_sitting()
    began = elapsed(sitting.started, now) if sitting is not None and view.status == "running" else ""
    told = [state.run.workflow if state.run is not None else "", wave_of(state), progress_of(state), began]
    told += spent_on(state)[:1]
    yield [Span(plain(view.status), status_colour(view.status)), *(Span(f" · {plain(one)}") for one in told if one)]
    if state.run is not None and state.run.repo:
        yield [Span(plain(state.run.repo.removesuffix("/.git")), "dim")]
    odd = len(state.malformed) + state.notes_dropped
    if odd:
        yield [Span(f"{counted(odd, 'line')} of its log cannot be read: holdfast verify {plain(view.run_id)}", "red")]


def _needs(needs: Sequence[Need], width: int) -> Iterator[Row]:
    if not needs:
        return
    yield []
    yield [Span("needs you", "yellow")]
    for need in needs[:_MOST_NEEDS]:
        about = f"{need.about}: " if need.about else ""
        for row in wrapped(f"{about}{need.text}", width - 2, most=4):
            yield [Span("  "), *row]
        for line in cut(need.detail, _DETAIL_LINES, "a or d show more"):
            yield from ([Span("    "), Span(part)] for part in _in_pieces(line, width - 4))
        told = f"{told_answer(need.answer)}; r resumes the run, which applies it" if need.answer is not None else ""
        yield from wrapped(f"    {plain(told)}" if told else f"    {_ANSWERS[need.want]}", width, most=2, colour="dim")
    if len(needs) > _MOST_NEEDS:
        yield [Span(f"  … and {len(needs) - _MOST_NEEDS} more", "dim")]


def _in_pieces(line: str, width: int) -> list[str]:
    """Not at words: what is to run is shown as it is."""
    width = max(10, width)
    return [line[start : start + width] for start in range(0, len(line), width)] or [""]


def _agents(view: RunView, now: str, width: int) -> Iterator[Row]:
    """Those at work first, then the others, the newest first."""
    newest = [*reversed(view.state.conversations.values())]
    talks = [*(talk for talk in newest if talk.state not in OVER), *(talk for talk in newest if talk.state in OVER)]
    names = {id(talk): _name(talk) for talk in talks}
    wide = min(max(map(len, names.values()), default=0), max(12, width // 3))
    spent = max(len(_spent(talk)) for talk in talks) if talks else 0
    for talk in talks[:_MOST_TALKS]:
        state, colour = _state(view, talk)
        yield [
            Span(f"  {padded(names[id(talk)], wide)}  "),
            Span(f"{state:9}  ", colour),
            Span(f"{_spent(talk):>{spent}}  " if spent else "", "dim"),
            Span(plain(_at(view, talk, now))),
        ]
    if len(talks) > _MOST_TALKS:
        yield [Span(f"  … and {len(talks) - _MOST_TALKS} more", "dim")]


def _name(talk: Conversation) -> str:
    kind, _, file = (talk.agent or "?").partition(":")
    agent = file.rpartition("/")[2] or kind
    return plain(" ".join(part for part in (talk.task or talk.about, talk.role, agent) if part))


def _state(view: RunView, talk: Conversation) -> tuple[str, str | None]:
    if talk.state in OVER:
        return talk.state, "dim"
    if asks(view.state, talk):
        return "asks", "yellow"
    if view.status != "running":
        return ("cut off", "yellow") if talk.turn is not None else ("at rest", "dim")
    return ("at work", "cyan") if talk.turn is not None else (talk.state.partition("_")[0], None)


def _at(view: RunView, talk: Conversation, now: str) -> str:
    if talk.state in OVER or (view.status != "running" and talk.turn is None):
        return counted(talk.turns, "turn")
    time = elapsed(talk.turn.started, now) if talk.turn is not None and view.status == "running" else ""
    return " · ".join(part for part in (doing(view.state, talk), time) if part) or counted(talk.turns, "turn")


def _spent(talk: Conversation) -> str:
    tokens = f"{talk.tokens / 1000:,.1f}k" if talk.tokens >= 1000 else f"{talk.tokens}"  # noqa: PLR2004 - a thousand
    told = [f"{tokens} tok" if talk.tokens else "", _cost(talk)]
    return " ".join(one for one in told if one)


def _cost(talk: Conversation) -> str:
    return cost_text(talk.cost if talk.priced else None, int(talk.unpriced)) if talk.priced or talk.unpriced else ""


def _way_on(view: RunView, width: int) -> Iterator[Row]:
    decision = view.analysis.decision
    if view.status in ("running", "archived", "empty"):
        return
    if view.state.is_unmade:
        yield [Span(f"  it cannot continue: delete it with holdfast reset {plain(view.run_id)}")]
    elif decision.case is Case.COMPLETE:
        yield [Span(f"  nothing is left to do: holdfast merge {plain(view.run_id)} takes its work")]
    elif decision.case is Case.WAITING:
        yield [Span("  it waits for your approval: a approves, d asks for changes; then r resumes it")]
    elif decision.case is Case.AUTO:
        yield [Span(f"  r resumes it, at {plain(decision.next_step or 'the next step')}")]
    else:
        yield [Span("  r resumes it, and asks which:")]
        for option in decision.options:
            yield from ([Span("    "), *row] for row in wrapped(f"{option.key}. {option.label}", width - 4, most=3))


def wrapped(text: str, width: int, most: int, colour: str | None = None) -> Iterator[Row]:
    """In several rows, so that a question is seen whole; no more than so many."""
    lines = wrap(plain(" ".join(text.split())), max(10, width), max_lines=most, placeholder=" …")
    yield from ([Span(line, colour)] for line in lines)


def log_rows(lines: Sequence[ToldLine], width: int) -> list[Row]:
    """The newest last."""
    wide = min(_SUBJECT, max((len(line.who) for line in lines), default=0))
    return [
        fitted(
            [
                Span(f"{line.time:8}  ", "dim"),
                Span(f"{padded(line.who, wide)}  " if wide else "", "bold"),
                Span(line.words, line.colour),
            ],
            width,
        )
        for line in lines
    ]
