"""What could not be seen just now is not taken for what is not there: a disk that fails, or a git that does.

The disk is the real one, by `strace`; the git that fails stands before the real one.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest

from holdfast.core.state import BranchStatus
from holdfast.engine.commands.archive import reset
from holdfast.engine.commands.doctor import diagnose
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.git.commit import HookRefused
from holdfast.git.effects import DeleteBranch, MakeWorktree
from holdfast.git.merge import forget_concluded_merge
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import Denied, StorageFailed
from tests.git.conftest import NewRepository
from tests.git.probing import site
from tests.support.faulty_git import GIT
from tests.support.repositories import UserRepository, git, put, put_program, text, working_on

TASK = "T-1"
NO_MEMORY = "echo 'fatal: Out of memory, malloc failed' >&2; exit 128"

BadGit = Callable[..., AbstractContextManager[None]]

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="NOT TESTED: a disk that fails while git is looked at (strace is not here)"
)


@contextmanager
def unseen(path: str, *calls: str, error: str = "EIO") -> Iterator[None]:
    """The disk answers us, and each git that we start, with an error over one file."""
    names = ",".join(calls or ("openat",))
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as trace:
        inject = ("-e", f"trace={names}", "-e", f"inject={names}:error={error}", "-P", path)
        command = ("strace", "-f", "-o", trace.name, *inject, "-p", str(os.getpid()))
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            if not any("attached" in line for line in iter(strace.stderr.readline, "")):
                pytest.skip("NOT TESTED: a disk that fails while git is looked at (strace may not trace us)")
            try:
                yield
            finally:
                strace.terminate()
        assert "(INJECTED)" in trace.read(), "nobody met it"


@pytest.fixture
def bad_git(folder: str, monkeypatch: pytest.MonkeyPatch) -> BadGit:
    """A git that ends so over commands like these; the first `times` of them, where that is told."""
    fault, met = os.path.join(folder, "fault"), os.path.join(folder, "met")
    put_program(os.path.join(folder, "bin", "git"), f'[ -f "{fault}" ] && . "{fault}"\nexec "{GIT}" "$@"')
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")

    @contextmanager
    def bad(like: str, ends: str = NO_MEMORY, times: int = 1000) -> Iterator[None]:
        script = f'echo "$*" >> "{met}"; if [ $(wc -l < "{met}") -le {times} ]; then {ends}; fi'
        put(folder, {"fault": f'case "$*" in {like}) {script} ;; esac\n'})
        yield
        os.unlink(fault)
        assert text(folder, "met")

    return bad


async def saved(w: Workspace) -> set[str]:
    refs = await w.repository.refs("refs/holdfast/salvage")
    return {name for ref in refs for name in git(w.repository.common_dir, "ls-tree", "-r", "--name-only", ref).split()}


# --- a worktree that goes ------------------------------------------------------------------------------


@needs_strace
@pytest.mark.parametrize("file", ["HEAD", "index", "the branch"])
async def test_what_was_staged_in_a_deleted_worktree_is_not_given_up_for_a_bad_block(
    repo: UserRepository, home: str, file: str
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"staged.txt": "staged\n"})
        git(task.path, "add", "--all")
        own = task.must_be_ours()
        shutil.rmtree(task.path)
        branch = os.path.join(repo.git_dir, "refs", "heads", task.branch)
        with unseen(branch if file == "the branch" else os.path.join(own, file)), pytest.raises(StorageFailed):
            await w.remove_worktree(TASK)
        await w.remove_worktree(TASK)
        assert "staged.txt" in await saved(w)


async def test_what_was_staged_in_a_deleted_worktree_is_not_given_up_because_git_failed(
    repo: UserRepository, home: str, bad_git: BadGit
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"staged.txt": "staged\n"})
        git(task.path, "add", "--all")
        shutil.rmtree(task.path)
        with bad_git("*rev-parse*HEAD^{commit}*"), pytest.raises(GitFailed):
            await w.remove_worktree(TASK)
        await w.remove_worktree(TASK)
        assert "staged.txt" in await saved(w)


@needs_strace
async def test_what_a_rebase_had_put_aside_is_not_given_up_for_a_bad_block(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"aside.txt": "aside\n"})
        git(task.path, "add", "--all")
        own = task.must_be_ours()
        put(os.path.join(own, "rebase-merge"), {"autostash": f"{git(task.path, 'stash', 'create')}\n"})
        git(task.path, "reset", "--quiet", "--hard")
        with unseen(os.path.join(own, "rebase-merge", "autostash")), pytest.raises(StorageFailed):
            await w.remove_worktree(TASK)
        await w.remove_worktree(TASK)
        assert "aside.txt" in await saved(w)


@needs_strace
async def test_an_entry_that_cannot_be_read_is_not_dropped_with_one_of_its_name(
    repo: UserRepository, home: str
) -> None:
    """Tasks of two runs have the same names, and git numbers them."""
    async with working_on(repo, home) as w, working_on(repo, home) as others:
        await w.open_worktree(TASK)
        theirs = await others.open_worktree(TASK)
        put(theirs.path, {"staged.txt": "staged\n"})
        git(theirs.path, "add", "--all")
        with unseen(os.path.join(theirs.must_be_ours(), "gitdir")), suppress(StorageFailed):
            await w.remove_worktree(TASK)
        assert git(theirs.path, "diff", "--cached", "--name-only") == "staged.txt"
        await w.remove_worktree(TASK)
        theirs.must_be_ours()


@needs_strace
async def test_a_worktree_that_cannot_be_read_keeps_the_doctor_from_no_other_run(
    repo: UserRepository, home: str
) -> None:
    first, second = [await create_run(Home(home), NewRun(f"Run {n}", repo.path, slug=f"run{n}")) for n in (1, 2)]
    trees = {run_id: os.path.join(home, "runs", run_id, "workspace") for run_id in (first, second)}
    shutil.rmtree(trees[second])
    with unseen(os.path.join(trees[first], ".git"), error="EACCES"):
        assert {one.subject for one in await diagnose(Home(home), [])} == {first, second}


@needs_strace
async def test_a_session_that_a_bad_block_ended_does_not_look_as_if_it_had_been_killed(
    repo: UserRepository, home: str
) -> None:
    """Else whoever watches would go on with a run that somebody wanted to take away."""
    run_id = await create_run(Home(home), NewRun("Test what is not seen", repo.path, slug="test"))
    with unseen(os.path.join(home, "runs", run_id, "workspace", ".git")), pytest.raises(StorageFailed):
        await reset(Home(home), run_id)
    assert (await view_run(Home(home), run_id)).status != "interrupted"
    await reset(Home(home), run_id)


@needs_strace
async def test_a_worktree_that_cannot_be_seen_is_not_taken_for_a_deleted_one(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"mine.txt": "mine\n"})
        with unseen(task.path, "stat", "lstat", "newfstatat", "statx"), pytest.raises(StorageFailed):
            await w.remove_worktree(TASK)
        task.must_be_ours()
        assert await w.remove_worktree(TASK) is not None
        assert "mine.txt" in await saved(w)


@needs_strace
async def test_a_folder_that_may_not_be_read_is_not_removed_unsaved(repo: UserRepository, home: str) -> None:
    """Git only warns, and takes it for empty; and what may not be read, its owner may delete."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"data/only.txt": "only\n"})
        with unseen("data/", error="EACCES"), pytest.raises(Denied, match=r"contains unreadable folders \(data/\)"):
            await w.remove_worktree(TASK)
        assert text(task.path, "data/only.txt") == "only\n"


@needs_strace
async def test_submodules_that_cannot_be_seen_are_not_removed(new_repository: NewRepository, home: str) -> None:
    inner, outer = new_repository("inner"), new_repository("outer")
    async with working_on(outer, home) as w:
        task = await w.open_worktree(TASK)
        git(task.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.path, "sub")
        sub = os.path.join(task.path, "sub")
        put(sub, {"unpushed.txt": "unpushed\n"})
        git(sub, "add", "--all")
        git(sub, "commit", "--quiet", "--message=Unpushed")
        git(task.path, "add", "--all")
        await w.commit(TASK, "With it")
        modules = os.path.join(task.must_be_ours(), "modules")
        with unseen(modules), pytest.raises(StorageFailed):
            await w.remove_worktree(TASK)
        assert os.path.isdir(os.path.join(modules, "sub"))
    outer.remember()  # a submodule is in the repository's own config


@pytest.mark.parametrize("act", ["repair", "perform"])
async def test_what_somebody_did_in_a_half_made_worktree_is_not_given_up_because_git_failed(
    repo: UserRepository, home: str, bad_git: BadGit, act: str
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        folder, name = os.path.split(task.path)
        put(folder, {f".{name}.making": ""})
        put(task.path, {"mine.txt": "mine\n"})
        make = MakeWorktree(task=TASK, base=repo.tip())
        with bad_git("*status*"), pytest.raises(GitFailed):
            await getattr(make, act)(site(w))
        assert text(task.path, "mine.txt") == "mine\n"
        await make.repair(site(w))
        assert "mine.txt" in await saved(w)


# --- branches, commits and merges ----------------------------------------------------------------------


@needs_strace
async def test_a_merge_under_way_is_not_forgotten_for_a_bad_block(repo: UserRepository, home: str) -> None:
    """Committed without it, the conflicts would come again, and history would not have what was merged."""
    async with working_on(repo, home) as w:
        for task in ("T-1", "T-2"):
            put((await w.open_worktree(task)).path, {"a.txt": f"{task}\n"})
            await w.commit(task, task)
        assert (await w.merge(["T-1", "T-2"]))[1].conflicts
        note = os.path.join(w.worktree("T-2").must_be_ours(), "MERGE_HEAD")
        with unseen(note), pytest.raises(OSError, match="Input/output error"):
            await forget_concluded_merge(w.worktree("T-2"))
        assert os.path.exists(note)


@needs_strace
async def test_a_branch_that_cannot_be_read_does_not_count_as_deleted(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open_worktree(TASK)).path, {"new.txt": "new\n"})
        tip = await w.commit(TASK, "New")
        await w.merge([TASK])
        await w.remove_worktree(TASK)
        branch = w.place(TASK).branch
        assert tip is not None
        with unseen(os.path.join(repo.git_dir, "refs", "heads", branch)), pytest.raises(StorageFailed):
            await w.effects.perform(DeleteBranch(branch=branch, commit=tip), task=TASK)
        assert w.effects.run.state.branches[branch].status is not BranchStatus.DELETED


@needs_strace
async def test_what_an_agent_merged_itself_is_its_work_though_git_could_not_read_the_branch(
    repo: UserRepository, home: str, bad_git: BadGit
) -> None:
    """Once: of that git says that there is no branch, and no word more."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        git(task.path, "checkout", "--quiet", "-b", "aside")
        put(task.path, {"new.txt": "new\n"})
        git(task.path, "add", "--all")
        git(task.path, "commit", "--quiet", "--message=Aside")
        git(task.path, "checkout", "--quiet", task.branch)
        git(task.path, "merge", "--quiet", "--no-ff", "--no-edit", "aside")
        git(task.path, "branch", "--quiet", "-D", "aside")
        repo.remember()  # of a branch that is gone the folder of its journal stays
        ref = os.path.join(repo.git_dir, "refs", "heads", task.branch)
        with open(ref, "a", encoding="utf-8") as file:
            file.write("\n")  # which git ignores: only git is believed about such a file
        inject = f"-o /dev/null -e trace=openat -e inject=openat:error=EIO -P {ref}"
        like, second = f"*rev-parse*refs/heads/{task.branch}*", '[ $(wc -l < "$0-met") -ne 2 ]'
        ends = f'echo >> "$0-met"; {second} || exec strace -f -qq {inject} "{GIT}" "$@"'
        with bad_git(like, ends):
            assert await w.commit(TASK, "Do it") == git(task.path, "rev-parse", "HEAD")


@pytest.mark.parametrize("times", [2, 1000])
async def test_a_branch_is_not_set_back_because_git_failed(
    repo: UserRepository, home: str, bad_git: BadGit, times: int
) -> None:
    run_id = await create_run(Home(home), NewRun("Test what is not lost", repo.path, slug="test"))
    async with open_workspace(Home(home), run_id, "resume") as w:
        tree = await w.open_worktree(TASK)
        put(tree.path, {"new.txt": "new\n"})
        git(tree.path, "add", "--all")
        git(tree.path, "commit", "--quiet", "--message=Mine")
        put(tree.path, {"staged.txt": "staged\n"})
        git(tree.path, "add", "--all")
        put(tree.path, {"staged.txt": "newer\n"})
    tip = git(tree.path, "rev-parse", "HEAD")
    with bad_git(f"*--missing=print*refs/heads*|*--missing=print*{tip}*", times=times):
        async with open_workspace(Home(home), run_id, "resume"):
            pass
    assert git(tree.path, "rev-parse", "HEAD") == tip
    assert git(tree.path, "show", ":staged.txt") == "staged"


async def test_where_a_branch_began_is_not_guessed_because_git_failed(
    repo: UserRepository, home: str, bad_git: BadGit
) -> None:
    async with working_on(repo, home) as w:
        began = git((await w.open_worktree(TASK)).path, "rev-parse", "HEAD")
        put((await w.open_worktree("T-2")).path, {"new.txt": "new\n"})
        await w.commit("T-2", "New")
        await w.merge(["T-2"])
        await w.remove_worktree(TASK)
        make = MakeWorktree(task=TASK, base=await w.tip())
        with bad_git("*merge-base*refs/heads*", times=1):
            assert (await w.effects.perform(make, task=TASK))["base"] == began


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
async def test_a_hook_that_was_killed_refused_nothing(repo: UserRepository, home: str, signal: str) -> None:
    repo.hook("pre-commit", f"kill -{signal} $$")
    async with working_on(repo, home) as w:
        put((await w.open_worktree(TASK)).path, {"new.txt": "new\n"})
        with pytest.raises(GitFailed, match="died of signal"):
            await w.commit(TASK, "Do it")
        repo.hook("pre-commit", "exit 1")
        with pytest.raises(HookRefused):
            await w.commit(TASK, "Do it")
