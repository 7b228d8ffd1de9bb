"""Runs that are at work while somebody does something: an agent waits in the middle of its turn until it is let go."""

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.crash_suite.judge import Done
from tests.support.crash_suite.program import OBEDIENT
from tests.support.crash_suite.scenarios import BEGIN, CASE, Scenario
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import Born, Ended
from tests.support.wait import PATIENCE

_HERE, _GO = "here", "go"
_HOLD: list[dict[str, Any]] = [
    {"run": f'echo 1<> "$HOME/{_HERE}"'},
    {"wait_for": {"path": f"{{{{env.HOME}}}}/{_GO}", "timeout": PATIENCE}},
]
_ACCEPT = {"mcp": {"tool": "submit_verdict", "arguments": {"accept": True}, "tries": 3}}


def _write(path: str) -> dict[str, Any]:
    return {"write": {"path": path, "text": f"{path}\n"}}


def pages(*, first: bool = False, writing: bool = False, reporting: bool = False, judging: bool = False) -> Scenario:
    """Two pages, A and B, one after the other, and where an agent waits.

    The worker of B in the middle of its `writing`, or when it is to be `reporting`; the evaluator of B when it is
    `judging`; or the worker of A, the `first`, in the middle of its writing.
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
            {"when": "ended without a verdict", "steps": [_ACCEPT]},
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
    """The run has begun, and its agent waits. What this gives lets it go on, and waits for the end of the session."""
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
    ready = poll.poll(PATIENCE * 1000)
    assert ready, "nothing happens any more"
    return ready[0][0]


# --- what the user has, and what the run came to ------------------------------------------------------


def users(place: Place) -> dict[str, Any]:
    """Their branches, their stash, what is staged, and every file of their checkout."""
    refs = place.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    files = {}
    for folder, folders, names in os.walk(place.repo):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                files[os.path.relpath(os.path.join(folder, name), place.repo)] = file.read()
    return {
        "refs": [ref for ref in refs if "/holdfast/" not in ref],
        "head": place.git("rev-parse", "HEAD"),
        "status": place.git("status", "--porcelain", "--branch"),
        "staged": place.git("ls-files", "--stage"),
        "files": files,
    }


async def must_be_alike(
    suite: FailpointSuite, place: Place, *, but: tuple[str, ...] = (), maybe: tuple[str, ...] = ()
) -> None:
    """As the undisturbed run, but for what the user changed there, what may differ, and what is only theirs."""
    done = await Done.look(place)
    done.must_be_sound()
    expected, end = _told_apart((await suite.undisturbed()).end), _told_apart(done.end())
    different = {what: (end[what], expected[what]) for what in end if end[what] != expected[what]}
    assert set(but) <= set(different) <= {*but, *maybe}, different


def _told_apart(end: dict[str, Any]) -> dict[str, Any]:
    """Without what is only the user's; and how often an agent was asked is a matter of its own."""
    return {
        **{what: found for what, found in end.items() if what != "user's"},
        "refs": [ref for ref in end["refs"] if "/holdfast/" in ref],
        "tasks": {name: task[:2] for name, task in end["tasks"].items()},
        "iterations": {name: task[2] for name, task in end["tasks"].items()},
    }
