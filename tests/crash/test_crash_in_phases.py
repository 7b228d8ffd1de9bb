"""In every phase of a pipeline, each way to die, and the resume: in that phase, with nothing repeated or passed over.

The run has all there can be: a brief that is approved, a question that is looked into, a design, tasks, reviews, and a
change that somebody wants instead of giving approval, which leads through planning once more; in the other one a review
fails, and what it found is fixed.
"""

from typing import NamedTuple

import pytest

from holdfast.core.events.conversation import ConversationOpened, TurnStarted
from holdfast.core.events.session import SessionStart
from tests.support.crash_suite.suite import FailpointSuites, Undisturbed
from tests.support.events import events_in

WAYS = {
    "the agent": ("playbook.save.after", ""),
    "the runner": ("journal.append.after", ""),
    "both": ("journal.append.after", ":everyone"),
}
PHASES = {
    "grand": (
        *("product_management", "architecting", "planning", "research-1", "designing"),
        *("A worker", "A evaluator", "reviewing", "B worker"),
    ),
    "pipeline": ("fix-1 worker", "fix-1 evaluator"),
}
ROWS = [(name, phase, way) for name, phases in PHASES.items() for phase in phases for way in WAYS]


class At(NamedTuple):
    """A turn: what it is about, in which session it is, and as which of its prompts."""

    about: str
    session: int
    ordinal: int


def turns(undisturbed: Undisturbed) -> list[At]:
    found: list[At] = []
    about: dict[str, str] = {}
    session, ordinal = -1, 0
    for event in events_in(undisturbed.log):
        match event:
            case SessionStart(command="run" | "resume"):
                session, ordinal = session + 1, 0
            case ConversationOpened():
                about[event.conversation] = event.about or f"{event.task} {event.role}"
            case TurnStarted():
                ordinal += 1
                found.append(At(about[event.conversation], session, ordinal))
    return found


def failpoints_in(undisturbed: Undisturbed, turn: At, way: str) -> tuple[str | None, ...]:
    """Whoever is to die does so at the first point that comes after the prompt of the turn."""
    point, whom = WAYS[way]
    passes = undisturbed.sessions[turn.session]
    after = passes[passes.index(f"prompt.before:{turn.ordinal}") :]
    first = next(failpoint for failpoint in after if failpoint.startswith(f"{point}:"))
    return (*[None] * turn.session, f"{first}{whom}")


@pytest.mark.torture
@pytest.mark.parametrize(("name", "phase", "way"), ROWS)
async def test_who_dies_in_a_phase_comes_back_in_it(suites: FailpointSuites, name: str, phase: str, way: str) -> None:
    suite = suites(name)
    undisturbed = await suite.undisturbed()
    for turn in turns(undisturbed):
        if turn.about == phase:
            trial = await suite.survives(*failpoints_in(undisturbed, turn, way))
            assert trial.struck == 1
