"""The judge of the trials sees what is wrong: with each of these, a run that ended well is not called so any more."""

import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from holdfast.engine.workspace.repository import FD_MARKER_FILE
from holdfast.leaf.process.env_markers import RUN_MARK
from holdfast.leaf.process.fd_marker import marker_fds
from tests.support.crash_suite.judge import Work, but_for, different
from tests.support.crash_suite.resumable_trials import hold
from tests.support.crash_suite.small_disk import must_not_have_lost_attempts
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites, NotReached
from tests.support.crash_suite.trial import Trial, play
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import Ended
from tests.support.load.resources import Held, must_be_bounded


async def ended(suite: FailpointSuite) -> Place:
    await suite.undisturbed()
    place = suite.place()
    play(place)
    return place


def kept(place: Place) -> str:
    """The branch of the task that failed."""
    return f"holdfast/{place.run_id}/A"


def in_the_task(place: Place, *arguments: str) -> str:
    return place.git("-C", place.of_run("tasks", "A"), *arguments)


def commit_twice(place: Place) -> None:
    message = in_the_task(place, "log", "-1", "--format=%B")
    in_the_task(place, "commit", "--quiet", "--allow-empty", f"--message={message}")


def commit_something_else(place: Place) -> None:
    with open(place.of_run("tasks", "A", "A.txt"), "a", encoding="utf-8") as file:
        file.write("more\n")
    in_the_task(place, "commit", "--quiet", "--all", "--amend", "--no-edit")


def name_it_otherwise(place: Place) -> None:
    in_the_task(place, "commit", "--quiet", "--amend", "--message=Another")


def lose_a_snapshot(place: Place) -> None:
    saved = place.git("for-each-ref", "--format=%(refname)", f"refs/holdfast/snapshot/{place.run_id}/").split()
    place.git("update-ref", "-d", saved[0])


def move_a_snapshot(place: Place) -> None:
    saved = place.git("for-each-ref", "--format=%(refname)", f"refs/holdfast/snapshot/{place.run_id}/").split()
    place.git("update-ref", saved[0], kept(place))


def save_what_nobody_told(place: Place) -> None:
    place.git("update-ref", f"refs/holdfast/salvage/{place.run_id}/A/0123456789abcdef", "main")


def commit_for_the_user(place: Place) -> None:
    place.git("commit", "--quiet", "--allow-empty", "--message=Not theirs")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (commit_twice, "a commit twice on A"),
        (commit_something_else, "'files'"),
        (name_it_otherwise, "'history'"),
        (lose_a_snapshot, "saved, and not there"),
        (move_a_snapshot, "saved, and not there"),
        (save_what_nobody_told, "refs of which the log does not tell"),
        (commit_for_the_user, "user's"),
    ],
)
async def test_what_is_wrong_with_branches_and_refs_is_seen(
    suites: FailpointSuites, harm: Callable[[Place], None], told: str
) -> None:
    suite = suites("capped")
    place = await ended(suite)
    harm(place)
    with pytest.raises(AssertionError, match=told):
        await suite.must_end_alike(place, "harmed")


@pytest.mark.parametrize("by", ["its mark", "where it stands", "what it holds"])
async def test_a_process_that_is_left_is_seen_by_its_mark_or_where_it_stands_or_by_what_it_holds(
    suites: FailpointSuites, by: str
) -> None:
    suite = suites("capped")
    place = await ended(suite)
    environment = {RUN_MARK: place.run_id} if by == "its mark" else {}
    cwd = place.of_run("tasks") if by == "where it stands" else "/"
    with marker_fds(place.of_run(FD_MARKER_FILE) if by == "what it holds" else None) as held:
        stray = subprocess.Popen(["/bin/sleep", "600"], cwd=cwd, env=environment, pass_fds=held)
    with stray:
        try:
            with pytest.raises(AssertionError, match="a process is left"):
                await suite.must_end_alike(place, "not alone")
        finally:
            stray.kill()
    await suite.must_end_alike(place, "alone")


# --- trials that show nothing -------------------------------------------------------------------------


async def held(*failpoints: tuple[str | None, ...], alive: set[str]) -> list[str]:
    """What is wrong with trials in which nobody comes by at those."""

    async def trial(*each: str | None) -> Trial:
        if not alive.isdisjoint(str(one) for one in each):
            raise NotReached("nobody came by")
        return Trial(struck=1)

    return await hold(trial, "solo", failpoints)


MANY: list[tuple[str | None, ...]] = [(f"a.before:{number}",) for number in range(1, 10)]


async def test_a_suite_in_which_all_die_but_one_is_well() -> None:
    assert await held(*MANY, alive={"a.before:9"}) == []


async def test_a_suite_in_which_too_few_die_is_wrong() -> None:
    (told,) = await held(*MANY, alive={"a.before:8", "a.before:9"})
    assert told.startswith("of 9 single deaths 2 were not reached")


@pytest.mark.parametrize("wanted", [[(None, "b.after:1")], [("b.after:8",), ("b.after:9",)]])
async def test_a_point_that_nobody_comes_by_is_wrong(wanted: list[tuple[str | None, ...]]) -> None:
    told = await held(
        *MANY,
        *wanted,
        *[(f"c.after:{number}",) for number in range(9)],
        alive={str(failpoints[-1]) for failpoints in wanted},
    )
    assert [line.partition(",")[0] for line in told] == ["nobody came by at b.after"]


async def test_the_last_of_many_passes_need_not_be_reached_and_pairs_are_not_counted() -> None:
    assert await held(*MANY, ("b.after:50",), ("c.before:1", "d.before:1"), alive={"b.after:50", "d.before:1"}) == []


# --- attempts, and what runners hold ------------------------------------------------------------------


def end_of(iteration: int, conflicted: int = 0) -> dict[str, Any]:
    return {"tasks": {"A": ("COMPLETE", None, iteration)}, "evaluations": {"A": (1, conflicted)}}


@pytest.mark.parametrize(
    ("found", "excused", "fine"),
    [
        (end_of(2), set(), True),
        (end_of(3, conflicted=1), set(), True),
        (end_of(1), {"A"}, False),
        (end_of(3), set(), False),
        (end_of(3), {"A"}, True),
    ],
    ids=["as usual", "with conflicts", "fewer", "more", "more, and a report failed"],
)
def test_attempts_are_the_usual_ones_unless_the_log_tells_why(
    found: dict[str, Any], excused: set[str], fine: bool
) -> None:
    with nullcontext() if fine else pytest.raises(AssertionError, match="attempts that nothing explains"):
        must_not_have_lost_attempts(found, end_of(2), excused)


@pytest.mark.parametrize("more", [Held(descriptors=65, memory=100), Held(descriptors=20, memory=151)])
def test_a_runner_that_holds_too_much_is_seen(more: Held) -> None:
    usual = [Held(descriptors=20, memory=100)] * 60
    must_be_bounded([*usual, Held(descriptors=64, memory=150)])
    with pytest.raises(AssertionError, match="as the first; but then"):
        must_be_bounded([*usual, more])


# --- what a turn that was cut off excuses -------------------------------------------------------------


def end_of_two(**other: Any) -> dict[str, Any]:
    """Two tasks, of which A failed once and B was merged after it."""
    return {
        "tasks": {"A": ("COMPLETE", None, 2), "B": ("COMPLETE", None, 1)},
        "evaluations": {"A": (1, 0), "B": (1, 0)},
        "verdicts": {"A": [True], "B": [True]},
        "history": {"main": ["Begin", "Merge task A", "Merge task B"]},
        "files": {"main": {"A.txt": "a\n", "B.txt": "b\n"}},
        **other,
    }


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({"verdicts": {"A": [True], "B": [False, True]}}, []),
        ({"evaluations": {"A": (1, 0), "B": (2, 0)}}, []),
        ({"history": {"main": ["Begin", "Merge task A"]}, "files": {"main": {"A.txt": "a\n"}}}, []),
        ({"files": {"main": {"A.txt": "a\n", "B.txt": ""}}}, []),
        ({"tasks": {"A": ("COMPLETE", None, 2), "B": ("COMPLETE", None, 2)}}, ["tasks"]),
        ({"verdicts": {"A": [False, True], "B": [True]}}, ["verdicts"]),
        ({"evaluations": {"A": (2, 0), "B": (1, 0)}}, ["evaluations"]),
        ({"history": {"main": ["Begin", "Merge task B"]}}, ["history"]),
        ({"files": {"main": {"A.txt": "", "B.txt": "b\n"}}}, ["files"]),
        ({"files": {"main": {"B.txt": "b\n"}}}, ["files"]),
    ],
)
def test_a_turn_that_was_cut_off_excuses_what_is_of_its_own_task_and_no_attempt(
    found: dict[str, Any], wrong: list[str]
) -> None:
    work = Work(frozenset({"Merge task B"}), frozenset({"B.txt"}))
    judged = different(but_for(end_of_two(**found), {"B"}, work), but_for(end_of_two(), {"B"}, work))
    assert [*judged] == wrong


async def test_a_run_that_waits_for_what_nobody_says_tells_what_it_waits_for(suites: FailpointSuites) -> None:
    place = await ended(suites("capped"))
    with pytest.raises(AssertionError, match="it waits, and nobody has an answer: a merge waits"):
        place.answer(Ended(6, "", "a merge waits"))
