"""Files of git's that a power cut left damaged for good: no waiting mends them, and nobody waits for that."""

import os
import shutil

import pytest

from holdfast.core.state import BranchStatus
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.git.missing_objects import newest_intact_commit
from tests.support.repositories import UserRepository, git, put, working_on

TASK = "T-1"
DAMAGES = {"empty": b"", "filled with nothing": b"\0" * 40, "filled with anything": b"\xff\x01 anything\n"}


@pytest.fixture
def configured(folder: str) -> str:
    """A repository whose worktrees may have configs of their own."""
    path = os.path.join(folder, "configured")
    git(folder, "init", "--quiet", path)
    git(path, "config", "extensions.worktreeConfig", "true")
    git(path, "commit", "--quiet", "--allow-empty", "--message=Begin")
    return path


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["HEAD", "commondir", "index", "config.worktree"])
async def test_a_deleted_worktree_is_made_again_and_removed_though_its_entry_is_damaged(
    configured: str, home: str, file: str, damage: str
) -> None:
    async with working_on(configured, home) as w:
        for again in (w.open_worktree, w.remove_worktree):
            tree = await w.open_worktree(TASK)
            put(tree.must_be_ours(), {file: DAMAGES[damage]})
            shutil.rmtree(tree.path)
            await again(TASK)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["HEAD", "commondir", "index", "config.worktree"])
async def test_a_half_made_worktree_is_made_though_its_entry_is_damaged(
    configured: str, home: str, file: str, damage: str
) -> None:
    async with working_on(configured, home) as w:
        tree = await w.open_worktree(TASK)
        put(os.path.dirname(tree.path), {f".{TASK}.making": ""})
        put(tree.must_be_ours(), {file: DAMAGES[damage]})
        assert git((await w.open_worktree(TASK)).path, "status", "--short") == ""


@pytest.mark.parametrize("left", [2, 20])
async def test_a_branch_goes_back_by_a_journal_whose_last_line_is_torn(
    repo: UserRepository, home: str, left: int
) -> None:
    async with working_on(repo, home) as w:
        tree = await w.open_worktree(TASK)
        for name in ("good", "lost"):
            put(tree.path, {name: name})
            git(tree.path, "add", "--all")
            git(tree.path, "commit", "--quiet", f"--message={name}")
        good, lost = git(tree.path, "rev-parse", "HEAD^", "HEAD").split()
        base = w.effects.run.state.branches[tree.branch].base
        assert base is not None
        os.unlink(os.path.join(repo.git_dir, "objects", lost[:2], lost[2:]))
        journal = os.path.join(repo.git_dir, "logs", "refs", "heads", tree.branch)
        with open(journal, "rb+") as file:
            file.truncate(file.read().rindex(lost.encode()) + left)
        assert await newest_intact_commit(tree, base, []) == good


async def test_a_run_whose_branch_went_while_it_was_made_is_gone_on_with(repo: UserRepository, home: str) -> None:
    run_id = await create_run(Home(home), NewRun("Test what is damaged", repo.path, slug="test"))
    async with open_workspace(Home(home), run_id, "resume") as w:
        branch = w.place().branch
        git(repo.path, "update-ref", "-d", f"refs/heads/{branch}")
        await w.open_worktree(base=git(repo.path, "rev-parse", "main"))
        assert w.effects.run.state.effects == {}
        assert w.effects.run.state.branches[branch].status is BranchStatus.IN_PROGRESS
