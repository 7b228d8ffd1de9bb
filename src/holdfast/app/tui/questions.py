"""What a person is asked before something is done."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.core.conversation.call_text import cut
from holdfast.core.decide.resume import Decision
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, with_detail

YES, NO = "y", "n"
_DETAIL_LINES = 400


class Question(NamedTuple):
    """`answers` are keys, each with what it means; none of them when a line of words is wanted."""

    title: str
    body: Sequence[str] = ()
    answers: Mapping[str, str] = {}


def sure(title: str, *body: str, yes: str) -> Question:
    return Question(title, body, {YES: yes, NO: "leave it"})


def which(run_id: str, open_ones: Sequence[Need]) -> Question:
    """Several wait: by their numbers, for as many as there are keys."""
    answers = {str(number): _named(need) for number, need in enumerate(open_ones[:9], start=1)}
    return Question(f"{run_id} asks more than one thing; which do you answer?", (), answers)


def how(run_id: str, decision: Decision) -> Question:
    """The choices by which an interrupted run goes on."""
    answers = {
        option.key: option.label + (f" (warning: {option.warning})" if option.warning else "")
        for option in decision.options
    }
    return Question(f"{run_id} does not go on by itself. How shall it?", (), answers)


def told(need: Need, state: RunState) -> list[str]:
    """A question of an agent, or of a phase, with all that is known of it."""
    asked = state.permissions.get(need.key or "")
    lines = [_named(need)]
    if asked is not None:
        talk = state.conversations.get(asked.conversation)
        who = talk.agent if talk is not None else None
        lines += [f"{name:6} {value}" for name, value in (("agent", who), ("kind", asked.kind)) if value]
    lines += cut(with_detail(need, state).detail, _DETAIL_LINES, "holdfast show RUN --json has all of it")
    return lines


def _named(need: Need) -> str:
    return f"{need.about}: {need.text}" if need.about else need.text
