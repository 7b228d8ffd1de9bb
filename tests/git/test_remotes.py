"""Bringing a branch to a remote: never by force, once, with the user's hooks; and the page to ask for a merge on."""

import os

import pytest

from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import EffectSite, ProbeOutcome, ProbeResult, Push
from holdfast.git.process import GitFailed
from holdfast.git.remote import choose_remote, compare_link, default_branch
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import BadInput
from tests.support.repositories import UserRepository, git, put, working_on


@pytest.fixture
def origin(repo: UserRepository, folder: str) -> str:
    path = os.path.join(folder, "origin.git")
    git(folder, "init", "--quiet", "--bare", "--initial-branch=trunk", path)
    repo.git("remote", "add", "origin", path)
    return path


async def change(w: Workspace, content: str) -> str:
    put(w.worktree().path, {"a.txt": content})
    commit = await w.commit(None, content)
    assert commit is not None
    return commit


async def push(w: Workspace, commit: str, remote: str = "origin") -> None:
    await w.effects.perform(Push(remote=remote, commit=commit))


async def probe(w: Workspace, commit: str, remote: str = "origin") -> ProbeResult:
    return await Push(remote=remote, commit=commit).probe(EffectSite(w.run_id, "e", w.repository, w.effects.folder))


async def test_a_branch_is_pushed_under_its_own_name(repo: UserRepository, home: str, origin: str) -> None:
    async with working_on(repo, home) as w:
        commit = await change(w, "one\n")
        assert (await probe(w, commit)).outcome is ProbeOutcome.NO
        await push(w, commit)
        assert git(origin, "for-each-ref", "--format=%(refname) %(objectname)") == (
            f"refs/heads/{w.place().branch} {commit}"
        )
        assert (await probe(w, commit)).outcome is ProbeOutcome.YES
        await push(w, commit)
        later = await change(w, "two\n")
        await push(w, later)
        assert (await probe(w, commit)).outcome is ProbeOutcome.YES
    repo.remember()  # what is known of the remote


async def test_what_a_killed_receiver_left_locked_there_is_no_hindrance(
    repo: UserRepository, home: str, origin: str
) -> None:
    """The push itself lived on, and only failed."""
    async with working_on(repo, home) as w:
        put(origin, {f"refs/heads/{w.place().branch}.lock": ""})
        commit = await change(w, "one\n")
        await push(w, commit)
        assert git(origin, "rev-parse", w.place().branch) == commit
    repo.remember()


async def test_nothing_is_pushed_over_what_somebody_else_pushed(
    repo: UserRepository, home: str, origin: str, folder: str
) -> None:
    async with working_on(repo, home) as w:
        await push(w, await change(w, "one\n"))
        git(folder, "clone", "--quiet", "--branch", w.place().branch, origin, "colleague")
        colleague = os.path.join(folder, "colleague")
        git(colleague, "commit", "--quiet", "--allow-empty", "--message=Theirs")
        git(colleague, "push", "--quiet")
        theirs = git(colleague, "rev-parse", "HEAD")
        mine = await change(w, "two\n")
        with pytest.raises(GitFailed, match="Updates were rejected because the remote contains work"):
            await push(w, mine)
        assert git(origin, "rev-parse", w.place().branch) == theirs
        assert (await probe(w, mine)).outcome is ProbeOutcome.NO
    repo.remember()


async def test_the_users_hook_may_refuse_a_push(repo: UserRepository, home: str, origin: str) -> None:
    repo.hook("pre-push", 'echo "$1: not from $(basename "$PWD")" >&2; exit 1')
    async with working_on(repo, home) as w:
        with pytest.raises(GitFailed, match="origin: not from workspace"):
            await push(w, await change(w, "one\n"))
    assert git(origin, "for-each-ref") == ""


async def test_a_push_needs_no_worktree(repo: UserRepository, home: str, origin: str) -> None:
    async with working_on(repo, home) as w:
        commit = await change(w, "one\n")
        await w.remove_worktree()
        await push(w, commit)
        assert git(origin, "rev-parse", w.place().branch) == commit
    repo.remember()


async def test_a_remote_that_is_away_is_asked_again_later(repo: UserRepository, home: str, origin: str) -> None:
    async with working_on(repo, home) as w:
        commit = await change(w, "one\n")
        os.rename(origin, f"{origin}.away")
        with pytest.raises(GitFailed, match="does not appear to be a git repository"):
            await push(w, commit)
        left = list(w.effects.run.state.effects.values())
        assert [effect.kind for effect in left] == ["push"]
        os.rename(f"{origin}.away", origin)
        assert [settled.probe.outcome for settled in await w.effects.settle()] == [ProbeOutcome.NO]
        assert not w.effects.run.state.effects


@pytest.mark.parametrize(
    ("remotes", "asked", "chosen"),
    [
        (["origin"], None, "origin"),
        (["mine"], None, "mine"),
        (["mine", "origin"], None, "origin"),
        (["mine", "origin"], "mine", "mine"),
    ],
)
async def test_the_remote_is_the_one_that_is_meant(
    repo: UserRepository, remotes: list[str], asked: str | None, chosen: str
) -> None:
    for name in remotes:
        repo.git("remote", "add", name, "/nowhere")
    assert await choose_remote(await find_repository(repo.path), asked) == chosen


@pytest.mark.parametrize(
    ("remotes", "asked", "said"),
    [
        (
            [],
            None,
            "which remote? the repository has no remotes; choose one with --remote, or add one with git remote add",
        ),
        (["a", "b"], None, "which remote? remotes: a, b; choose one with --remote, or add one with git remote add"),
        (["a"], "b", "there is no remote 'b'; remotes: a"),
        ([], "b", "there is no remote 'b'; the repository has no remotes"),
    ],
)
async def test_a_remote_that_is_not_clear_is_one_clear_line(
    repo: UserRepository, remotes: list[str], asked: str | None, said: str
) -> None:
    for name in remotes:
        repo.git("remote", "add", name, "/nowhere")
    with pytest.raises(BadInput) as caught:
        await choose_remote(await find_repository(repo.path), asked)
    assert str(caught.value) == said


async def test_the_default_branch_is_the_remotes_own(repo: UserRepository, origin: str) -> None:
    repository = await find_repository(repo.path)
    assert await default_branch(repository, "origin") == "main"  # an empty one has none yet
    git(repo.path, "push", "--quiet", origin, "main:refs/heads/trunk", "main:refs/heads/main")
    assert await default_branch(repository, "origin") == "trunk"


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("git@github.com:org/name.git", "https://github.com/org/name/compare/main...holdfast/x/main?expand=1"),
        ("git@github.com:/org/name.git", "https://github.com/org/name/compare/main...holdfast/x/main?expand=1"),
        ("github.com:org/name", "https://github.com/org/name/compare/main...holdfast/x/main?expand=1"),
        ("https://github.com/org/name.git", "https://github.com/org/name/compare/main...holdfast/x/main?expand=1"),
        (
            "https://me:secret@github.com/org/name/",
            "https://github.com/org/name/compare/main...holdfast/x/main?expand=1",
        ),
        ("ssh://git@github.com:22/org/name.git", "https://github.com/org/name/compare/main...holdfast/x/main?expand=1"),
        (
            "https://git.example.org:8443/o/n.git",
            "https://git.example.org:8443/o/n/compare/main...holdfast/x/main?expand=1",
        ),
        ("http://git.example.org:3000/o/n", "http://git.example.org:3000/o/n/compare/main...holdfast/x/main?expand=1"),
        ("git@git.example.org:22/n.git", "https://git.example.org/22/n/compare/main...holdfast/x/main?expand=1"),
        (
            "https://git.example.org/a b/n.git",
            "https://git.example.org/a%20b/n/compare/main...holdfast/x/main?expand=1",
        ),
        (
            "ssh://git@gitlab.example.org:2222/group/sub/name.git",
            (
                "https://gitlab.example.org/group/sub/name/-/merge_requests/new"
                "?merge_request%5Bsource_branch%5D=holdfast/x/main&merge_request%5Btarget_branch%5D=main"
            ),
        ),
        (
            "git@bitbucket.org:org/name.git",
            "https://bitbucket.org/org/name/pull-requests/new?source=holdfast/x/main&dest=main",
        ),
    ],
)
async def test_the_page_to_ask_on(repo: UserRepository, url: str, link: str) -> None:
    repo.git("remote", "add", "origin", url)
    assert await compare_link(await find_repository(repo.path), "origin", "main", "holdfast/x/main") == link


@pytest.mark.parametrize(
    "url",
    ["/srv/git/name.git", "../name.git", "./n.git", "name.d/n.git", "file:///srv/n.git", "localhost:n", "~/n.git"],
)
async def test_a_folder_has_no_page_to_ask_on(repo: UserRepository, url: str) -> None:
    repo.git("remote", "add", "origin", url)
    with pytest.raises(BadInput, match="which is not a web host"):
        await compare_link(await find_repository(repo.path), "origin", "main", "holdfast/x/main")
