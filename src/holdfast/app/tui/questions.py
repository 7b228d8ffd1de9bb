"""The questions that the dashboard asks before an action."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.app.text.rewind import point_lines
from holdfast.core.conversation.call_text import cut_lines
from holdfast.core.decide.resume import ResumeDecision
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, with_detail
from holdfast.engine.queries.points import Point

YES, NO, UNDO = "y", "n", "u"
_MAX_POINTS = 9
_DETAIL_LINES = 400


class DialogQuestion(NamedTuple):
    """`answers` maps keys to their meaning; empty if the answer is a line of text."""

    title: str
    body: Sequence[str] = ()
    answers: Mapping[str, str] = {}


def confirmation(title: str, *body: str, yes: str) -> DialogQuestion:
    return DialogQuestion(title, body, {YES: yes, NO: "cancel"})


def request_choice(run_id: str, open_requests: Sequence[Need]) -> DialogQuestion:
    """Ask which of several requests to answer, by a number from 1 to 9."""
    answers = {str(number): _request_title(need) for number, need in enumerate(open_requests[:9], start=1)}
    return DialogQuestion(f"{run_id} has several open requests. Which one do you answer?", (), answers)


def resume_choice_question(run_id: str, decision: ResumeDecision) -> DialogQuestion:
    """Ask how an interrupted run should continue."""
    answers = {
        option.key: option.label + (f" (warning: {option.warning})" if option.warning else "")
        for option in decision.options
    }
    return DialogQuestion(f"{run_id} needs a decision. How should it continue?", (), answers)


def point_choice(run_id: str, points: Sequence[Point], width: int, *, undo: bool) -> DialogQuestion:
    """Ask for one of the newest points, by a number from 1 to 9."""
    answers = dict(enumerate(point_lines(points[:_MAX_POINTS], width), start=1))
    more = [f"{len(points) - _MAX_POINTS} older points: holdfast show {run_id} --points"] * (len(points) > _MAX_POINTS)
    named = {str(number): line for number, line in answers.items()}
    return DialogQuestion(
        f"A point of {run_id}", more, {**named, **({UNDO: "take back the last rewind"} if undo else {})}
    )


def request_lines(need: Need, state: RunState) -> list[str]:
    """Return a request of an agent or a phase, with its details."""
    permission = state.permissions.get(need.key or "")
    lines = [_request_title(need)]
    if permission is not None:
        conversation = state.conversations.get(permission.conversation)
        agent = conversation.agent if conversation is not None else None
        lines += [f"{name:6} {value}" for name, value in (("agent", agent), ("kind", permission.kind)) if value]
    run_id = state.run.run_id if state.run is not None else "RUN"
    more = f"holdfast show {run_id} --json has all of it"
    lines += cut_lines(with_detail(need, state).detail, _DETAIL_LINES, more)
    return lines


def _request_title(need: Need) -> str:
    return f"{need.about}: {need.text}" if need.about else need.text
