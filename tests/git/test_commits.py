"""Commits: one a task, whose it is, the user's hooks, and the placeholder of a failed one."""

import os

import pytest

from holdfast.core.work.names import temporary_name
from holdfast.git.commit import HookRefused, UnresolvedConflicts, unresolved_paths
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import DecisionNeeded, Denied
from tests.support.repositories import UserRepository, git, put, put_program, state_of, text, working_on


def effect_of(place: str, commit: str) -> str:
    return trailer(place, commit, "Holdfast-Effect")


def trailer(place: str, commit: str, name: str) -> str:
    return git(place, "log", "-1", f"--format=%(trailers:key={name},valueonly)", commit).strip()


def log(place: str, *names: str) -> list[str]:
    return git(place, "log", "--format=%s", *names).splitlines()


async def test_the_trailers_say_whose_it_is(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T 1\nödd")
        put(task.path, {"a.txt": "one\n"})
        commit = await w.commit("T 1\nödd", "Do it\n\n# not a comment\n\nReviewed-by: nobody\n\n")
        assert commit is not None
        assert git(repo.path, "log", "-1", "--format=%B", commit).strip() == (
            "Do it\n\n# not a comment\n\nReviewed-by: nobody\n\n"
            f"Holdfast-Run: {w.run_id}\nHoldfast-Task: T 1 ödd\nHoldfast-Effect: {effect_of(repo.path, commit)}\n"
            f"Holdfast-Chain: {trailer(repo.path, commit, 'Holdfast-Chain')}"
        )
        assert git(repo.path, "log", "-1", "--format=%an <%ae> %cn", commit) == "Ada <ada@example.org> Ada"


@pytest.mark.parametrize("message", ["a\0b", "x" * 200_000, "a\ud800b", "\udcff", "-x", "", "\n", "# only a comment"])
async def test_any_message_can_be_committed(repo: UserRepository, home: str, message: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        commit = await w.commit("T-1", message)
        assert commit == git(repo.path, "rev-parse", task.branch)


async def test_nothing_to_commit_is_no_commit(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"x.log": "ignored\n"})
        os.mkdir(os.path.join(task.path, "empty"))
        assert await w.commit("T-1", "Nothing") is None
        assert await w.keep_failed("T-1", "nothing") is None


async def test_what_a_killed_write_left_is_not_committed(repo: UserRepository, home: str) -> None:
    left = temporary_name("0123456789abcdef")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {left: "half", f"src/{left}": "half"})
        assert await w.commit("T-1", "Nothing") is None
        put(task.path, {"new.txt": "new\n", ".holdfast-notes.tmp": "somebody's\n", f"{left}.txt": "somebody's\n"})
        commit = await w.commit("T-1", "Work")
        assert commit is not None
        changed = git(repo.path, "diff-tree", "-r", "--name-only", f"{commit}^", commit).splitlines()
        assert changed == [f"{left}.txt", ".holdfast-notes.tmp", "new.txt"]
        assert text(task.path, left) == "half"


async def test_a_file_of_the_users_is_committed_whatever_its_name(repo: UserRepository, home: str) -> None:
    name = temporary_name("0123456789abcdef")
    repo.commit({name: "tracked\n"})
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {name: "changed\n"})
        commit = await w.commit("T-1", "Work")
        assert git(repo.path, "show", f"{commit}:{name}") == "changed"


async def test_what_an_agent_committed_becomes_one_commit_and_is_kept(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        for number in range(3):
            put(task.path, {"a.txt": f"{number}\n"})
            git(task.path, "commit", "--quiet", "--all", f"--message=Agent's {number}")
        own = git(task.path, "rev-parse", "HEAD")
        put(task.path, {"b.txt": "left over\n"})
        commit = await w.commit("T-1", "All of it")
        assert commit is not None
        assert log(repo.path, commit) == ["All of it", "Begin"]
        assert (git(repo.path, "show", f"{commit}:a.txt"), git(repo.path, "show", f"{commit}:b.txt")) == (
            "2",
            "left over",
        )
        kept = git(repo.path, "for-each-ref", "--format=%(objectname)", "refs/holdfast/snapshot")
        assert kept == own


async def test_a_second_commit_does_not_swallow_the_first(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        for number in range(2):
            put(task.path, {"a.txt": f"{number}\n"})
            git(task.path, "commit", "--quiet", "--all", "--message=Agent's")
            await w.commit("T-1", f"Attempt {number}")
        assert log(repo.path, task.branch) == ["Attempt 1", "Attempt 0", "Begin"]


async def test_a_merge_that_an_agent_made_is_not_flattened(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"one.txt": "one\n"})
        await w.commit("T-1", "One")
        await w.merge(["T-1"])
        put(two.path, {"two.txt": "two\n"})
        git(two.path, "add", "--all")
        git(two.path, "commit", "--quiet", "--message=Agent's")
        git(two.path, "merge", "--quiet", "--no-edit", w.place().branch)
        merge = git(two.path, "rev-parse", "HEAD")
        put(two.path, {"two.txt": "more\n"})
        commit = await w.commit("T-2", "Two")
        assert git(repo.path, "rev-parse", f"{commit}^") == merge


async def test_an_agents_unfinished_merge_is_finished_as_a_merge(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"one.txt": "one\n"})
        await w.commit("T-1", "One")
        await w.merge(["T-1"])
        git(two.path, "merge", "--quiet", "--no-commit", "--no-ff", w.place().branch)
        commit = await w.commit("T-2", "Two")
        assert len(git(repo.path, "rev-parse", f"{commit}^@").split()) == 2


async def test_a_refusing_hook_is_quoted_and_the_work_stays(repo: UserRepository, home: str) -> None:
    repo.hook("pre-commit", "echo 'line 3 is'; echo too long >&2; grep -q good a.txt")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        head = git(task.path, "rev-parse", "HEAD")
        put(task.path, {"a.txt": "bad\n", "new.txt": "new\n"})
        with pytest.raises(HookRefused, match=r"^a commit hook refused: line 3 is too long$"):
            await w.commit("T-1", "Commit")
        assert (text(task.path, "a.txt"), text(task.path, "new.txt")) == ("bad\n", "new\n")
        assert git(task.path, "rev-parse", "HEAD") == head
        put(task.path, {"a.txt": "good\n"})
        assert await w.commit("T-1", "Commit") is not None


async def test_a_refusing_hook_after_an_agents_own_commits_loses_none(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "own\n"})
        git(task.path, "commit", "--quiet", "--all", "--message=Agent's")
        own = git(task.path, "rev-parse", "HEAD")
        repo.hook("commit-msg", "exit 1")
        with pytest.raises(HookRefused, match="it printed nothing"):
            await w.commit("T-1", "Commit")
        assert text(task.path, "a.txt") == "own\n"
        assert own in git(repo.path, "for-each-ref", "--format=%(objectname)", "refs/holdfast")
        repo.hook("commit-msg", "exit 0")
        commit = await w.commit("T-1", "Commit")
        assert log(repo.path, str(commit)) == ["Commit", "Begin"]


async def test_hooks_of_a_folder_that_the_user_named_are_run(repo: UserRepository, home: str, folder: str) -> None:
    put_program(os.path.join(folder, "hooks", "pre-commit"), "echo named; exit 1")
    repo.config("core.hooksPath", os.path.join(folder, "hooks"))
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        with pytest.raises(HookRefused, match="named"):
            await w.commit("T-1", "Commit")


async def test_hooks_in_the_repository_itself_are_run(repo: UserRepository, home: str) -> None:
    repo.config("core.hooksPath", ".hooks")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put_program(os.path.join(task.path, ".hooks", "pre-commit"), "echo own; exit 1")
        with pytest.raises(HookRefused, match="own"):
            await w.commit("T-1", "Commit")


async def test_what_a_hook_stages_is_in_the_commit(repo: UserRepository, home: str) -> None:
    repo.hook("pre-commit", "echo formatted > a.txt; git add a.txt; echo made > made.txt")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        commit = await w.commit("T-1", "Commit")
        assert git(repo.path, "show", f"{commit}:a.txt") == "formatted"
        assert git(task.path, "status", "--porcelain") == "?? made.txt"


@pytest.mark.parametrize("format_", ["openpgp", "ssh"])
async def test_a_failing_signature_is_no_hooks_refusal(repo: UserRepository, home: str, format_: str) -> None:
    repo.hook("pre-commit", "exit 0")
    repo.config("commit.gpgSign", "true")
    repo.config("gpg.format", format_)
    repo.config("gpg.program", "false")
    repo.config("gpg.ssh.program", "false")
    repo.config("user.signingKey", "/nowhere")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        with pytest.raises(GitFailed, match="failed to write commit object"):
            await w.commit("T-1", "Commit")
        assert text(task.path, "a.txt") == "one\n"


async def test_conflict_markers_are_refused(repo: UserRepository, home: str) -> None:
    name = "ü:\n.txt"
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"a.txt": "one\n", name: "one\n"})
        put(two.path, {"a.txt": "two\n", name: "two\n"})
        await w.commit("T-1", "One")
        await w.commit("T-2", "Two")
        await w.merge(["T-1", "T-2"])
        with pytest.raises(UnresolvedConflicts, match=r"conflicts are not resolved yet in a.txt, "):
            await w.commit("T-2", "Resolved")
        assert await unresolved_paths(two) == ["a.txt", name]
        put(two.path, {"a.txt": "both\n"})
        with pytest.raises(UnresolvedConflicts) as caught:
            await w.commit("T-2", "Resolved")
        assert caught.value.paths == [name]
        put(two.path, {name: "both\n"})
        assert await unresolved_paths(two) == []
        assert await w.commit("T-2", "Resolved") is not None


async def test_the_work_of_a_failed_task_is_kept_whatever_a_hook_says(repo: UserRepository, home: str) -> None:
    repo.hook("pre-commit", "exit 1")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "partial\n"})
        commit = await w.keep_failed("T-1", "iter\ncap")
        assert commit is not None
        assert log(repo.path, commit)[0] == "FAILED (iter cap): task T-1"
        assert git(task.path, "status", "--porcelain") == ""


async def test_the_next_attempt_builds_on_what_failed(repo: UserRepository, home: str) -> None:
    """And sees all of it as one difference, the part of the first attempt too."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        base = git(task.path, "rev-parse", "HEAD")
        put(task.path, {"a.txt": "partial\n", "new.txt": "new\n"})
        failed = await w.keep_failed("T-1", "iter_cap")
        assert await w.unwind_failed("T-1") == failed
        assert git(task.path, "rev-parse", "HEAD") == base
        assert git(task.path, "diff", "--name-only", "HEAD").splitlines() == ["a.txt", "new.txt"]
        assert await w.unwind_failed("T-1") is None
        put(task.path, {"b.txt": "done\n"})
        commit = await w.commit("T-1", "Done")
        assert git(repo.path, "diff", "--name-only", base, str(commit)).splitlines() == ["a.txt", "b.txt", "new.txt"]
        assert str(failed) in git(repo.path, "for-each-ref", "--format=%(objectname)", "refs/holdfast")


async def test_failing_twice_leaves_one_placeholder(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        await w.keep_failed("T-1", "first")
        await w.unwind_failed("T-1")
        put(task.path, {"a.txt": "two\n"})
        await w.keep_failed("T-1", "second")
        assert log(repo.path, task.branch) == ["FAILED (second): task T-1", "Begin"]
        assert await w.keep_failed("T-1", "third") is None


async def test_a_placeholder_is_never_merged(repo: UserRepository, home: str) -> None:
    """Whatever is on top of it."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "partial\n"})
        await w.keep_failed("T-1", "reason")
        put(task.path, {"b.txt": "by hand\n"})
        git(task.path, "add", "--all")
        git(task.path, "commit", "--quiet", "--message=By hand")
        before = git(repo.path, "rev-parse", w.worktree().branch)
        with pytest.raises(Denied, match="placeholder"):
            await w.merge(["T-1"])
        assert git(repo.path, "rev-parse", w.worktree().branch) == before


async def test_commits_on_top_of_a_placeholder_stay_as_they_are(repo: UserRepository, home: str) -> None:
    """The placeholder goes from beneath them, its content stays, and the next commit does not swallow them."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        base = git(task.path, "rev-parse", "HEAD")
        put(task.path, {"a.txt": "partial\n"})
        failed = await w.keep_failed("T-1", "reason")
        for number in (1, 2):
            put(task.path, {"b.txt": f"by hand {number}\n"})
            git(task.path, "add", "--all")
            person = ("--author=Eve <eve@example.com>", "--date=2026-01-02T03:04:05Z")
            git(task.path, "commit", "--quiet", *person, f"--message=By hand {number}\n\nWith more words.")
        form = "--format=%an %ae %aI %B"
        were = git(repo.path, "log", form, f"{failed}..{task.branch}")
        assert await w.unwind_failed("T-1") == failed
        assert git(repo.path, "log", form, f"{base}..{task.branch}") == were
        assert git(task.path, "diff", "--name-only", "HEAD") == "a.txt"
        assert text(task.path, "a.txt") == "partial\n"
        put(task.path, {"c.txt": "done\n"})
        commit = await w.commit("T-1", "Done")
        assert log(repo.path, task.branch) == ["Done", "By hand 2", "By hand 1", "Begin"]
        assert git(repo.path, "diff", "--name-only", base, str(commit)).split() == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("merged", [False, True])
async def test_commits_that_need_the_placeholder_are_for_a_person_to_decide(
    repo: UserRepository, home: str, merged: bool
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "partial\n"})
        failed = await w.keep_failed("T-1", "reason")
        put(task.path, {"a.txt": "partial, by hand\n"})
        git(task.path, "commit", "--quiet", "--all", "--message=By hand")
        if merged:
            side = git(task.path, "commit-tree", f"-p{failed}", "-m", "Side", f"{failed}^{{tree}}")
            git(task.path, "merge", "--quiet", "--no-edit", side)
        tip = git(repo.path, "rev-parse", task.branch)
        with pytest.raises(DecisionNeeded) as needed:
            await w.unwind_failed("T-1")
        assert git(repo.path, "rev-parse", task.branch) == tip
        git(task.path, "reset", "--quiet", "--soft", f"{failed}^")
        assert f"git -C {task.path} reset --soft {failed}^" in str(needed.value)
        git(task.path, "commit", "--quiet", f"--reuse-message={tip}")
        assert await w.unwind_failed("T-1") is None
        assert text(task.path, "a.txt") == "partial, by hand\n"


async def test_the_placeholder_of_another_task_is_not_taken_back(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one = await w.open_worktree("T-1")
        put(one.path, {"a.txt": "one\n"})
        failed = await w.keep_failed("T-1", "reason")
        two = await w.open_worktree("T-2")
        git(two.path, "reset", "--quiet", "--hard", str(failed))
        assert await w.unwind_failed("T-2") is None
        assert git(two.path, "rev-parse", "HEAD") == failed


async def test_a_users_way_of_searching_and_showing_does_not_hide_our_commits(repo: UserRepository, home: str) -> None:
    repo.config("grep.patternType", "fixed")
    repo.config("log.showSignature", "true")
    repo.config("color.ui", "always")
    repo.config("status.showStash", "true")
    repo.config("status.showUntrackedFiles", "no")
    repo.config("status.renames", "copies")
    repo.config("diff.external", "false")
    repo.config("diff.relative", "true")
    repo.config("core.quotePath", "true")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        for number in range(2):
            put(task.path, {"a.txt": f"{number}\n", f"new {number}": "x"})
            assert await w.commit("T-1", f"Attempt {number}") is not None
        assert log(repo.path, task.branch) == ["Attempt 1", "Attempt 0", "Begin"]
        put(task.path, {"a.txt": "partial\n"})
        assert await w.keep_failed("T-1", "reason") == await w.unwind_failed("T-1")


@pytest.mark.parametrize("config_only", [True, False])
async def test_work_is_not_lost_for_want_of_a_name(
    repo: UserRepository, home: str, folder: str, monkeypatch: pytest.MonkeyPatch, config_only: bool
) -> None:
    monkeypatch.setenv("HOME", os.path.join(folder, "nobody"))
    if config_only:
        repo.config("user.useConfigOnly", "true")
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"a.txt": "one\n"})
        put(two.path, {"a.txt": "two\n"})
        assert await w.snapshot("T-1", "one")
        assert await w.commit("T-1", "One") is not None
        assert await w.commit("T-2", "Two") is not None
        assert [bool(merge.conflicts) for merge in await w.merge(["T-1", "T-2"])] == [False, True]
        put(two.path, {"a.txt": "both\n"})
        assert await w.commit("T-2", "Both") is not None
        assert (await w.merge(["T-2"]))[0].commit is not None


async def test_markers_that_an_agent_staged_with_all_the_rest_are_refused(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"a.txt": "one\n"})
        put(two.path, {"a.txt": "two\n"})
        await w.commit("T-1", "One")
        await w.commit("T-2", "Two")
        await w.merge(["T-1", "T-2"])
        git(two.path, "add", "--all")
        with pytest.raises(UnresolvedConflicts, match=r"a.txt"):
            await w.commit("T-2", "Resolved")
        put(two.path, {"a.txt": "both\n"})
        assert await w.commit("T-2", "Resolved") is not None


async def test_a_heading_is_no_conflict_marker(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"a.txt": "Heading\n=======\none\n"})
        put(two.path, {"a.txt": "two\n"})
        await w.commit("T-1", "One")
        await w.commit("T-2", "Two")
        await w.merge(["T-1", "T-2"])
        put(two.path, {"a.txt": "Heading\n=======\nboth\n"})
        assert await w.commit("T-2", "Resolved") is not None


async def test_an_open_conflict_is_not_hidden_in_a_placeholder(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"a.txt": "one\n"})
        put(two.path, {"a.txt": "two\n"})
        await w.commit("T-1", "One")
        await w.commit("T-2", "Two")
        await w.merge(["T-1", "T-2"])
        before = state_of(two.path)
        with pytest.raises(UnresolvedConflicts):
            await w.keep_failed("T-2", "reason")
        assert state_of(two.path) == before
