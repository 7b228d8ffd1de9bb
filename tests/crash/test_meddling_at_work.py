"""What users do to their repository, and to a run's own places in it, while an agent is in the middle of its turn.

The run ends as the one that nobody disturbed; or its sitting ends in a line that says what to do, and then it goes on.
What the user has in their own checkout is as they left it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.at_work import Obeying, at_work, pages
from tests.support.doom.checks import Done
from tests.support.doom.nursery import Ended, Nursery
from tests.support.doom.place import Place
from tests.support.doom.scenarios import Scenario
from tests.support.doom.small_disk import must_be_alone, must_be_one_line
from tests.support.doom.suite import Theatre

FAILED, BAD_INPUT, OWNED = 1, 2, 5
WRITING, REPORTING, JUDGING = pages(writing=True), pages(reporting=True), pages(judging=True)
AT_THE_FIRST = pages(first=True)

Deed = Callable[[Place], object]


@pytest.fixture(scope="module")
def theatre(warm: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    folder = tmp_path_factory.mktemp("meddling")
    yield Theatre(str(folder), pages(), warm)
    shutil.rmtree(folder, ignore_errors=True)


def placed(theatre: Theatre, scenario: Scenario) -> Place:
    place = theatre.place()
    place.scenario = scenario
    place.write()
    return place


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


async def must_be_alike(theatre: Theatre, place: Place, *, but: tuple[str, ...] = ()) -> Done:
    """As the undisturbed run, but for what the user changed there, and for what is only theirs."""
    done = await Done.look(place)
    done.must_be_sound()
    expected, end = _told_apart((await theatre.undisturbed()).end), _told_apart(done.end())
    different = {what: (end[what], expected[what]) for what in end if end[what] != expected[what]}
    assert set(different) == set(but), different
    return done


def _told_apart(end: dict[str, Any]) -> dict[str, Any]:
    """Without what is only the user's; and how often an agent was asked is a matter of its own."""
    return {
        **{what: found for what, found in end.items() if what != "user's"},
        "refs": [ref for ref in end["refs"] if "/holdfast/" in ref],
        "tasks": {name: task[:2] for name, task in end["tasks"].items()},
        "iterations": {name: task[2] for name, task in end["tasks"].items()},
    }


def salvaged(place: Place) -> str:
    return place.git("for-each-ref", "--format=%(refname)", f"refs/holdfast/salvage/{place.run_id}/")


def go_on(place: Place, run_id: str) -> Ended:
    return place.call("resume", run_id, "--on-issue", "fix", "--quiet")


def worktree(place: Place, task: str | None = "B") -> str:
    return place.of_run("tasks", task) if task is not None else place.of_run("workspace")


def branch(place: Place, task: str = "B") -> str:
    return f"holdfast/{place.run_id}/{task}"


def there(place: Place, task: str | None, *arguments: str) -> None:
    place.git("-C", worktree(place, task), *arguments)


def put(*names: str) -> None:
    with open(os.path.join(*names), "a", encoding="utf-8") as file:
        file.write("mine\n")


# --- in their own checkout, and with the repository as a whole ----------------------------------------


def commit(place: Place) -> None:
    place.git("commit", "--quiet", "--allow-empty", "--message=More")


def amend(place: Place) -> None:
    place.git("commit", "--quiet", "--amend", "--message=Begin, in other words")


def switch(place: Place) -> None:
    place.git("switch", "--quiet", "--create", "side")
    commit(place)


def begin_a_rebase(place: Place) -> None:
    commit(place)
    place.git("-c", "sequence.editor=sed -i 1ibreak", "rebase", "--interactive", "--quiet", "HEAD^")


def leave_uncommitted(place: Place) -> None:
    put(place.repo, "README.md")
    place.git("add", "README.md")
    put(place.repo, "README.md")
    put(place.repo, "untracked.txt")


def stash(place: Place) -> None:
    leave_uncommitted(place)
    place.git("stash", "push", "--quiet", "--include-untracked")


def collect(place: Place) -> None:
    place.git("reflog", "expire", "--expire=now", "--all")
    place.git("gc", "--quiet", "--prune=now")


def clean_up(place: Place) -> None:
    collect(place)
    place.git("worktree", "prune", "--expire=now")
    place.git("pack-refs", "--all")
    place.git("repack", "-adq")


def fetch(place: Place) -> None:
    """From a copy of it, which has no branch of the run."""
    other = os.path.join(place.folder, "other")
    place.git("clone", "--quiet", "--bare", "--single-branch", "--branch=main", place.repo, other)
    place.git("remote", "add", "origin", other)
    place.git("fetch", "--quiet", "--prune", "origin", "+refs/heads/*:refs/remotes/origin/*")


def leave_locks(place: Place) -> None:
    own = (f"worktrees/{name}/index.lock" for name in ("B", "workspace"))
    refs = (f"refs/heads/{branch(place, name)}.lock" for name in ("B", "main"))
    for name in ("index.lock", "packed-refs.lock", "config.lock", *own, *refs):
        put(place.repo, ".git", name)


def move_there_and_back(place: Place) -> None:
    os.rename(place.repo, f"{place.repo} moved")
    os.rename(f"{place.repo} moved", place.repo)


def delete_what_is_derived(place: Place) -> None:
    for name in ("plan.json", "snapshot.json"):
        if os.path.exists(place.of_run(name)):
            os.unlink(place.of_run(name))
    for name in os.listdir(place.home):
        if name.startswith("catalog"):
            os.unlink(os.path.join(place.home, name))


def rewrite_the_plan(place: Place) -> None:
    with open(place.of_run("plan.json"), "w", encoding="utf-8") as file:
        file.write("{")


OWN = [commit, amend, switch, begin_a_rebase, leave_uncommitted, stash, collect, clean_up, fetch, leave_locks]
OTHERS = [move_there_and_back, delete_what_is_derived, rewrite_the_plan]


# --- in the run's own places, where it can be gone on with -------------------------------------------


class Meddling(NamedTuple):
    """`but` is what differs from the undisturbed run in the end."""

    deed: Deed
    scenario: Scenario = WRITING
    but: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.deed.__name__


def commit_in_the_task(place: Place) -> None:
    there(place, "B", "add", "--all")
    there(place, "B", "commit", "--quiet", "--message=By hand")


def reset_the_task(place: Place) -> None:
    """By one commit: what the agent made is not tracked yet, and stays."""
    there(place, "B", "reset", "--quiet", "--hard", "HEAD^")


def rebase_the_task(place: Place) -> None:
    commit(place)
    there(place, "A", "rebase", "--quiet", "main")


def rebase_the_run(place: Place) -> None:
    commit(place)
    there(place, None, "rebase", "--quiet", "main")


def push_the_task_ahead(place: Place) -> None:
    made = place.git("commit-tree", "-p", branch(place), "-m", "Mine", f"{branch(place)}^{{tree}}").strip()
    place.git("update-ref", f"refs/heads/{branch(place)}", made)


def push_the_run_ahead(place: Place) -> None:
    main = branch(place, "main")
    made = place.git("commit-tree", "-p", main, "-m", "Mine", f"{main}^{{tree}}").strip()
    place.git("update-ref", f"refs/heads/{main}", made)


def set_the_task_back(place: Place) -> None:
    place.git("update-ref", f"refs/heads/{branch(place)}", "main")


def work_along_in_the_task(place: Place) -> None:
    put(worktree(place), "mine.txt")


def commit_in_the_run(place: Place) -> None:
    put(worktree(place, None), "mine.txt")
    there(place, None, "add", "--all")
    there(place, None, "commit", "--quiet", "--message=By hand")


def delete_the_runs_folder(place: Place) -> None:
    shutil.rmtree(worktree(place, None))


def remove_the_runs_worktree(place: Place) -> None:
    place.git("worktree", "remove", "--force", worktree(place, None))


def delete_the_tasks_folder(place: Place) -> None:
    shutil.rmtree(worktree(place))


def remove_the_tasks_worktree(place: Place) -> None:
    place.git("worktree", "remove", "--force", worktree(place))


def remove_the_task(place: Place) -> None:
    remove_the_tasks_worktree(place)
    place.git("branch", "--quiet", "-D", branch(place))


def delete_everything_and_clean_up(place: Place) -> None:
    delete_the_runs_folder(place)
    delete_the_tasks_folder(place)
    clean_up(place)


GONE_ON = [
    Meddling(commit_in_the_task),
    Meddling(reset_the_task),
    Meddling(rebase_the_task, AT_THE_FIRST, but=("history",)),
    Meddling(rebase_the_run, AT_THE_FIRST, but=("history",)),
    Meddling(push_the_task_ahead),
    Meddling(push_the_run_ahead, but=("history",)),
    Meddling(set_the_task_back),
    Meddling(work_along_in_the_task, but=("files",)),
    Meddling(commit_in_the_run, but=("history", "files")),
    Meddling(delete_the_runs_folder),
    Meddling(remove_the_runs_worktree),
]
MADE_AGAIN = [delete_the_tasks_folder, remove_the_tasks_worktree, remove_the_task, delete_everything_and_clean_up]


async def gone_on_with(theatre: Theatre, meddling: Meddling) -> Place:
    place = placed(theatre, meddling.scenario)
    with at_work(place) as let_go:
        meddling.deed(place)
        theirs = users(place)
        ended = let_go()
    must_be_one_line(ended)
    assert ended.code == 0, ended
    assert users(place) == theirs
    await must_be_alike(theatre, place, but=meddling.but)
    return place


@pytest.mark.parametrize("deed", [leave_uncommitted, clean_up])
async def test_what_the_user_does_in_their_own_checkout_is_theirs_alone(theatre: Theatre, deed: Deed) -> None:
    await gone_on_with(theatre, Meddling(deed))


@pytest.mark.torture
@pytest.mark.parametrize("deed", [deed for deed in OWN + OTHERS if deed not in (leave_uncommitted, clean_up)])
async def test_whatever_the_user_does_in_their_own_checkout_is_theirs_alone(theatre: Theatre, deed: Deed) -> None:
    await gone_on_with(theatre, Meddling(deed))


@pytest.mark.torture
@pytest.mark.parametrize("meddling", GONE_ON, ids=str)
async def test_a_run_goes_on_with_what_the_user_does_to_its_branches_and_worktrees(
    theatre: Theatre, meddling: Meddling
) -> None:
    await gone_on_with(theatre, meddling)


async def test_a_worktree_that_is_deleted_under_its_agent_is_made_again_and_the_agent_is_told(theatre: Theatre) -> None:
    await gone_on_with(theatre, Meddling(delete_the_tasks_folder, REPORTING, but=("iterations",)))


@pytest.mark.torture
@pytest.mark.parametrize("deed", MADE_AGAIN[1:])
async def test_a_worktree_that_is_taken_from_its_agent_is_made_again_and_the_agent_is_told(
    theatre: Theatre, deed: Deed
) -> None:
    await gone_on_with(theatre, Meddling(deed, REPORTING, but=("iterations",)))


@pytest.mark.parametrize(
    "deed", [MADE_AGAIN[0], *(pytest.param(deed, marks=pytest.mark.torture) for deed in MADE_AGAIN[1:])]
)
async def test_what_an_agent_had_done_by_the_end_of_its_turn_comes_back_with_its_worktree(
    theatre: Theatre, deed: Deed
) -> None:
    await gone_on_with(theatre, Meddling(deed, JUDGING))


@pytest.mark.torture
async def test_what_the_runs_branch_had_before_it_was_set_back_is_kept_and_told(theatre: Theatre) -> None:
    def reset_the_run(place: Place) -> None:
        there(place, None, "reset", "--quiet", "--hard", "HEAD^")

    place = await gone_on_with(theatre, Meddling(reset_the_run))
    (kept,) = salvaged(place).splitlines()
    assert place.git("log", "-1", "--format=%s", kept) == "Merge task A\n"
    assert f"git merge {kept}" in place.call("logs", place.run_id).out
    assert kept.removeprefix("refs/holdfast/salvage/") in place.call("salvage", "ls", place.run_id).out


# --- what ends the sitting, in a line that says what to do --------------------------------------------


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


def switch_the_task(place: Place) -> None:
    there(place, "B", "switch", "--quiet", "--create", "side")


def detach_the_task(place: Place) -> None:
    there(place, "B", "switch", "--quiet", "--detach")


def switch_the_task_back(place: Place) -> None:
    there(place, "B", "switch", "--quiet", branch(place))


def switch_the_run(place: Place) -> None:
    there(place, None, "switch", "--quiet", "--create", "side")


def switch_the_run_back(place: Place) -> None:
    there(place, None, "switch", "--quiet", branch(place, "main"))


def move_away_what_is_there(place: Place) -> None:
    """What the agent wrote where its worktree was."""
    aside = os.path.join(place.folder, "aside")
    os.rename(worktree(place), aside)
    assert os.listdir(aside) == ["more B.txt"]


def move_the_tasks_worktree(place: Place) -> None:
    place.git("worktree", "move", worktree(place), os.path.join(place.folder, "elsewhere"))


def move_the_tasks_worktree_back(place: Place) -> None:
    move_away_what_is_there(place)
    place.git("worktree", "move", os.path.join(place.folder, "elsewhere"), worktree(place))
    shutil.copy2(os.path.join(place.folder, "aside", "more B.txt"), worktree(place))


def leave_a_file_in_the_run(place: Place) -> None:
    put(worktree(place, None), "mine.txt")


def take_the_file_from_the_run(place: Place) -> None:
    os.rename(os.path.join(worktree(place, None), "mine.txt"), os.path.join(place.folder, "mine.txt"))


def set_the_run_back(place: Place) -> None:
    place.git("update-ref", f"refs/heads/{branch(place, 'main')}", "main")


def take_the_files_back_too(place: Place) -> None:
    there(place, None, "reset", "--quiet", "--hard")


def delete_the_tasks_branch(place: Place) -> None:
    place.git("update-ref", "-d", f"refs/heads/{branch(place)}")


def delete_the_runs_branch(place: Place) -> None:
    place.git("update-ref", "-d", f"refs/heads/{branch(place, 'main')}")


def remove_the_run(place: Place) -> None:
    remove_the_runs_worktree(place)
    place.git("branch", "--quiet", "-D", branch(place, "main"))


def remove_everything(place: Place) -> None:
    remove_the_task(place)
    remove_the_run(place)


NO_BRANCH, NOT_OURS = "is not there any more; `git branch", "it has no .git of its own; nothing was done there, move it"
STOPPING = [
    Stopping(delete_the_tasks_folder, FAILED, NOT_OURS, move_away_what_is_there, but=("iterations",)),
    Stopping(remove_the_task, FAILED, NOT_OURS, move_away_what_is_there, but=("iterations",)),
    Stopping(move_the_tasks_worktree, FAILED, NOT_OURS, move_the_tasks_worktree_back),
    Stopping(switch_the_task, FAILED, "switch it back with git -C", switch_the_task_back),
    Stopping(detach_the_task, FAILED, "switch it back with git -C", switch_the_task_back),
    Stopping(switch_the_run, FAILED, "switch it back with git -C", switch_the_run_back),
    Stopping(leave_a_file_in_the_run, FAILED, "commit them or move them away", take_the_file_from_the_run),
    Stopping(set_the_run_back, FAILED, "commit them or move them away", take_the_files_back_too),
    Stopping(delete_the_tasks_branch, FAILED, NO_BRANCH),
    Stopping(delete_the_runs_branch, FAILED, NO_BRANCH),
    Stopping(remove_the_run, FAILED, NO_BRANCH),
    Stopping(remove_everything, FAILED, NO_BRANCH, but=("iterations",), scenario=REPORTING),
]


async def stopped_and_gone_on(theatre: Theatre, stopping: Stopping) -> None:
    place = placed(theatre, stopping.scenario)
    with at_work(place) as let_go:
        stopping.deed(place)
        theirs = users(place)
        ended = let_go()
    must_be_one_line(ended)
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
    await must_be_alike(theatre, place, but=stopping.but)


async def test_a_branch_that_is_deleted_ends_the_sitting_in_a_line_and_comes_back_by_resume(theatre: Theatre) -> None:
    await stopped_and_gone_on(theatre, Stopping(remove_the_run, FAILED, NO_BRANCH))


@pytest.mark.torture
@pytest.mark.parametrize("stopping", STOPPING, ids=str)
async def test_what_a_run_cannot_go_on_with_is_named_and_it_goes_on_when_that_is_put_right(
    theatre: Theatre, stopping: Stopping
) -> None:
    await stopped_and_gone_on(theatre, stopping)


# --- what is moved away, and what may not be written --------------------------------------------------


MOVED = {"repo": BAD_INPUT, "home": OWNED, "events.jsonl": OWNED, "inbox.jsonl": FAILED, "owner.lock": OWNED}


@pytest.mark.torture
@pytest.mark.parametrize("name", MOVED)
async def test_what_is_moved_away_under_a_run_ends_its_sitting_and_it_goes_on_when_it_is_back(
    theatre: Theatre, name: str
) -> None:
    place = placed(theatre, WRITING)
    with at_work(place) as let_go:
        theirs, run_id = users(place), place.run_id
        path = {"repo": place.repo, "home": place.home}.get(name) or place.of_run(name)
        os.rename(path, f"{path} moved")
        ended = let_go()
    assert ended.code == MOVED[name], ended
    assert os.path.basename(path) in ended.err
    assert "Traceback" not in ended.err
    if os.path.isdir(path):  # what the agent wrote where its worktree was
        shutil.rmtree(path)
    os.rename(f"{path} moved", path)
    again = go_on(place, run_id)
    must_be_one_line(again)
    assert again.code == 0, again
    assert users(place) == theirs
    await must_be_alike(theatre, place)


@pytest.mark.torture
@pytest.mark.parametrize("name", ["objects", "refs/heads", "worktrees/B", "worktrees/workspace"])
async def test_what_may_not_be_written_any_more_is_named_and_the_run_goes_on_when_it_may(
    theatre: Theatre, warm: Nursery, name: str
) -> None:
    place = Obeying(theatre.place().folder, WRITING, warm)
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
    assert "ermission denied" in ended.err, ended
    again = go_on(place, place.run_id)
    must_be_one_line(again)
    assert again.code == 0, again
    assert users(place) == theirs
    await must_be_alike(theatre, place)


# --- a second terminal --------------------------------------------------------------------------------

LOOKING = (["ls"], ["show"], ["diff"], ["verify"], ["logs"], ["analyze"], ["salvage", "ls"], ["doctor"])
TOUCHING = (["resume"], ["reset", "--yes"], ["archive"], ["merge"], ["merge", "--into", "main"], ["push"], ["pr"])


async def test_a_second_terminal_may_look_and_speak_and_touches_nothing(theatre: Theatre) -> None:
    place = placed(theatre, WRITING)
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
    await must_be_alike(theatre, place)


@pytest.mark.torture
async def test_a_second_terminal_stops_a_run_and_goes_on_with_it(theatre: Theatre) -> None:
    place = placed(theatre, WRITING)
    with at_work(place) as let_go:
        assert place.call("stop", place.run_id).code == 0
        ended = let_go()
        must_be_one_line(ended)
        assert f"holdfast resume {place.run_id}" in ended.err
        must_be_alone(place)
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(theatre, place)
