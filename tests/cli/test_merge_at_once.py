"""Two `holdfast merge` into one branch at the same time: both get there, or the one that does not says what to type."""

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.program import Program, failpoint_environment, finished
from tests.cli.runs import log_of
from tests.support.projects import Project, do_task, new_run
from tests.support.wait import until

# Signs for git: what a signature says is nobody's business here, but it comes in the middle of a merge.
_SIGNED = """printf '\\n[GNUPG:] SIG_CREATED \\n' >&2
printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'
"""


@pytest.fixture
def runs(holdfast: Program, project: Project) -> list[str]:
    """Two runs, and a branch that went on by itself: each of them needs a merge commit."""
    names = [new_run(holdfast.home, project, goal=goal) for goal in ("First", "Second")]
    for name, run_id in zip(("one", "two"), names, strict=True):
        do_task(holdfast.home, run_id, files={f"{name}.txt": f"{name}\n"})
    project.git("switch", "--quiet", "--create", "release")
    project.commit({"r.txt": "r\n"}, "On release")
    project.git("switch", "--quiet", "main")
    return names


def signing_by(project: Project, folder: Path, script: str) -> None:
    program = folder / "sign"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n{_SIGNED}", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    project.git("config", "commit.gpgSign", "true")
    project.git("config", "gpg.program", str(program))


@contextmanager
def held_in_its_merge(holdfast: Program, project: Project, folder: Path, run_id: str) -> Iterator[None]:
    """While this lasts, a merge of the run is in the middle of it. Afterwards it comes to its end."""
    signing_by(
        project,
        folder,
        f"mkdir {folder}/begun 2>/dev/null && while [ ! -e {folder}/go ]; do sleep 0.05; done",
    )
    with holdfast.start("merge", run_id, "--into", "release", "--json") as process:
        try:
            _wait_for((folder / "begun").is_dir)
            yield
        finally:
            (folder / "go").touch()
        finished(process)


def _wait_for(condition: Callable[[], bool]) -> None:
    asyncio.run(until(condition))


def has_begun_to_merge(holdfast: Program, run_id: str) -> bool:
    """The next thing it does is wait for the lock of the repository."""
    return b'"command":"merge"' in log_of(holdfast.home, run_id).read_bytes()


def test_the_second_waits_and_merges_on_top_of_the_first(
    holdfast: Program, project: Project, runs: list[str], tmp_path: Path
) -> None:
    first, second = runs
    with held_in_its_merge(holdfast, project, tmp_path, first):
        late = holdfast.start("merge", second, "--into", "release", "--json")
        _wait_for(lambda: has_begun_to_merge(holdfast, second))
    with late:
        finished(late)
    names = project.git("ls-tree", "--name-only", "release").split()
    assert names == ["a.txt", "one.txt", "r.txt", "two.txt"]
    for run_id in runs:
        holdfast("verify", run_id)
        assert "already merged" in holdfast("merge", run_id, "--into", "release").out


def test_many_at_once_all_get_there(holdfast: Program, project: Project) -> None:
    runs = [new_run(holdfast.home, project, goal=f"Goal {number}") for number in range(4)]
    for number, run_id in enumerate(runs):
        do_task(holdfast.home, run_id, files={f"f{number}.txt": "x\n"})
    project.git("branch", "release")
    for target in ("release", "main"):  # one that is checked out nowhere, and one that is
        processes = [holdfast.start("merge", run_id, "--into", target) for run_id in runs]
        for process in processes:
            with process:
                finished(process)
        assert {f"f{number}.txt" for number in range(4)} < set(project.git("ls-tree", "--name-only", target).split())
    assert project.git("status", "--porcelain") == ""


def test_a_branch_that_another_git_moves_once_is_merged_where_it_is_then(
    holdfast: Program, project: Project, runs: list[str], tmp_path: Path
) -> None:
    """Git knows nothing of our lock."""
    moved = project.git("commit-tree", "-p", "release", "-m", "Moved", "release^{tree}")
    signing_by(project, tmp_path, f"mkdir {tmp_path}/moved 2>/dev/null && git update-ref refs/heads/release {moved}")
    made = holdfast("merge", runs[0], "--into", "release", "--json").object
    assert project.tip("release") == made["commit"]
    assert project.tip("release^1") == moved
    assert (tmp_path / "moved").is_dir()


def test_a_branch_that_is_moved_each_time_is_left_and_the_command_to_type_is_told(
    holdfast: Program, project: Project, runs: list[str], tmp_path: Path
) -> None:
    signing_by(
        project,
        tmp_path,
        "git update-ref refs/heads/release $(echo m | git -c commit.gpgSign=false -c user.name=A -c user.email=a@b "
        "commit-tree -p refs/heads/release 'refs/heads/release^{tree}')",
    )
    told = holdfast("merge", runs[0], "--into", "release", code=5).complaint
    command = told.partition("try again: ")[2]
    assert command == f"holdfast merge {runs[0]} --into release"
    assert project.git("ls-tree", "--name-only", "release").split() == ["a.txt", "r.txt"]
    project.git("config", "commit.gpgSign", "false")
    holdfast(*command.split()[1:])
    assert project.show("release:one.txt") == "one"


def test_killed_in_the_middle_it_holds_up_nobody_and_is_done_again(
    holdfast: Program, project: Project, runs: list[str], tmp_path: Path
) -> None:
    before = project.tip("release")
    environment = failpoint_environment(os.fspath(tmp_path), "merge.into.merged:1")
    holdfast("merge", runs[0], "--into", "release", env=environment, code=-signal.SIGKILL, cold=True)
    assert project.tip("release") == before
    for run_id in reversed(runs):
        holdfast("merge", run_id, "--into", "release")
        holdfast("verify", run_id)
    assert project.git("ls-tree", "--name-only", "release").split() == ["a.txt", "one.txt", "r.txt", "two.txt"]
