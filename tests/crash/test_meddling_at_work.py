"""What users do to their repository, and to a run's own places in it, while an agent is in the middle of its turn.

The run ends as the one that nobody disturbed; or its session ends in a line that says what to do, and then it goes on.
What the user has in their own checkout is as they left it.
"""

import os
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support import user_actions as deeds
from tests.support.crash_suite.scenarios import Scenario
from tests.support.crash_suite.small_disk import must_be_alone, must_be_one_line
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Ended, Nursery
from tests.support.runs_at_work import Obeying, at_work, must_be_alike, pages, users
from tests.support.user_actions import Deed

FAILED, BAD_INPUT, OWNED = 1, 2, 5
WRITING, REPORTING, JUDGING = pages(writing=True), pages(reporting=True), pages(judging=True)
AT_THE_FIRST = pages(first=True)


@pytest.fixture(scope="module")
def suite(warm: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailpointSuite]:
    folder = tmp_path_factory.mktemp("meddling")
    yield FailpointSuite(str(folder), pages(), warm)
    shutil.rmtree(folder, ignore_errors=True)


def placed(suite: FailpointSuite, scenario: Scenario) -> Place:
    place = suite.place()
    place.scenario = scenario
    place.write()
    return place


def meddled(suite: FailpointSuite, scenario: Scenario, deed: Deed) -> tuple[Place, dict[str, Any], Ended]:
    """The place, what the user has there after what they did, and how the session ended."""
    place = placed(suite, scenario)
    with at_work(place) as let_go:
        deed(place)
        theirs = users(place)
        ended = let_go()
    must_be_one_line(ended)
    return place, theirs, ended


def salvaged(place: Place) -> str:
    return place.git("for-each-ref", "--format=%(refname)", f"refs/holdfast/salvage/{place.run_id}/")


def go_on(place: Place, run_id: str) -> Ended:
    return place.call("resume", run_id, "--on-issue", "retry", "--quiet")


# --- in their own checkout, and with the repository as a whole ----------------------------------------


OWN = [
    deeds.commit,
    deeds.amend,
    deeds.switch,
    deeds.begin_a_rebase,
    deeds.leave_uncommitted,
    deeds.stash,
    deeds.collect,
    deeds.clean_up,
    deeds.fetch,
    deeds.leave_locks,
]
OTHERS = [deeds.move_there_and_back, deeds.delete_what_is_derived, deeds.rewrite_the_plan]


# --- in the run's own places, where it can be gone on with -------------------------------------------


class Meddling(NamedTuple):
    """`but` is what differs from the undisturbed run in the end."""

    deed: Deed
    scenario: Scenario = WRITING
    but: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.deed.__name__


GONE_ON = [
    Meddling(deeds.commit_in_the_task),
    Meddling(deeds.reset_the_task),
    Meddling(deeds.rebase_the_task, AT_THE_FIRST, but=("history",)),
    Meddling(deeds.rebase_the_run, AT_THE_FIRST, but=("history",)),
    Meddling(deeds.push_the_task_ahead),
    Meddling(deeds.push_the_run_ahead, but=("history",)),
    Meddling(deeds.set_the_task_back),
    Meddling(deeds.work_along_in_the_task, but=("files",)),
    Meddling(deeds.commit_in_the_run, but=("history", "files")),
    Meddling(deeds.delete_the_runs_folder),
    Meddling(deeds.remove_the_runs_worktree),
]
MADE_AGAIN = [
    deeds.delete_the_tasks_folder,
    deeds.remove_the_tasks_worktree,
    deeds.remove_the_task,
    deeds.delete_everything_and_clean_up,
]


async def gone_on_with(suite: FailpointSuite, meddling: Meddling) -> Place:
    place, theirs, ended = meddled(suite, meddling.scenario, meddling.deed)
    assert ended.code == 0, ended
    assert users(place) == theirs
    if meddling.deed is deeds.begin_a_rebase:
        place.git("rebase", "--continue")
    await must_be_alike(suite, place, but=meddling.but)
    return place


@pytest.mark.parametrize("deed", [deeds.leave_uncommitted, pytest.param(deeds.clean_up, marks=pytest.mark.torture)])
async def test_what_the_user_does_in_their_own_checkout_is_theirs_alone(suite: FailpointSuite, deed: Deed) -> None:
    await gone_on_with(suite, Meddling(deed))


@pytest.mark.torture
@pytest.mark.parametrize(
    "deed", [deed for deed in OWN + OTHERS if deed not in (deeds.leave_uncommitted, deeds.clean_up)]
)
async def test_whatever_the_user_does_in_their_own_checkout_is_theirs_alone(suite: FailpointSuite, deed: Deed) -> None:
    await gone_on_with(suite, Meddling(deed))


@pytest.mark.torture
@pytest.mark.parametrize("meddling", GONE_ON, ids=str)
async def test_a_run_goes_on_with_what_the_user_does_to_its_branches_and_worktrees(
    suite: FailpointSuite, meddling: Meddling
) -> None:
    await gone_on_with(suite, meddling)


async def test_a_worktree_that_is_deleted_under_its_agent_is_made_again_and_the_agent_is_told(
    suite: FailpointSuite,
) -> None:
    await gone_on_with(suite, Meddling(deeds.delete_the_tasks_folder, REPORTING, but=("iterations",)))


@pytest.mark.torture
@pytest.mark.parametrize("deed", MADE_AGAIN[1:])
async def test_a_worktree_that_is_taken_from_its_agent_is_made_again_and_the_agent_is_told(
    suite: FailpointSuite, deed: Deed
) -> None:
    await gone_on_with(suite, Meddling(deed, REPORTING, but=("iterations",)))


@pytest.mark.parametrize(
    "deed", [MADE_AGAIN[0], *(pytest.param(deed, marks=pytest.mark.torture) for deed in MADE_AGAIN[1:])]
)
async def test_what_an_agent_had_done_by_the_end_of_its_turn_comes_back_with_its_worktree(
    suite: FailpointSuite, deed: Deed
) -> None:
    await gone_on_with(suite, Meddling(deed, JUDGING))


@pytest.mark.torture
@pytest.mark.parametrize("again", ["effect.worktree.make.before:1", "effect.worktree.make.after:1"])
@pytest.mark.parametrize(
    ("failpoint", "but"), [("effect.commit.before:2", ()), ("effect.snapshot.take.before:2", ("iterations",))]
)
async def test_a_death_while_a_worktree_is_made_again_is_one_more_death(
    suite: FailpointSuite, failpoint: str, again: str, but: tuple[str, ...]
) -> None:
    """Whether what its worker did can be brought back, or not."""
    place = placed(suite, pages())
    assert place.begin(failpoint).code == KILLED
    deeds.delete_the_tasks_folder(place)
    assert place.resume(again, "again").code == KILLED
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(suite, place, but=but)


@pytest.mark.torture
async def test_what_the_runs_branch_had_before_it_was_set_back_is_kept_and_told(suite: FailpointSuite) -> None:
    place = await gone_on_with(suite, Meddling(deeds.reset_the_run))
    (kept,) = salvaged(place).splitlines()
    assert place.git("log", "-1", "--format=%s", kept) == "Merge task A\n"
    assert f"git merge {kept}" in place.call("logs", place.run_id).out
    assert kept.removeprefix("refs/holdfast/salvage/") in place.call("salvage", "ls", place.run_id).out


# --- what ends the session, in a line that says what to do --------------------------------------------


class Stopping(NamedTuple):
    """`says` is in the line; `then` is what the user does because of it."""

    deed: Deed
    code: int
    says: str
    then: Deed | None = None
    but: tuple[str, ...] = ()
    scenario: Scenario = WRITING

    def __str__(self) -> str:
        return self.deed.__name__


NO_BRANCH, NOT_OURS = "git branch holdfast/", "it has no .git of its own; nothing was changed, move it"
STOPPING = [
    Stopping(deeds.delete_the_tasks_folder, FAILED, NOT_OURS, deeds.move_away_what_is_there, but=("iterations",)),
    Stopping(deeds.remove_the_task, FAILED, NOT_OURS, deeds.move_away_what_is_there, but=("iterations",)),
    Stopping(deeds.move_the_tasks_worktree, FAILED, NOT_OURS, deeds.move_the_tasks_worktree_back),
    Stopping(deeds.switch_the_task, FAILED, "switch it back with: git -C", deeds.switch_the_task_back),
    Stopping(deeds.detach_the_task, FAILED, "switch it back with: git -C", deeds.switch_the_task_back),
    Stopping(deeds.switch_the_run, FAILED, "switch it back with: git -C", deeds.switch_the_run_back),
    Stopping(deeds.begin_to_rebase_the_task, FAILED, "undo it with `git rebase --abort`", deeds.take_the_rebase_back),
    Stopping(deeds.leave_a_file_in_the_run, FAILED, "commit them or move them away", deeds.take_the_file_from_the_run),
    Stopping(deeds.set_the_run_back, FAILED, "commit them or move them away", deeds.take_the_files_back_too),
    Stopping(deeds.delete_the_tasks_branch, FAILED, NO_BRANCH),
    Stopping(deeds.delete_the_runs_branch, FAILED, NO_BRANCH),
    Stopping(deeds.remove_the_run, FAILED, NO_BRANCH),
    Stopping(deeds.remove_everything, FAILED, NO_BRANCH, but=("iterations",), scenario=REPORTING),
]


async def stopped_and_gone_on(suite: FailpointSuite, stopping: Stopping) -> None:
    place, theirs, ended = meddled(suite, stopping.scenario, stopping.deed)
    assert (ended.code, stopping.says in ended.err) == (stopping.code, True), ended
    must_be_alone(place)
    if stopping.then is not None:
        again = go_on(place, place.run_id)
        must_be_one_line(again)
        assert (again.code, stopping.says in again.err) == (stopping.code, True), again
        stopping.then(place)
    assert users(place) == theirs
    again = go_on(place, place.run_id)
    must_be_one_line(again)
    assert again.code == 0, again
    assert users(place) == theirs
    await must_be_alike(suite, place, but=stopping.but)


async def test_a_branch_that_is_deleted_ends_the_session_in_a_line_and_comes_back_by_resume(
    suite: FailpointSuite,
) -> None:
    await stopped_and_gone_on(suite, Stopping(deeds.remove_the_run, FAILED, NO_BRANCH))


@pytest.mark.torture
@pytest.mark.parametrize("stopping", STOPPING, ids=str)
async def test_what_a_run_cannot_go_on_with_is_named_and_it_goes_on_when_that_is_put_right(
    suite: FailpointSuite, stopping: Stopping
) -> None:
    await stopped_and_gone_on(suite, stopping)


# --- what is moved away, and what may not be written --------------------------------------------------


MOVED = {
    "repo": (BAD_INPUT, "if it was moved, `holdfast doctor --repo NEW-PLACE --fix` finds it again"),
    "home": (OWNED, "nothing more is written"),
    "events.jsonl": (OWNED, "put it back"),
    "inbox.jsonl": (FAILED, "fix this, then resume the run"),
    "owner.lock": (OWNED, "its lock is gone; nothing more is written"),
}


@pytest.mark.torture
@pytest.mark.parametrize("name", MOVED)
async def test_what_is_moved_away_under_a_run_ends_its_session_and_it_goes_on_when_it_is_back(
    suite: FailpointSuite, name: str
) -> None:
    place = placed(suite, WRITING)
    with at_work(place) as let_go:
        theirs, run_id = users(place), place.run_id
        path = {"repo": place.repo, "home": place.home}.get(name) or place.of_run(name)
        os.rename(path, f"{path} moved")
        ended = let_go()
    code, says = MOVED[name]
    assert ended.code in (code, FAILED), ended  # whoever meets it first
    assert any(words in ended.err for words in (says, "fix this, then resume the run", "nothing was changed")), ended
    assert "Traceback" not in ended.err
    if os.path.isdir(path):  # what the agent wrote where its worktree was
        shutil.rmtree(path)
    os.rename(f"{path} moved", path)
    again = go_on(place, run_id)
    must_be_one_line(again)
    assert again.code == 0, again
    assert users(place) == theirs
    await must_be_alike(suite, place, maybe=("iterations",))  # a report that found no inbox is made again


@pytest.mark.torture
@pytest.mark.parametrize("name", ["objects", "refs/heads", "worktrees/B", "worktrees/workspace"])
async def test_what_may_not_be_written_any_more_is_named_and_the_run_goes_on_when_it_may(
    suite: FailpointSuite, warm: Nursery, name: str
) -> None:
    place = Obeying(suite.place().folder, WRITING, warm)
    place.write()
    with at_work(place) as let_go:
        theirs = users(place)
        top = os.path.join(place.repo, ".git", name)
        folders = [folder for folder, _, _ in os.walk(top)]
        for folder in folders:
            os.chmod(folder, 0o500)
        ended = let_go()
    for folder in folders:
        os.chmod(folder, 0o700)
    must_be_one_line(ended)
    assert ended.code in (FAILED, 6), ended
    assert "ermission" in ended.err, ended
    again = go_on(place, place.run_id)
    must_be_one_line(again)
    assert again.code == 0, again
    assert users(place) == theirs
    await must_be_alike(suite, place)


# --- a second terminal --------------------------------------------------------------------------------

LOOKING = (["ls"], ["show"], ["diff"], ["verify"], ["logs"], ["analyze"], ["salvage", "ls"], ["doctor"])
TOUCHING = (["resume"], ["reset", "--yes"], ["archive"], ["merge"], ["merge", "--into", "main"], ["push"], ["pr"])


async def test_a_second_terminal_may_look_and_speak_and_touches_nothing(suite: FailpointSuite) -> None:
    place = placed(suite, WRITING)
    with at_work(place) as let_go:
        theirs = users(place)
        for command, *options in TOUCHING:
            refused = place.call(command, place.run_id, *options)
            assert (refused.code, refused.out) == (OWNED, ""), (command, refused)
            must_be_one_line(refused._replace(code=FAILED))
            assert f"run {place.run_id} is owned by pid" in refused.err
        for command, *options in LOOKING:
            named = [] if command in ("ls", "salvage", "doctor") else [place.run_id]
            assert place.call(command, *options, *named).code == 0, command
        assert place.call("doctor", "--fix").code == 0
        assert place.call("send", place.run_id, "Well done so far.").code == 0
        ended = let_go()
    assert ended.code == 0, ended
    assert users(place) == theirs
    await must_be_alike(suite, place, but=("verdicts",))  # for who is spoken to has more to do


@pytest.mark.torture
async def test_a_second_terminal_stops_a_run_and_goes_on_with_it(suite: FailpointSuite) -> None:
    place = placed(suite, WRITING)
    with at_work(place) as let_go:
        assert place.call("stop", place.run_id).code == 0
        ended = let_go()
        must_be_one_line(ended)
        assert f"holdfast resume {place.run_id}" in ended.err
        must_be_alone(place)
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(suite, place)
