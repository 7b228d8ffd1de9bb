"""Uncommitted changes of the checkout: named when a run starts, or taken along as its first commit."""

from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import HELLO, Stage
from tests.support.projects import write

KILLED = -9


def dirty(stage: Stage) -> None:
    """A changed, a staged, an untracked and an ignored file."""
    stage.project.commit({"b.txt": "b\n", ".gitignore": "secret\n"}, "More")
    write(stage.project.path, {"a.txt": "mine\n", "b.txt": "staged\n", "new/n.txt": "n\n", "secret": "s\n"})
    stage.project.git("add", "b.txt")


def test_uncommitted_files_are_named_and_not_part_of_the_run(stage: Stage) -> None:
    dirty(stage)
    ended = stage.holdfast("run", "say hello", "--agent", stage.book(HELLO))
    assert "3 uncommitted files of your checkout are not part of the run (a.txt, b.txt, new/n.txt)" in ended.err
    assert "--include-changes" in ended.err
    assert stage.file(stage.only_run(), "a.txt") == "1\n2\n3"


def test_config_that_init_wrote_is_not_named_because_the_run_uses_it(stage: Stage) -> None:
    write(stage.project.path, {".holdfast.toml": "parallel = 1\n"})
    ended = stage.holdfast("run", "say hello", "--agent", stage.book(HELLO))
    assert "uncommitted" not in ended.err


def test_clean_checkout_is_not_mentioned(stage: Stage) -> None:
    ended = stage.holdfast("run", "say hello", "--agent", stage.book(HELLO))
    assert "uncommitted" not in ended.err


@pytest.mark.parametrize("command", ["run", "plan"])
def test_included_changes_are_the_first_commit(stage: Stage, command: str) -> None:
    dirty(stage)
    before = stage.project.footprint()
    stage.holdfast(command, "say hello", "--agent", stage.book(HELLO), "--include-changes")
    run = stage.only_run()
    assert (stage.file(run, "a.txt"), stage.file(run, "b.txt"), stage.file(run, "new/n.txt")) == ("mine", "staged", "n")
    assert "secret" not in stage.project.git("ls-tree", "-r", "--name-only", f"holdfast/{run}/main")
    assert stage.subjects(run)[0] == "Uncommitted changes of the checkout"
    (committed,) = stage.data(run, "seeds.committed")
    assert (committed["changed"], committed["seeds"]) == (3, 0)
    after = stage.project.footprint()
    assert (after.status, after.staged, after.folders) == (before.status, before.staged, before.folders)


def test_chat_names_uncommitted_files_or_begins_with_them(stage: Stage) -> None:
    dirty(stage)
    begin = ("chat", "--json", "-m", "say hello", "--agent", stage.book(HELLO), "--set", "chat.idle=0")
    ended = stage.holdfast(*begin)
    assert "3 uncommitted files of your checkout are not part of the run" in ended.err
    without = stage.only_run()
    ended = stage.holdfast(*begin, "--include-changes")
    assert "uncommitted" not in ended.err
    (run,) = (one["id"] for one in stage.holdfast("ls", "--json").objects if one["id"] != without)
    for chat in (without, run):
        stage.holdfast("wait", chat)
    assert [stage.file(chat, "a.txt") for chat in (without, run)] == ["1\n2\n3", "mine"]


def test_included_changes_do_not_block_the_merge(stage: Stage) -> None:
    dirty(stage)
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--include-changes")
    stage.holdfast("merge", run)
    assert stage.project.git("status", "--porcelain") == ""
    assert Path(stage.project.path, "a.txt").read_text() == "mine\n"
    assert Path(stage.project.path, "hello.txt").read_text() == "hello\n"


def test_changes_go_with_seeds(stage: Stage) -> None:
    dirty(stage)
    write(stage.folder, {"seed.txt": "seed\n"})
    agent = stage.book(HELLO)
    stage.holdfast("plan", "say hello", "--agent", agent, "--include-changes", "--seed", f"{stage.folder}/seed.txt")
    run = stage.only_run()
    assert (stage.file(run, "a.txt"), stage.file(run, "seed.txt")) == ("mine", "seed")
    (committed,) = stage.data(run, "seeds.committed")
    assert (committed["changed"], committed["seeds"]) == (3, 1)


def test_changes_are_not_included_on_another_base(stage: Stage) -> None:
    stage.project.git("branch", "old")
    dirty(stage)
    ended = stage.holdfast(
        "run", "say hello", "--agent", stage.book(HELLO), "--include-changes", "--base", "old", code=2
    )
    assert "--include-changes: the changes are on" in ended.err
    assert stage.holdfast("ls", "--json").objects == []


def test_run_starts_from_a_commit(stage: Stage) -> None:
    first = stage.project.tip("main") or ""
    stage.project.commit({"a.txt": "later\n"}, "Later")
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--base", first)
    assert stage.file(run, "a.txt") == "1\n2\n3"


@pytest.mark.parametrize("point", ["effect.seeds.commit.before:1", "effect.seeds.commit.after:1"])
def test_killed_while_changes_are_included_nothing_of_the_user_is_touched(stage: Stage, point: str) -> None:
    dirty(stage)
    before = stage.project.footprint()
    begun = ("run", "say hello", "--agent", stage.book(HELLO), "--include-changes", "--json")
    stage.holdfast(*begun, code=KILLED, env=failpoint_environment(stage.folder, point), cold=True)
    after = stage.project.footprint()
    assert (after.status, after.staged, after.folders) == (before.status, before.staged, before.folders)
    stage.holdfast("reset", stage.only_run(), "-y")
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--include-changes")
    assert stage.file(run, "a.txt") == "mine"
