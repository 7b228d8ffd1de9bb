"""The whole life of a run on repositories that are out of the ordinary."""

import asyncio
import os
import shutil
import subprocess
import sys

import pytest

from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import BadInput, Denied
from tests.git.conftest import NewRepository
from tests.support.repositories import UserRepository, files_of, git, put, put_program, text, working_on
from tests.support.wait import PATIENCE


async def live(w: Workspace, task: str = "T-1") -> None:
    """Open, edit, snapshot, commit, merge, restore, remove; each must do what it says."""
    tree = await w.open_worktree(task)
    assert git(tree.path, "status", "--porcelain") == ""
    put(tree.path, {f"new {task.encode().hex()[:40]}": "new\n", "folder/both": "one\n"})
    snapshot = await w.snapshot(task, "one")
    put(tree.path, {"folder/both": "two\n"})
    assert await w.restore(task, snapshot) is not None
    assert text(tree.path, "folder/both") == "one\n"
    commit = await w.commit(task, "Commit")
    assert commit is not None
    merge = (await w.merge([task]))[0]
    assert merge.conflicts == ()
    assert git(w.worktree().path, "status", "--porcelain") == ""
    assert text(w.worktree().path, "folder/both") == "one\n"
    for each in (task, None):
        assert await w.remove_worktree(each) is None
        assert not os.path.exists(w.worktree(each).path)


@pytest.mark.parametrize(
    "task", ["main", "../../x", "-rf", "a b\nc", "ü/日本", "HEAD", "a.lock", "", "x" * 300, "a\0b"]
)
async def test_tasks_of_any_name(repo: UserRepository, home: str, task: str) -> None:
    async with working_on(repo, home) as w:
        await live(w, task)


@pytest.mark.parametrize("name", ["with space", "new\nline", "-dash", "ünï", "a:b", "quo'te\"", "$HOME;x", "*"])
async def test_repositories_and_homes_at_any_path(new_repository: NewRepository, folder: str, name: str) -> None:
    repo = new_repository(os.path.join(name, "repo"))
    async with working_on(repo, os.path.join(folder, name, "home")) as w:
        await live(w)


async def test_a_repository_whose_path_is_no_text_is_one_clear_line(new_repository: NewRepository, home: str) -> None:
    repo = new_repository(os.fsdecode(b"caf\xe9"))
    with pytest.raises(BadInput, match="is not UTF-8"):
        await create_run(Home(home), NewRun("Goal", repo.path))
    assert not os.path.exists(os.path.join(home, "runs"))


async def test_sha256(new_repository: NewRepository, home: str) -> None:
    async with working_on(new_repository("made", "--object-format=sha256"), home) as w:
        await live(w)


async def test_a_shallow_clone(new_repository: NewRepository, home: str, folder: str) -> None:
    origin = new_repository("origin")
    origin.commit({"a.txt": "more\n"})
    git(folder, "clone", "--quiet", "--depth=1", f"file://{origin.path}", "shallow")
    repo = UserRepository(os.path.join(folder, "shallow"))
    async with working_on(repo, home) as w:
        await live(w)
    repo.must_be_untouched()


async def test_a_bare_repository(new_repository: NewRepository, home: str, folder: str) -> None:
    git(folder, "clone", "--quiet", "--bare", new_repository("origin").path, "bare.git")
    repo = UserRepository(os.path.join(folder, "bare.git"), git_dir=os.path.join(folder, "bare.git"))
    async with working_on(repo, home) as w:
        await live(w)
    repo.must_be_untouched()


async def test_a_repository_inside_another(new_repository: NewRepository, home: str) -> None:
    outer = new_repository("outer", files={"a.txt": "outer\n", ".gitignore": "inner/\n"})
    inner = new_repository("outer/inner")
    outer.remember()
    outer.besides = inner.path
    outer.remember()
    async with working_on(inner, home) as w:
        await live(w)


async def test_a_linked_worktree_of_the_users_begins_where_it_is(repo: UserRepository, home: str, folder: str) -> None:
    tree = os.path.join(folder, "linked")
    repo.git("worktree", "add", "--quiet", "-b", "feature", tree)
    put(tree, {"feature.txt": "feature\n"})
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=Feature")
    repo.remember()
    linked = UserRepository(tree, git_dir=os.path.join(repo.git_dir, "worktrees", "linked"))
    async with working_on(linked, home) as w:
        assert git(w.worktree().path, "rev-parse", "HEAD") == git(tree, "rev-parse", "HEAD")
        info = w.effects.run.state.run
        assert info is not None
        assert info.base == "feature"
        await live(w)
    linked.must_be_untouched()


async def test_a_submodule_as_the_repository(new_repository: NewRepository, home: str) -> None:
    outer = new_repository("outer")
    sub = new_repository("sub")
    git(outer.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.path, "sub")
    outer.remember()
    module = UserRepository(os.path.join(outer.path, "sub"), git_dir=os.path.join(outer.git_dir, "modules", "sub"))
    async with working_on(module, home) as w:
        await live(w)
    module.must_be_untouched()
    outer.remember()


async def test_a_detached_head(repo: UserRepository, home: str) -> None:
    repo.git("switch", "--quiet", "--detach")
    async with working_on(repo, home) as w:
        info = w.effects.run.state.run
        assert info is not None
        assert info.base == repo.tip()
        await live(w)


async def test_a_branch_or_a_commit_to_begin_at(repo: UserRepository, home: str) -> None:
    first = repo.tip()
    repo.commit({"c.txt": "c\n"})
    for base, name in (("other", "other"), (first[:10], first), ("main~1", first)):
        async with working_on(repo, home, base) as w:
            info = w.effects.run.state.run
            assert info is not None
            assert (info.base, git(w.worktree().path, "rev-parse", "HEAD")) == (name, first)


@pytest.mark.parametrize("base", ["nowhere", "-x", "", "main:a.txt", "HEAD^{tree}"])
async def test_nothing_to_begin_at_is_one_clear_line(repo: UserRepository, home: str, base: str) -> None:
    with pytest.raises(BadInput, match="there is no branch or commit"):
        await create_run(Home(home), NewRun("Goal", repo.path, base=base))


async def test_a_repository_without_commits_is_one_clear_line(home: str, folder: str) -> None:
    git(folder, "init", "--quiet", "unborn")
    with pytest.raises(BadInput, match="has no commit yet; make one first"):
        await create_run(Home(home), NewRun("Goal", os.path.join(folder, "unborn")))
    assert not os.path.exists(os.path.join(home, "runs"))


# --- submodules and nested repositories


def with_submodule(new_repository: NewRepository) -> UserRepository:
    sub, outer = new_repository("sub"), new_repository("outer")
    git(outer.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.path, "sub")
    git(outer.path, "commit", "--quiet", "--message=A submodule")
    outer.remember()
    outer.config("protocol.file.allow", "always")
    sub.besides = sub.git_dir  # pushed to, as a remote is
    sub.remember()
    return outer


def initialise(tree: str) -> str:
    git(tree, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    return os.path.join(tree, "sub")


async def test_submodules_that_nobody_initialised(new_repository: NewRepository, home: str) -> None:
    outer = with_submodule(new_repository)
    async with working_on(outer, home) as w:
        await live(w)
    outer.remember()


async def test_a_submodule_that_the_agent_initialised_and_left_as_it_was(
    new_repository: NewRepository, home: str
) -> None:
    outer = with_submodule(new_repository)
    async with working_on(outer, home) as w:
        initialise((await w.open_worktree("T-1")).path)
        await live(w)
    outer.remember()


async def test_changes_in_a_submodule_keep_the_worktree(new_repository: NewRepository, home: str) -> None:
    outer = with_submodule(new_repository)
    async with working_on(outer, home) as w:
        sub = initialise((await w.open_worktree("T-1")).path)
        put(sub, {"a.txt": "changed\n", "new.txt": "new\n"})
        assert await w.snapshot("T-1", "one")
        with pytest.raises(Denied, match=r"contains repositories with uncommitted work \(sub\)"):
            await w.remove_worktree("T-1")
        assert (text(sub, "a.txt"), text(sub, "new.txt")) == ("changed\n", "new\n")
    outer.remember()


async def test_commits_in_a_submodule_keep_the_worktree_until_they_are_pushed(
    new_repository: NewRepository, home: str
) -> None:
    outer = with_submodule(new_repository)
    async with working_on(outer, home) as w:
        sub = initialise((await w.open_worktree("T-1")).path)
        put(sub, {"a.txt": "changed\n"})
        git(sub, "commit", "--quiet", "--all", "--message=In the submodule")
        commit = git(sub, "rev-parse", "HEAD")
        assert await w.commit("T-1", "Moves the submodule") is not None
        with pytest.raises(Denied, match=r"has submodules with unpushed commits \(sub\); push them"):
            await w.remove_worktree("T-1")
        assert git(sub, "rev-parse", "HEAD") == commit
        git(sub, "push", "--quiet", "origin", "HEAD:refs/heads/pushed")
        assert await w.remove_worktree("T-1") is None
    outer.remember()


async def test_a_submodule_that_only_moved_to_a_pushed_commit_is_saved_with_the_worktree(
    new_repository: NewRepository, home: str
) -> None:
    outer = with_submodule(new_repository)
    async with working_on(outer, home) as w:
        sub = initialise((await w.open_worktree("T-1")).path)
        put(sub, {"a.txt": "changed\n"})
        git(sub, "commit", "--quiet", "--all", "--message=In the submodule")
        git(sub, "push", "--quiet", "origin", "HEAD:refs/heads/pushed")
        saved = await w.remove_worktree("T-1")
        assert saved is not None
        assert git(sub_origin(outer), "rev-parse", "pushed") in files_of(outer.path, saved)["sub"].decode()
    outer.remember()


def sub_origin(outer: UserRepository) -> str:
    return os.path.join(os.path.dirname(outer.path), "sub")


@pytest.mark.parametrize("committed", [False, True])
async def test_a_nested_repository_is_left_out_and_kept(repo: UserRepository, home: str, committed: bool) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n", "in/nested[1]/file": "nested\n"})
        nested = os.path.join(task.path, "in/nested[1]")
        git(nested, "init", "--quiet")
        if committed:
            git(nested, "add", "--all")
            git(nested, "commit", "--quiet", "--message=Nested")
        snapshot = await w.snapshot("T-1", "one")
        commit = await w.commit("T-1", "One")
        for each in (snapshot, str(commit)):
            assert not [name for name in files_of(repo.path, each) if name.startswith("in/")]
        with pytest.raises(Denied, match=r"repositories with uncommitted work \(in/nested\[1\]/\)"):
            await w.remove_worktree("T-1")
        assert text(nested, "file") == "nested\n"


async def test_a_nested_repository_that_the_agent_committed_as_a_link_is_kept(repo: UserRepository, home: str) -> None:
    """Nothing shows in the status then, and nothing but the folder holds its commits."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"nested/file": "nested\n"})
        nested = os.path.join(task.path, "nested")
        git(nested, "init", "--quiet")
        git(nested, "add", "--all")
        git(nested, "commit", "--quiet", "--message=Nested")
        git(task.path, "add", "--all")
        await w.commit("T-1", "One")
        assert git(task.path, "status", "--porcelain") == ""
        with pytest.raises(Denied, match=r"has submodules with unpushed commits \(nested\)"):
            await w.remove_worktree("T-1")
        assert text(nested, "file") == "nested\n"


# --- filters, sparse checkouts, large trees


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n".format("0" * 64)


async def test_pointers_of_lfs_are_text_without_lfs(new_repository: NewRepository, home: str) -> None:
    repo = new_repository(
        "made", files={".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "x.bin": POINTER}
    )
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        assert text(task.path, "x.bin") == POINTER
        await live(w)


async def test_a_filter_of_the_users_cleans_and_smudges(repo: UserRepository, home: str, folder: str) -> None:
    repo.config("filter.lfs.clean", put_program(os.path.join(folder, "clean"), "sed s/large/pointer/"))
    repo.config("filter.lfs.smudge", put_program(os.path.join(folder, "smudge"), "sed s/pointer/large/"))
    repo.config("filter.lfs.required", "true")
    repo.commit({".gitattributes": "*.bin filter=lfs -text\n"})
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"x.bin": "large\n"})
        snapshot = await w.snapshot("T-1", "one")
        assert git(repo.path, "cat-file", "blob", f"{snapshot}:x.bin") == "pointer"
        os.unlink(os.path.join(task.path, "x.bin"))
        await w.restore("T-1", snapshot)
        assert text(task.path, "x.bin") == "large\n"
        await w.commit("T-1", "One")
        await w.merge(["T-1"])
        assert text(w.worktree().path, "x.bin") == "large\n"


async def test_a_required_filter_that_is_missing_is_one_clear_line(repo: UserRepository, home: str) -> None:
    repo.commit({".gitattributes": "*.bin filter=lfs -text\n"})
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        repo.config("filter.lfs.clean", "no-such-program clean -- %f")
        repo.config("filter.lfs.required", "true")
        put(task.path, {"x.bin": "large\n"})
        for act in (w.snapshot("T-1", "one"), w.commit("T-1", "One"), w.remove_worktree("T-1")):
            with pytest.raises(GitFailed, match=r"no-such-program.*clean filter 'lfs' failed"):
                await act
        assert text(task.path, "x.bin") == "large\n"


async def test_a_required_filter_that_is_missing_at_the_beginning_is_one_clear_line(
    new_repository: NewRepository, home: str
) -> None:
    repo = new_repository("made", files={".gitattributes": "*.bin filter=lfs -text\n", "x.bin": POINTER})
    repo.config("filter.lfs.smudge", "no-such-program smudge -- %f")
    repo.config("filter.lfs.required", "true")
    with pytest.raises(GitFailed, match=r"x.bin: smudge filter lfs failed"):
        await create_run(Home(home), NewRun("Goal", repo.path))


@pytest.mark.parametrize("mode", ["--cone", "--no-cone"])
async def test_a_sparse_checkout_stays_sparse_and_loses_nothing(
    new_repository: NewRepository, home: str, mode: str
) -> None:
    files: dict[str, str | bytes] = {"a.txt": "a\n", "in/i.txt": "i\n", "out/o.txt": "o\n", "out/p.txt": "p\n"}
    repo = new_repository("made", files=files)
    repo.git("sparse-checkout", "set", mode, "in")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        assert not os.path.exists(os.path.join(task.path, "out"))
        put(task.path, {"in/i.txt": "changed\n", "out/new.txt": "outside\n", "new.txt": "new\n"})
        snapshot = await w.snapshot("T-1", "one")
        assert set(files) <= set(files_of(repo.path, snapshot))
        assert {"out/new.txt", "new.txt"} <= set(files_of(repo.path, snapshot))
        put(task.path, {"in/i.txt": "further\n", "out/new.txt": "further\n"})
        await w.restore("T-1", snapshot)
        assert (text(task.path, "in/i.txt"), text(task.path, "out/new.txt")) == ("changed\n", "outside\n")
        commit = await w.commit("T-1", "One")
        assert {*files, "out/new.txt", "new.txt"} == set(files_of(repo.path, str(commit)))
        assert (await w.merge(["T-1"]))[0].commit is not None
        assert git(w.worktree().path, "status", "--porcelain") == ""
        assert await w.remove_worktree("T-1") is None


async def test_very_many_files_at_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {f"many/{number % 100}/{'long-name-' * 10}{number}": "x" for number in range(5_000)})
        snapshot = await w.snapshot("T-1", "one")
        assert len(files_of(repo.path, snapshot)) == 5_004
        await w.commit("T-1", "Many")
        assert (await w.merge(["T-1"]))[0].commit is not None


async def test_files_of_every_kind_come_through(repo: UserRepository, home: str) -> None:
    repo.config("core.autocrlf", "input")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        odd = ["with space", "new\nline", "-dash", "--all", ":(top)magic", ":root", "ünï", os.fsdecode(b"\xff\xfe"),
               'quo"te', "tab\t", "Case", "case", "a*", "[x]", "!bang", "#hash", "back\\slash"]  # fmt: skip
        put(task.path, {f"odd/{name}": name.encode(errors="surrogateescape") for name in odd})
        put(task.path, {"crlf.txt": "a\r\nb\r\n", "program": "#!/bin/sh\n", "binary": bytes(range(256))})
        os.chmod(os.path.join(task.path, "program"), 0o755)
        os.symlink("../../outside", os.path.join(task.path, "link"))
        os.mkdir(os.path.join(task.path, "empty"))
        os.mkfifo(os.path.join(task.path, "pipe"))
        await w.snapshot("T-1", "one")
        commit = await w.commit("T-1", "Odd")
        await w.merge(["T-1"])
        run = w.worktree().path
        assert sorted(os.listdir(os.path.join(run, "odd"))) == sorted(odd)
        assert os.access(os.path.join(run, "program"), os.X_OK)
        assert os.readlink(os.path.join(run, "link")) == "../../outside"
        assert git(repo.path, "show", f"{commit}:crlf.txt") == "a\nb"
        assert git(task.path, "status", "--porcelain") == git(run, "status", "--porcelain") == ""


# --- several at once


async def test_several_runs_at_once_on_one_repository(repo: UserRepository, home: str) -> None:
    async def one(number: int) -> None:
        async with working_on(repo, home) as w:
            await live(w, f"T-{number}")

    await asyncio.gather(*(one(number) for number in range(5)))
    assert git(repo.path, "worktree", "list", "--porcelain").count("worktree ") == 1


async def test_several_tasks_of_a_run_at_once(repo: UserRepository, home: str) -> None:
    tasks = [f"T-{number}" for number in range(6)]

    async def one(w: Workspace, task: str) -> None:
        put((await w.open_worktree(task)).path, {task: task})
        await w.snapshot(task, "one")
        assert await w.commit(task, task) is not None

    async with working_on(repo, home) as w:
        await asyncio.gather(*(one(w, task) for task in tasks))
        assert all(merge.commit for merge in await w.merge(tasks))
        assert set(tasks) <= set(os.listdir(w.worktree().path))
        await asyncio.gather(*(w.remove_worktree(task) for task in tasks))
    assert git(repo.path, "worktree", "list", "--porcelain").count("worktree ") == 2


RACING_GIT = """#!/bin/sh
case "$*" in
*"worktree add"*)
    if mkdir MET 2>/dev/null; then
        while [ "$1" != -b ]; do shift; done
        "GIT" branch "$2" "$4"
        echo "fatal: could not create directory of '.git/worktrees/T-1': No such file or directory" >&2
        exit 128
    fi ;;
esac
exec "GIT" "$@"
"""


async def test_branch_of_an_attempt_that_met_another_git_is_taken(
    repo: UserRepository, home: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git creates the branch of a new worktree first, and may fail after that while another git creates a worktree."""
    real, met = shutil.which("git"), os.path.join(folder, "met")
    assert real is not None
    put(folder, {"bin/git": RACING_GIT.replace("GIT", real).replace("MET", met)})
    os.chmod(os.path.join(folder, "bin", "git"), 0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    async with working_on(repo, home) as w:
        put((await w.open_worktree("T-1")).path, {"a": "a"})
        assert os.path.isdir(met)
        assert await w.commit("T-1", "T-1") is not None


async def test_branch_whose_commit_is_lost_is_one_clear_error(repo: UserRepository, home: str) -> None:
    """As after a power cut: git says that the branch exists, and it resolves to nothing."""
    async with working_on(repo, home) as w:
        lost = os.path.join(repo.path, ".git", "refs", "heads", w.place("T-1").branch)
        os.makedirs(os.path.dirname(lost), exist_ok=True)
        with open(lost, "w", encoding="ascii") as file:
            file.write(f"{'12345678' * 5}\n")
        with pytest.raises(GitFailed, match="already exists"):
            await w.open_worktree("T-1")


PROGRAM = """
import asyncio, sys
from tests.git.test_special_repositories import live
from tests.support.repositories import working_on
async def main(repo, home):
    for number in range(2):
        async with working_on(repo, home) as w:
            await live(w, f"T-{number}")
asyncio.run(main(*sys.argv[1:]))
"""


def test_several_processes_at_once_on_one_repository(repo: UserRepository, home: str) -> None:
    command = [sys.executable, "-c", PROGRAM, repo.path, home]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said.decode()
    assert git(repo.path, "worktree", "list", "--porcelain").count("worktree ") == 1


async def test_a_worktree_that_somebody_deleted_is_made_again(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        commit = await w.commit("T-1", "One")
        run_id = w.run_id
    shutil.rmtree(task.path)
    async with open_workspace(Home(home), run_id, "resume") as w:
        task = await w.open_worktree("T-1")
        assert git(task.path, "rev-parse", "HEAD") == commit
        shutil.rmtree(task.path)
        assert await w.remove_worktree("T-1") is None
