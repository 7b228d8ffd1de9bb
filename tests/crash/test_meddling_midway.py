"""A run is to be resumed while the user is in the middle of something in its own worktrees: a rebase, a merge.

Nothing is touched, and one line says what to do. When they have finished it, or taken it back, the run goes on.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.core.task_state import TaskStatus
from tests.crash.test_meddling_at_work import placed
from tests.support import user_actions as deeds
from tests.support.crash_suite.judge import Done
from tests.support.crash_suite.small_disk import must_be_one_line
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Ended, Nursery
from tests.support.runs_at_work import must_be_alike, pages

DECISION_NEEDED = 6
BEFORE_WORK, BEFORE_MERGE = "agent.spawn.before:3", "effect.merge.before:2"  # of page B
AT_WORK = "prompt.before:3"
Ending = Callable[[Place, str | None, str], None]


@pytest.fixture(scope="module")
def suite(warm: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailpointSuite]:
    folder = tmp_path_factory.mktemp("midway")
    yield FailpointSuite(str(folder), pages(), warm)
    shutil.rmtree(folder, ignore_errors=True)


def everything(place: Place) -> dict[str, Any]:
    """Every file of the run and of its repository, by its content and when it was written; not who looked."""
    found: dict[str, Any] = {}
    for top in (place.of_run(), place.repo):
        for folder, _, names in os.walk(top):
            for path in (os.path.join(folder, name) for name in names if name not in ("owner.lock", "index")):
                with open(path, "rb") as file:
                    found[path] = (os.fstat(file.fileno()).st_mtime_ns, file.read())
    return found


def must_say_how_to_end_it(place: Place, ended: Ended, worktree: str, command: str) -> None:
    """Where, why, and what to run there and then."""
    commands = [f"`git {command} --continue`", f"`git {command} --abort`", f"holdfast resume {place.run_id}"]
    for part in (f"{worktree} is in the middle of a {command}", *commands):
        assert part in ended.err


async def waits_for_the_user(
    suite: FailpointSuite, command: str, task: str | None, ending: Ending, failpoint: str = BEFORE_WORK
) -> None:
    place = placed(suite, pages())
    assert place.begin(failpoint).code == KILLED
    deeds.stop_midway(place, task, command)
    before = everything(place)
    for _ in range(2):
        ended = place.resume()
        must_be_one_line(ended)
        assert ended.code == DECISION_NEEDED, ended
        must_say_how_to_end_it(place, ended, deeds.worktree(place, task), command)
        assert everything(place) == before
    ending(place, task, command)
    ended = place.resume()
    must_be_one_line(ended)
    assert ended.code == 0, ended
    await must_have_their_work_too(suite, place, ending, command)


async def must_have_their_work_too(suite: FailpointSuite, place: Place, ending: Ending, command: str) -> None:
    """What they finished. A page that was rebased under the run is there as they have it, and as the run had it."""
    done, finished = await Done.look(place), ending is deeds.finish
    names = place.git("ls-tree", "-r", "--name-only", deeds.branch(place, "main")).splitlines()
    assert set(names) == {*pages().files, *(["mine.txt"] if finished else [])}
    assert {task.status for task in done.state.tasks.values()} == {TaskStatus.COMPLETE}
    if not finished or command != "rebase":
        await must_be_alike(suite, place, but=("files",) if finished else (), maybe=("history",))


@pytest.mark.parametrize(
    ("command", "task", "ending", "failpoint"),
    [
        ("rebase", "B", deeds.finish, BEFORE_WORK),
        ("merge", None, deeds.take_back, BEFORE_MERGE),
    ],
)
async def test_a_run_leaves_alone_what_the_user_is_in_the_middle_of(
    suite: FailpointSuite, command: str, task: str | None, ending: Ending, failpoint: str
) -> None:
    """Also where a merge of the run was cut off, and what stands there could be taken for the rest of it."""
    await waits_for_the_user(suite, command, task, ending, failpoint)


@pytest.mark.torture
@pytest.mark.parametrize("failpoint", [BEFORE_WORK, BEFORE_MERGE])
@pytest.mark.parametrize("ending", [deeds.finish, deeds.take_back])
@pytest.mark.parametrize("task", [None, "B"])
@pytest.mark.parametrize("command", ["rebase", "merge", "cherry-pick"])
async def test_a_run_leaves_alone_whatever_the_user_is_in_the_middle_of(
    suite: FailpointSuite, command: str, task: str | None, ending: Ending, failpoint: str
) -> None:
    await waits_for_the_user(suite, command, task, ending, failpoint)


@pytest.mark.parametrize("command", ["rebase", pytest.param("merge", marks=pytest.mark.torture)])
async def test_what_an_agent_may_have_been_in_the_middle_of_is_left_to_it(suite: FailpointSuite, command: str) -> None:
    """It was killed in its turn: nobody need be there for the run to go on."""
    place = placed(suite, pages())
    assert place.begin(AT_WORK).code == KILLED
    deeds.stop_midway(place, "B", command)
    ended = place.resume()
    assert ended.code != DECISION_NEEDED


async def test_a_merge_of_our_own_whose_note_the_power_cut_emptied_is_nobody_elses(suite: FailpointSuite) -> None:
    """The branch is back where it was, and of git's note the name is left."""
    place = placed(suite, pages())
    assert place.begin("effect.merge.after:2").code == KILLED
    main = f"refs/heads/{deeds.branch(place, 'main')}"
    place.git("update-ref", main, f"{main}^1")
    own = place.git("-C", deeds.worktree(place, None), "rev-parse", "--absolute-git-dir").strip()
    with open(os.path.join(own, "MERGE_HEAD"), "wb"):
        ended = place.resume()
    must_be_one_line(ended)
    assert ended.code == 0, ended
    await must_be_alike(suite, place)
