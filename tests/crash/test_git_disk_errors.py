"""The disk fails inside git itself: an error instead of each system call with which it changes a file.

EIO once, as at a bad block, and ENOSPC from then on, as on a full disk, for one command of an effect. Then the effect
is done, or fails in one clear line; and whoever opens the run again finds nothing in the way. The same under whole
runs, where a command meets EIO from its first such call to its end. `make torture` tries every call of every command.
"""

import os
import random
import shutil
import traceback

import pytest

from tests.support.crash_suite.small_disk import must_be_alone, must_be_one_line
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites
from tests.support.crash_suite.trial import play as play_on
from tests.support.effect_crash import Play, Prepared
from tests.support.effect_scenes import KINDS
from tests.support.faulty_git import CALLS, GitFault, Spot

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="NOT TESTED: a disk that fails inside git (strace is not here)"
)

ERRORS = {"EIO": "", "ENOSPC": "+"}  # with a plus: from then on
TO_THE_DISK = "fsync,rename,link"
MOST = 400


async def disturbed(play: Play, command: int, call: str, error: str, when: str, over: str = "") -> str:
    """What the orchestrator told, after which all came to the end that it has when nothing fails."""
    play.set_back()
    play.stage.git_fault.fail(command, call, error, when, over)
    with play.orchestrator() as orchestrator:
        told = orchestrator.hear()
        orchestrator.wait()
    assert told is not None, "neither done, nor an error that can be told"
    assert "\n" not in told, told
    assert await play.happened() == (told == "done"), told
    await play.finish()
    await play.must_be_as_if_nothing_had_been()
    return told


@pytest.mark.torture
async def test_a_sync_that_fails_in_any_command_of_a_commit_leaves_it_undone(prepared: Prepared) -> None:
    play, failed = await prepared("commit"), 0
    for command in range(1, MOST):
        told = await disturbed(play, command, "fsync", "EIO", "1+")
        failed += told != "done"
        if play.stage.git_fault.is_pending() and not play.stage.git_fault.made_no_such_call():
            break  # there is no such command
        assert play.stage.git_fault.made_no_such_call() == (told == "done"), told
    assert failed


async def disturbed_over(play: Play, call: str, name: str) -> list[str]:
    """The same, once at each such call about the file of this name, in the first command that makes any."""
    command, over = min(places_of(play, call, name))
    told = []
    for nth in range(1, MOST):
        told.append(await disturbed(play, command, call, "EIO", str(nth), over))
        if play.stage.git_fault.made_no_such_call():
            break
    return told[:-1]


def places_of(play: Play, call: str, name: str) -> set[tuple[int, str]]:
    """The commands of an effect that make such a call about a file of this name, each with the path of the file."""
    found, command = set(), 1
    while (spots := watched(play, command)) is not None:
        found |= {(command, s.file) for s in spots if s.call == call and os.path.basename(s.file) == name}
        command += 1
    return found


def watched(play: Play, command: int) -> list[Spot] | None:
    """The calls by which a command of an effect changes a file; None when there is no such command."""
    play.set_back()
    play.stage.git_fault.watch(command)
    with play.orchestrator() as orchestrator:
        assert orchestrator.hear() == "done"
        orchestrator.wait()
    return play.stage.git_fault.spots() if play.stage.git_fault.made_no_such_call() else None


async def test_a_worktree_whose_lock_git_could_not_take_away_is_whole(prepared: Prepared) -> None:
    """Git says nothing of it. Left there, the worktree would count as half made, with all the work in it."""
    assert await disturbed_over(await prepared("worktree.make"), "unlink", "locked") == ["done"]


@pytest.mark.parametrize("name", ["gone.txt", "MERGE_HEAD"])
async def test_what_a_merge_deletes_is_gone_though_git_could_not_delete_it(prepared: Prepared, name: str) -> None:
    """Git only warns, or not even that. Left there, it would stop the next merge, or come into the next commit."""
    assert await disturbed_over(await prepared("merge"), "unlink", name) == ["done"]


async def test_a_merge_that_git_only_noted_is_not_taken_for_one(prepared: Prepared) -> None:
    """Without an index it merges nothing, and notes that it is merging: the next commit would take their work back."""
    told = await disturbed_over(await prepared("merge.conflicts"), "rename", "index")
    assert any("Unable to write index" in each for each in told)


async def test_conflicts_of_which_git_could_not_note_the_merge_are_taken_back(prepared: Prepared) -> None:
    """Resolved and committed, they would be no merge."""
    (told,) = await disturbed_over(await prepared("merge.conflicts"), "openat", "MERGE_HEAD")
    assert "MERGE_HEAD' for writing" in told


@pytest.mark.parametrize("kind", ["deleted.made", "deleted.removed"])
async def test_what_was_staged_in_a_deleted_worktree_is_not_given_up_for_a_bad_disk(
    prepared: Prepared, kind: str
) -> None:
    told = await disturbed_over(await prepared(kind), "openat", "index.lock")
    assert told
    assert all("write-tree" in each for each in told)


# --- whole runs --------------------------------------------------------------------------------------


def commands_of(suite: FailpointSuite) -> int:
    """How many commands of a run change something."""
    place = suite.place()
    fault = counting_fault(place.folder)
    fault.watch(MOST)
    place.begin(PATH=path_with(fault))
    count = fault.count
    place.remove()
    return count


def counting_fault(folder: str) -> GitFault:
    fault = GitFault(os.path.join(folder, "counting"), os.path.join(folder, "strings"))
    fault.set_up()
    return fault


def path_with(fault: GitFault) -> str:
    return f"{fault.folder}:{os.environ['PATH']}"


async def goes_on(suite: FailpointSuite, command: int, calls: str) -> bool:
    """False when that command makes no such call, and so met no error."""
    place = suite.place()
    fault = counting_fault(place.folder)
    fault.fail(command, calls, "EIO", "1+")
    ended = place.begin(PATH=path_with(fault))
    must_be_one_line(ended)
    must_be_alone(place)
    trial = play_on(place)
    told = f"command {command}, {calls}: {ended.err}\n{trial}"
    await suite.must_end_alike(place, told, later=True)  # what failed is tried again after a pause
    return not fault.is_pending()


async def test_a_run_goes_on_after_a_disk_failed_inside_git(suites: FailpointSuites) -> None:
    suite = suites("solo")
    count, met = commands_of(suite), 0
    for command in random.Random("git").sample(range(1, count + 1), count):
        met += await goes_on(suite, command, TO_THE_DISK)
        if met == 2:
            break
    assert met == 2


async def test_what_git_failed_to_take_away_from_a_task_that_is_done_is_taken_away(suites: FailpointSuites) -> None:
    """The last command of a run deletes a branch. Nobody resumes a run that is done."""
    suite = suites("solo")
    assert await goes_on(suite, commands_of(suite), "unlink")


# --- the whole of it ---------------------------------------------------------------------------------


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_at_any_system_call_of_git(prepared: Prepared, kind: str, error: str) -> None:
    play, problems, command = await prepared(kind), [], 1
    while (spots := watched(play, command)) is not None:
        for spot in spots[:MOST]:
            try:
                await disturbed(play, command, spot.call, error, f"{spot.nth}{ERRORS[error]}")
            except AssertionError:
                problems.append(f"command {command}, {spot}: {traceback.format_exc()}")
        command += 1
    assert not problems, "\n\n".join(problems)


EVERYWHERE = [
    *(("solo", call) for call in CALLS),
    *((name, TO_THE_DISK) for name in ("loop", "waves", "pipeline")),
]


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("scenario", "calls"), EVERYWHERE)
async def test_a_run_goes_on_whichever_git_failed(suites: FailpointSuites, scenario: str, calls: str) -> None:
    suite, problems, met = suites(scenario), [], 0
    for command in range(1, commands_of(suite) + 1):
        try:
            met += await goes_on(suite, command, calls)
        except AssertionError:
            problems.append(f"command {command}: {traceback.format_exc()}")
    assert not problems, "\n\n".join(problems)
    assert met or calls != TO_THE_DISK  # some calls git hardly makes
