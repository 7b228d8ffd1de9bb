"""Ignored files of the user's checkout in a worktree: copied or linked, and nothing beyond."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.git.repository import Repository
from holdfast.git.worktrees.supplied import SuppliedFiles, supply_files
from holdfast.git.worktrees.worktree import Worktree, status_of
from tests.support.projects import Project, write


@pytest.fixture
def worktree(tmp_path: Path) -> Worktree:
    project = Project.make(str(tmp_path))
    project.commit({".gitignore": ".env\ndeps\nout/\n", "sub/tracked.txt": "t\n"}, "Ignore")
    path = str(tmp_path / "worktree")
    project.git("worktree", "add", "--quiet", "-b", "work", path)
    return Worktree(Repository(project.git_dir), path, "work")


def checkout_of(worktree: Worktree) -> str:
    return os.path.dirname(worktree.repository.common_dir)


def supply(worktree: Worktree, copies: Sequence[str] = (), links: Sequence[str] = ()) -> SuppliedFiles:
    return asyncio.run(supply_files(worktree, checkout_of(worktree), copies, links))


def is_clean(worktree: Worktree) -> bool:
    return asyncio.run(status_of(worktree)).is_clean


def test_folder_is_copied_with_modes_and_inner_links(worktree: Worktree) -> None:
    source = checkout_of(worktree)
    write(source, {"deps/pkg/tool": "#!/bin/sh\n", ".env": "KEY=1\n"})
    Path(source, "deps/pkg/tool").chmod(0o755)
    os.makedirs(f"{source}/deps/.bin")
    os.symlink("../pkg/tool", f"{source}/deps/.bin/tool")
    assert supply(worktree, ["deps", ".env"]) == SuppliedFiles(("deps", ".env"))
    assert os.access(f"{worktree.path}/deps/pkg/tool", os.X_OK)
    assert os.readlink(f"{worktree.path}/deps/.bin/tool") == "../pkg/tool"
    assert is_clean(worktree)
    Path(worktree.path, ".env").write_text("half")
    assert supply(worktree, [".env"]).copied == (".env",)
    assert Path(worktree.path, ".env").read_text() == "KEY=1\n"


def test_link_is_made_once_and_again(worktree: Worktree) -> None:
    write(checkout_of(worktree), {"deps/one": "1\n"})
    for _ in range(2):
        assert supply(worktree, links=["deps"]) == SuppliedFiles(linked=("deps",))
    assert os.readlink(f"{worktree.path}/deps") == f"{os.path.realpath(checkout_of(worktree))}/deps"
    assert is_clean(worktree)


@pytest.mark.parametrize("path", ["a.txt", "sub", "untracked.txt", "missing"])
def test_what_git_tracks_or_does_not_ignore_stays_as_it_is(worktree: Worktree, path: str) -> None:
    write(checkout_of(worktree), {"a.txt": "mine\n", "sub/tracked.txt": "mine\n", "untracked.txt": "u\n"})
    found = supply(worktree, [path], [path])
    assert (found.copied, found.linked, len(found.left_out)) == ((), (), 2)
    assert is_clean(worktree)
    assert Path(worktree.path, "a.txt").read_text() != "mine\n"


def test_link_of_a_folder_that_only_a_folder_pattern_ignores_is_taken_back(worktree: Worktree) -> None:
    write(checkout_of(worktree), {"out/one": "1\n"})
    assert "folders only" in supply(worktree, links=["out"]).left_out[0]
    assert not os.path.lexists(f"{worktree.path}/out")
    assert supply(worktree, ["out"]).copied == ("out",)


def test_nothing_is_read_or_written_through_links_that_lead_out(worktree: Worktree, tmp_path: Path) -> None:
    source = checkout_of(worktree)
    write(str(tmp_path), {"secret/key": "k\n"})
    write(source, {"deps/one": "1\n"})
    os.symlink(tmp_path / "secret" / "key", f"{source}/.env")
    os.symlink(tmp_path / "secret", f"{source}/deps/away")
    found = supply(worktree, [".env", "deps"], [".env"])
    assert found.copied == ("deps",)
    assert [line.partition(":")[0] for line in found.left_out] == [".env", ".env"]
    assert sorted(os.listdir(f"{worktree.path}/deps")) == ["one"]
    assert not os.path.lexists(f"{worktree.path}/.env")
    Path(worktree.path, "deps/one").unlink()
    os.rmdir(f"{worktree.path}/deps")
    os.symlink(tmp_path / "secret", f"{worktree.path}/deps")
    assert supply(worktree, ["deps"]).copied == ()
    assert sorted(os.listdir(tmp_path / "secret")) == ["key"]


def test_killed_while_git_is_asked_no_link_is_left_that_would_be_committed(worktree: Worktree, tmp_path: Path) -> None:
    """The git of this test kills its parent when it is asked what is ignored."""
    write(checkout_of(worktree), {"plain/one": "1\n"})
    real = shutil.which("git")
    fatal = tmp_path / "bin" / "git"
    fatal.parent.mkdir()
    fatal.write_text(f'#!/bin/sh\ncase "$*" in *check-ignore*) kill -9 $PPID;; *) exec {real} "$@";; esac\n')
    fatal.chmod(0o755)
    program = (
        "import asyncio, sys\n"
        "from holdfast.git.repository import Repository\n"
        "from holdfast.git.worktrees.supplied import supply_files\n"
        "from holdfast.git.worktrees.worktree import Worktree\n"
        "worktree = Worktree(Repository(sys.argv[1]), sys.argv[2], 'work')\n"
        "asyncio.run(supply_files(worktree, sys.argv[3], [], ['plain']))\n"
    )
    places = (worktree.repository.common_dir, worktree.path, checkout_of(worktree))
    environment = {**os.environ, "PATH": f"{fatal.parent}:{os.environ['PATH']}"}
    ended = subprocess.run([sys.executable, "-c", program, *places], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert is_clean(worktree)
