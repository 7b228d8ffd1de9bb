"""What users do with git, and with files, while a run of pages (`tests.support.runs_at_work`) is at work on page B."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress

from tests.support.crash_suite.trial_place import Place

Deed = Callable[[Place], object]


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


# --- to the repository and the run's folder as a whole ------------------------------------------------


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


# --- to the run's own branches and worktrees ----------------------------------------------------------


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


def stop_midway(place: Place, task: str | None, command: str) -> None:
    """A rebase, a merge or a cherry-pick in a worktree of the run that stops over page A: it is theirs, too, by now."""
    put(place.repo, "A.txt")
    put(place.repo, "mine.txt")
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=Mine")
    with suppress(AssertionError):  # git says that there are conflicts
        there(place, task, command, "main")
    assert "A.txt" in place.git("-C", worktree(place, task), "diff", "--name-only", "--diff-filter=U")


def finish(place: Place, task: str | None, command: str) -> None:
    """As the run has the page."""
    with open(os.path.join(worktree(place, task), "A.txt"), "w", encoding="utf-8") as file:
        file.write("A.txt\n")
    there(place, task, "add", "A.txt")
    there(place, task, "-c", "core.editor=true", command, "--continue")


def take_back(place: Place, task: str | None, command: str) -> None:
    there(place, task, command, "--abort")


def begin_to_rebase_the_task(place: Place) -> None:
    stop_midway(place, "B", "rebase")


def take_the_rebase_back(place: Place) -> None:
    take_back(place, "B", "rebase")


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


# --- and how that is put right -----------------------------------------------------------------------


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


def reset_the_run(place: Place) -> None:
    """By what it last merged."""
    there(place, None, "reset", "--quiet", "--hard", "HEAD^")
