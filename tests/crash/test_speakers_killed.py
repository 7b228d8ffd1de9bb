"""People whose command is killed while they speak to a run, and who say it again: nobody told them that it was heard.

Each message that was put is consumed once, and the run ends as if it had been said once.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.events.phase import ApprovalAnswered
from tests.support.crash_suite.judge import Done
from tests.support.crash_suite.scenarios import BEGIN, CASE, Scenario
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites, numbered
from tests.support.crash_suite.trial import RECORD, play
from tests.support.crash_suite.warm_programs import KILLED, Nursery
from tests.support.memory import in_memory
from tests.support.repositories import put

WAITING = 6
SIDES = ("before", "torn", "after")
PAGES = [{"id": name, "title": f"The page {name}", "acceptance_criteria": ["works"]} for name in ("A", "B")]
WORKFLOW = """\
name: asking
about: what somebody must approve
shape: graph
case: true
phases:
- name: planning
  role: planner
- name: implementing
  kind: tasks
- name: completing
  kind: complete
  approval: true
"""


def page(name: str) -> dict[str, Any]:
    return {
        "when": f"worker on task `{name}`",
        "steps": [{"write": {"path": f"{name}.txt", "text": f"{name}\n"}}, CASE],
    }


def plan(when: str, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"when": when, "steps": [{"mcp": {"tool": "submit_plan", "arguments": {"tasks": tasks}, "tries": 3}}]}


DENY, APPROVE = ("deny", "--changes", "a second page, please"), ("approve",)
ASKING = Scenario(
    name="asking",
    workflow="",
    goal="write the page",
    turns=[
        page("A"),
        page("B"),
        plan("(?s)You are the planner.*a second page", PAGES),
        plan("You are the planner", PAGES[:1]),
        {"when": "ended without a report", "steps": [CASE]},
    ],
    files={**BEGIN, "A.txt": "A\n", "B.txt": "B\n"},
    ends=(0, WAITING),
    answers=(DENY, APPROVE),
)


@pytest.fixture(scope="module")
def asking(warm: Nursery) -> Iterator[FailpointSuite]:
    with in_memory() as folder:
        put(folder, {"asking.yaml": WORKFLOW})
        yield FailpointSuite(folder, ASKING._replace(workflow=os.path.join(folder, "asking.yaml")), warm)


async def answered_by_who_dies(suite: FailpointSuite, answer: tuple[str, ...], side: str) -> None:
    await suite.undisturbed()
    place = suite.place()
    ended = place.begin()
    for what, *words in ASKING.answers:
        assert ended.code == WAITING, ended
        if (what, *words) == answer:
            assert place.call(what, place.run_id, *words, failpoint=f"inbox.append.{side}:1").code == KILLED
        assert place.call(what, place.run_id, *words).code == 0
        ended = place.resume()
    assert ended.code == 0, ended
    given = [event.approved for event in (await Done.look(place)).of(ApprovalAnswered)]
    assert given == [False, True], "an answer counts once"
    await suite.must_end_alike(place, f"with a speaker killed {side} the answer was put, it ends otherwise")


@pytest.mark.parametrize(("answer", "side"), [(APPROVE, "torn")])
async def test_an_answer_whose_sender_dies_counts_once_when_it_is_given_again(
    asking: FailpointSuite, answer: tuple[str, ...], side: str
) -> None:
    await answered_by_who_dies(asking, answer, side)


@pytest.mark.torture
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("answer", [DENY, APPROVE])
async def test_an_answer_whose_sender_dies_anywhere_counts_once_when_it_is_given_again(
    asking: FailpointSuite, answer: tuple[str, ...], side: str
) -> None:
    await answered_by_who_dies(asking, answer, side)


async def test_words_that_were_put_by_who_died_and_are_said_again_are_consumed_once_each(
    suites: FailpointSuites,
) -> None:
    """The agent hears them twice, by two messages, and does the same."""
    suite = suites("spoken")
    place = suite.place()
    words = place.scenario.words
    assert words is not None
    _, *how, _ = place.beginning()
    assert place.call("plan", *how).code == 0
    assert place.call("send", place.run_id, words, failpoint="inbox.append.after:1").code == KILLED
    assert place.call("send", place.run_id, words).code == 0
    play(place)
    await suite.must_end_alike(place, "with a sender killed after it was put, it ends otherwise")


async def planned_by_who_dies(suite: FailpointSuite, failpoint: str) -> None:
    """Whoever was killed before there was a run plans another; the run ends as if nobody had died."""
    place = suite.place()
    _, *how, _ = place.beginning()
    assert place.call("plan", *how, failpoint=failpoint).code == KILLED, failpoint
    if not place.runs():
        assert place.call("plan", *how).code == 0
    words = place.scenario.words
    assert words is not None
    assert place.call("send", place.run_id, words).code == 0
    play(place)
    await suite.must_end_alike(place, f"with a planner killed at {failpoint} it ends otherwise")


def passes_of_planning(suite: FailpointSuite) -> list[str]:
    place = suite.place()
    _, *how, _ = place.beginning()
    assert place.call("plan", *how, failpoint=RECORD).code == 0
    return numbered(place.passes())


async def test_a_plan_whose_making_is_cut_off_is_gone_on_with_or_made_again(suites: FailpointSuites) -> None:
    suite = suites("spoken")
    appends = [failpoint for failpoint in passes_of_planning(suite) if failpoint.startswith("journal.append.")]
    for failpoint in ("run.make.begun:1", "journal.append.torn:1", "journal.append.after:1", appends[-1]):
        await planned_by_who_dies(suite, failpoint)


@pytest.mark.torture
async def test_a_plan_whose_making_is_cut_off_anywhere_is_gone_on_with_or_made_again(suites: FailpointSuites) -> None:
    suite = suites("spoken")
    for failpoint in passes_of_planning(suite):
        await planned_by_who_dies(suite, failpoint)
