"""What an agent that may commit can write to in the repository leads git nowhere else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.git.confinement import WritableGit
from holdfast.leaf.errors import Denied
from tests.support.projects import Project

BRANCHES = "refs/heads/holdfast/run-1"


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    project = Project.make(str(tmp_path))
    path = tmp_path / "worktree"
    project.git("worktree", "add", "--quiet", "-b", "holdfast/run-1/task", str(path))
    return path


def linked(place: str) -> Callable[[Path, Path], None]:
    def plant(own: Path, common: Path) -> None:
        path = (own if place.startswith("own/") else common) / place.removeprefix("own/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to("/nowhere")

    return plant


@pytest.mark.parametrize(
    "plant",
    [
        *(linked(f"own/{name}") for name in ("index", "index.lock", "COMMIT_EDITMSG", "MERGE_MSG", "logs/HEAD")),
        *(linked(name) for name in (f"{BRANCHES}/task", f"{BRANCHES}/more", f"logs/{BRANCHES}/task", "objects/a0")),
        lambda _, common: (common / BRANCHES / "task").write_text("ref: refs/heads/main\n"),
        lambda own, _: os.mkfifo(own / "COMMIT_EDITMSG"),
    ],
)
def test_what_is_no_plain_file_is_refused(worktree: Path, plant: Callable[[Path, Path], None]) -> None:
    own = Path((worktree / ".git").read_text().strip().removeprefix("gitdir: "))
    common = own.parent.parent
    writable = WritableGit(str(common), BRANCHES)
    writable.must_be_plain(str(worktree))
    plant(own, common)
    with pytest.raises(Denied, match="delete it"):
        writable.must_be_plain(str(worktree))
