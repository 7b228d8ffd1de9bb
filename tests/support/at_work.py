"""Runs that are at work while somebody does something: an agent waits in the middle of its turn until it is let go."""

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.doom.nursery import Born, Ended
from tests.support.doom.place import Place
from tests.support.doom.program import OBEDIENT
from tests.support.doom.scenarios import BEGIN, CASE, Scenario

_PATIENCE = 120.0  # seconds for a whole sitting, on a busy machine
_HERE, _GO = "here", "go"
_HOLD = [
    {"run": f'echo 1<> "$HOME/{_HERE}"'},
    {"wait_for": {"path": f"{{{{env.HOME}}}}/{_GO}", "timeout": _PATIENCE}},
]
_ACCEPT = {"mcp": {"tool": "submit_verdict", "arguments": {"accept": True}, "tries": 3}}


def _write(path: str) -> dict[str, Any]:
    return {"write": {"path": path, "text": f"{path}\n"}}


def pages(*, first: bool = False, writing: bool = False, reporting: bool = False, judging: bool = False) -> Scenario:
    """Two pages, one after the other. An agent waits over the second: its worker in the middle of its writing or when
    all is written, or its evaluator; or over the `first`, its worker in the middle of its writing.
    """

    def held(here: bool) -> list[dict[str, Any]]:
        return _HOLD if here else []

    def evaluator(task: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
        return {"when": f"You are the evaluator of task `{task}`", "steps": [*steps, _ACCEPT]}

    return Scenario(
        name="pages",
        workflow="loop",
        goal=[{"id": name, "title": f"The page {name}", "acceptance_criteria": ["works"]} for name in ("A", "B")],
        turns=[
            evaluator("A", []),
            evaluator("B", held(judging)),
            {"when": "ended without a report", "steps": [CASE]},
            {"when": "ask `A`", "steps": [_write("A.txt"), *held(first), _write("more A.txt"), CASE]},
            {
                "when": "ask `B`",
                "steps": [_write("B.txt"), *held(writing), _write("more B.txt"), *held(reporting), CASE],
            },
        ],
        files=BEGIN | {name: f"{name}\n" for name in ("A.txt", "more A.txt", "B.txt", "more B.txt")},
    )


class Obeying(Place):
    """For programs that obey file modes, though they are root's."""

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), OBEDIENT: "yes"}


@contextmanager
def at_work(place: Place) -> Iterator[Callable[[], Ended]]:
    """The run has begun, and its agent waits. What this gives lets it go on, and waits for the end of the sitting."""
    path = os.path.join(place.folder, _HERE)
    os.mkfifo(path)
    with place.start(*place.beginning()) as run, open(path, "r+b", buffering=0) as here:
        try:
            assert _first_of(run.code, here.fileno()) == here.fileno(), run.ended()
            yield lambda: _let_go(place, run)
        finally:
            open(os.path.join(place.folder, _GO), "w").close()


def _let_go(place: Place, run: Born) -> Ended:
    open(os.path.join(place.folder, _GO), "w").close()
    _first_of(run.code)
    return run.ended()


def _first_of(*descriptors: int) -> int:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    ready = poll.poll(_PATIENCE * 1000)
    assert ready, "nothing happens any more"
    return ready[0][0]
