"""The git program: how it is called, ended, and quoted."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from holdfast.git.process import Git, GitFailed, ProcessContext, run_program
from holdfast.git.repository import Repository, find_repository
from holdfast.leaf.errors import BadInput, HoldfastError, TimedOut
from holdfast.leaf.process.identity import identify
from tests.support.repositories import UserRepository, git, put, put_program, working_on
from tests.support.wait import until


def pid_in(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read() or "0") or None
    except FileNotFoundError:
        return None


def lives(pid: int) -> bool:
    return identify(pid) is not None


async def test_a_time_limit_ends_git_and_all_that_its_hook_started(repo: UserRepository, folder: str) -> None:
    pids = os.path.join(folder, "pids")
    os.mkdir(pids)
    repo.hook("pre-commit", f"sleep 100 & echo $! > {pids}/child; echo $$ > {pids}/hook; sleep 100")
    repo.git("worktree", "add", "--quiet", "../tree", "other")
    repo.remember()
    with pytest.raises(TimedOut, match="`git commit --allow-empty -m x` took longer than 1 s and was killed"):
        await Git(os.path.join(folder, "tree")).execute("commit", "--allow-empty", "-m", "x", timeout_s=1)
    for name in ("hook", "child"):
        pid = pid_in(os.path.join(pids, name))
        assert pid is not None
        await until(lambda pid=pid: not lives(pid))  # type: ignore[misc]


async def test_a_time_limit_ends_also_what_left_the_process_group(folder: str) -> None:
    """A shell with job control puts each of its jobs into a group of its own; the session is the same."""
    note = os.path.join(folder, "note")
    script = f"set -m; sleep 100 & echo $! > {note}; wait"
    with pytest.raises(TimedOut):
        await run_program("bash", "-c", script, context=ProcessContext(folder, os.environ), timeout_s=1)
    pid = pid_in(note)
    assert pid is not None
    await until(lambda: not lives(pid))


async def test_what_a_hook_leaves_in_the_background_is_not_waited_for(repo: UserRepository, folder: str) -> None:
    note = os.path.join(folder, "note")
    repo.hook("post-checkout", f"echo from the hook; sleep 3600 & echo $! > {note}")
    await Git(repo.path).execute("worktree", "add", "--quiet", "../tree", "other")
    pid = pid_in(note)
    assert pid is not None
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


async def test_a_cancelled_call_leaves_no_process(folder: str) -> None:
    note = os.path.join(folder, "note")
    script = put_program(os.path.join(folder, "program"), f"echo $$ > {note}; sleep 100")
    call = asyncio.create_task(run_program(script, context=ProcessContext(folder, os.environ)))
    await until(lambda: pid_in(note) is not None)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not lives(pid_in(note) or 0)


async def test_an_error_is_one_line_with_gits_own_words(repo: UserRepository) -> None:
    with pytest.raises(GitFailed) as caught:
        await Git(repo.path).execute("branch", "new", "no-such-commit")
    assert (
        str(caught.value) == "`git branch new no-such-commit` failed: fatal: not a valid object name: 'no-such-commit'"
    )
    assert caught.value.code == 128


async def test_an_error_without_words_says_the_exit_code(folder: str) -> None:
    assert str(GitFailed("push", 3, " \n")) == "`git push` failed: exit code 3"


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"]
)
async def test_where_the_caller_looks_is_not_where_we_look(
    repo: UserRepository, home: str, folder: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As when Holdfast is called from a hook of another repository."""
    git(folder, "init", "--quiet", "elsewhere")
    elsewhere = UserRepository(os.path.join(folder, "elsewhere"))
    values = {"GIT_INDEX_FILE": ".git/index", "GIT_OBJECT_DIRECTORY": ".git/objects", "GIT_NAMESPACE": "elsewhere"}
    value = values.get(name, "" if name == "GIT_WORK_TREE" else ".git")
    monkeypatch.setenv(name, value if name == "GIT_NAMESPACE" else os.path.join(elsewhere.path, value))
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        await w.snapshot("T-1", "one")
        commit = await w.commit("T-1", "New")
        assert [merge.conflicts for merge in await w.merge(["T-1"])] == [()]
    monkeypatch.delenv(name)
    assert git(repo.path, "rev-parse", task.branch) == commit
    elsewhere.must_be_untouched()
    assert os.listdir(os.path.join(elsewhere.git_dir, "objects")) == ["info", "pack"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_LITERAL_PATHSPECS", "1"),
        ("GIT_NOGLOB_PATHSPECS", "1"),
        ("GIT_QUARANTINE_PATH", "/nowhere"),
        ("GIT_SHALLOW_FILE", "/nowhere"),
        ("GIT_GRAFT_FILE", "/nowhere"),
        ("GIT_REFLOG_ACTION", "push"),
        ("GIT_TRACE", "1"),
        ("GIT_EXTERNAL_DIFF", "false"),
    ],
)
async def test_how_the_caller_works_is_not_how_we_work(
    repo: UserRepository, home: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        await w.snapshot("T-1", "one")
        assert await w.commit("T-1", "New") is not None
        assert [merge.conflicts for merge in await w.merge(["T-1"])] == [()]


async def test_a_large_output_comes_whole(repo: UserRepository) -> None:
    put(repo.path, {"large.log": "x" * 30_000_000})
    repo.remember()
    oid = git(repo.path, "hash-object", "-w", "large.log")
    assert len((await Git(repo.path).query("cat-file", "blob", oid)).stdout) == 30_000_000


async def test_names_that_are_no_utf8_come_as_they_are(repo: UserRepository) -> None:
    name = os.fsdecode(b"caf\xe9 \n-")
    repo.commit({name: "x"})
    assert name in (await Git(repo.path).query("ls-files", "-z")).fields()


async def test_a_missing_folder_is_one_clear_line(folder: str) -> None:
    with pytest.raises(BadInput, match="nowhere does not exist"):
        await Git(os.path.join(folder, "nowhere")).query("status")


async def test_a_file_is_no_folder(folder: str) -> None:
    put(folder, {"file": ""})
    with pytest.raises(BadInput, match="file is not a folder"):
        await Git(os.path.join(folder, "file")).query("status")
    with pytest.raises(BadInput, match="file is not a folder"):
        await find_repository(os.path.join(folder, "file"))


async def test_a_missing_program_is_one_clear_line(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", folder)
    with pytest.raises(BadInput, match=r"^git was not found; install it"):
        await Git(folder).query("status")
    with pytest.raises(BadInput, match=r"^gh was not found; install it"):
        await run_program("gh", "pr", "list", context=ProcessContext(folder, os.environ))


async def test_a_program_that_cannot_be_started_is_one_clear_line(folder: str) -> None:
    put(folder, {"program": "no program"})
    os.chmod(os.path.join(folder, "program"), 0o755)
    with pytest.raises(HoldfastError, match=r"^could not start `.*program.*`: Exec format error"):
        await run_program(os.path.join(folder, "program"), context=ProcessContext(folder, os.environ))


async def test_too_many_words_are_one_clear_line(folder: str) -> None:
    with pytest.raises(HoldfastError, match=r"^could not start `git status x+`: Argument list too long$"):
        await Git(folder).query("status", "x" * 200_000)


async def test_a_folder_without_repository_is_one_clear_line(folder: str) -> None:
    with pytest.raises(BadInput, match=r"is not in a git repository .*; make one with git init"):
        await find_repository(folder)


async def test_the_users_config_is_ours_too(repo: UserRepository, folder: str) -> None:
    repo.config("user.name", "Grace")
    repository = await find_repository(repo.path)
    assert (await repository.git.query("var", "GIT_AUTHOR_IDENT")).text.startswith("Grace <ada@example.org>")


async def test_a_repository_is_found_from_any_of_its_folders(repo: UserRepository, folder: str) -> None:
    os.symlink(repo.path, os.path.join(folder, "link"))
    for place in (repo.path, f"{repo.path}/src", f"{folder}/link/src", repo.git_dir):
        assert (await find_repository(place)).common_dir == repo.git_dir


async def test_processes_carry_the_mark(repo: UserRepository, folder: str) -> None:
    note = os.path.join(folder, "note")
    repo.hook("post-checkout", f"env > {note}")
    repository = Repository(repo.git_dir, env_markers={"HOLDFAST_RUN": "run-1"})
    await repository.git.execute("worktree", "add", "--quiet", "../../tree", "other")
    with open(note, encoding="utf-8") as file:
        assert "HOLDFAST_RUN=run-1\n" in file.readlines()


@pytest.fixture
def blind() -> Iterator[None]:
    """Children are buried unseen, as for one who was started by a program that ignores their end."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("blind")
async def test_an_exit_code_that_is_lost_is_not_taken_for_success(folder: str) -> None:
    with pytest.raises(HoldfastError, match="the exit code of git is unknown"):
        await Git(folder).run("status")


async def test_a_failure_is_told_in_one_line_whatever_git_was_told(repo: UserRepository) -> None:
    with pytest.raises(GitFailed) as refusal:
        await Git(repo.path).execute("merge", "--message=Merge\n\nTrailer: it", "no-such-branch")
    assert str(refusal.value).startswith(
        "`git merge --message=Merge Trailer: it no-such-branch` failed: merge: no-such-b"
    )
    assert "\n" not in str(refusal.value)


# --- worktrees that others make just now


def entry_in_the_making(repo: UserRepository) -> str:
    """The instant in which git has opened the file that names the repository, and not written it yet."""
    repo.git("worktree", "add", "--quiet", "../tree", "other")
    repo.remember()
    path = os.path.join(repo.path, ".git", "worktrees", "tree", "commondir")
    os.truncate(path, 0)
    return path


async def test_a_worktree_that_somebody_makes_just_now_stops_nobody(repo: UserRepository) -> None:
    path = entry_in_the_making(repo)
    looking = asyncio.ensure_future(Git(repo.path).query("worktree", "list"))
    await asyncio.sleep(0.2)
    assert not looking.done()
    put(os.path.dirname(path), {"commondir": "../..\n"})
    assert len((await looking).lines) == 2


async def test_one_that_was_left_in_the_making_is_told(repo: UserRepository) -> None:
    path = entry_in_the_making(repo)
    with pytest.raises(GitFailed, match=r"failed to read .*worktrees/tree/commondir"):
        await Git(repo.path).query("worktree", "list")
    put(os.path.dirname(path), {"commondir": "../..\n"})


async def test_a_folder_of_entries_that_is_removed_just_now_stops_nobody(repo: UserRepository, folder: str) -> None:
    """As git does with its last worktree, and we."""
    entries, over = os.path.join(repo.path, ".git", "worktrees"), threading.Event()

    def remove() -> None:
        while not over.is_set():
            with suppress(OSError):
                os.rmdir(entries)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for number in range(8):
            await Git(repo.path).execute("worktree", "add", "--quiet", "--detach", os.path.join(folder, str(number)))
            repo.git("worktree", "remove", os.path.join(folder, str(number)))
    finally:
        over.set()
        remover.join()


@pytest.fixture
def hostile(folder: str) -> str:
    """A repository of somebody else, and beside it the file `marker`, which none of its programs may make."""
    path = os.path.join(folder, "hostile")
    os.makedirs(path)
    git(path, "init", "--quiet")
    return path


async def test_program_in_the_worktree_is_never_started(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH has entries that mean the current folder, as an empty one does."""
    for name in ("git", "tools/git"):
        put_program(os.path.join(hostile, name), "touch ../marker ../../marker")
    monkeypatch.setenv("PATH", f":.:tools:{os.environ['PATH']}")
    assert (await Git(hostile).query("rev-parse", "--is-inside-work-tree")).text == "true"
    assert not os.path.exists(os.path.join(hostile, "..", "marker"))


async def test_fsmonitor_of_a_config_is_never_started(hostile: str) -> None:
    marker = os.path.join(hostile, "..", "marker")
    program = put_program(os.path.join(hostile, "watch"), f"touch {marker}")
    git(hostile, "config", "core.fsmonitor", program)
    await Git(hostile).query("status", "--porcelain")
    assert not os.path.exists(marker)
