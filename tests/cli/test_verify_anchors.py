"""`verify` against the repository: a run's whole folder may be rewritten, but its commits are elsewhere."""

import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.log import chain
from holdfast.store.files.layout import run_folder
from tests.cli.program import failpoint_environment
from tests.support.cli_stage import HELLO, Stage, branch

Lines = list[bytes]


@pytest.fixture
def run(stage: Stage) -> str:
    return stage.run("say hello", "--agent", stage.book(HELLO))


def verified(stage: Stage, target: str, *arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = stage.holdfast("verify", target, *arguments, "--json", code=code).object
    assert found["whole"] == (code == 0)
    return found


def trailers(stage: Stage, rev: str) -> list[str]:
    form = "--format=%(trailers:key=Holdfast-Chain,valueonly,separator=%x20)"
    return stage.project.git("log", form, rev).splitlines()


def forge(stage: Stage, run: str, make: Callable[[Lines], Lines]) -> Path:
    """Rewrite a run's whole folder as someone would who knows how: a new chain, and no snapshot."""
    folder = Path(run_folder(stage.home, run))
    log = folder / "events.jsonl"
    link, lines = chain.GENESIS, []
    for line in make(log.read_bytes().splitlines(keepends=True)):
        end = b" \n" if line.endswith(b" \n") else b"\n"
        sealed, link = chain.seal(link, chain.unseal(line)[0], end)
        lines.append(sealed)
    log.write_bytes(b"".join(lines))
    (folder / "snapshot.json").unlink(missing_ok=True)
    return log


def calls(lines: Lines) -> list[int]:
    """After how many lines a call was whole: a log may be cut there, and nothing in it shows that."""
    return [number for number, line in enumerate(lines, 1) if not chain.has_more_to_come(line)]


def test_every_commit_carries_the_head_of_the_log(stage: Stage, run: str) -> None:
    log = Path(run_folder(stage.home, run), "events.jsonl").read_bytes()
    ours = trailers(stage, f"main..{branch(run)}")
    assert len(ours) == 2
    for position, link in (one.split(":") for one in (*ours, *trailers(stage, f"refs/holdfast/chain/{run}"))):
        assert chain.carried_link(log[: int(position)].splitlines()[-1]) == link
    effects = stage.project.git("log", "--format=%(trailers:key=Holdfast-Effect,valueonly)", f"main..{branch(run)}")
    for anchor, effect in zip(ours, effects.split(), strict=True):
        seen = log[: int(anchor.partition(":")[0])].splitlines()
        intents = [json.loads(line) for line in seen if b'"effect.intended"' in line]
        assert effect in [intent["data"]["effect"] for intent in intents], "its own intent is in what it anchors"


def test_the_end_of_a_session_is_anchored(stage: Stage, run: str) -> None:
    found = verified(stage, run)
    assert found["anchors"]["found"] == found["anchors"]["held"] == 4  # planned, committed, merged, ended
    assert (found["anchors"]["last_line"], found["anchors"]["missing"]) == (found["lines"], [])
    assert found["anchors"]["repositories"] == [stage.project.git_dir]


def test_a_log_cut_at_any_call_is_not_whole_though_every_file_was_rewritten(stage: Stage, run: str) -> None:
    lines = Path(run_folder(stage.home, run), "events.jsonl").read_bytes().splitlines(keepends=True)
    for count in [0, *calls(lines)[:-1]]:
        forge(stage, run, lambda _, count=count: lines[:count])  # type: ignore[misc]
        found = verified(stage, run, code=1)
        assert found["anchors"]["missing"], f"cut after line {count}"
        assert found["damage"][-1]["reason"].startswith("cut off: commit ")
    forge(stage, run, lambda _: lines)
    assert verified(stage, run)["anchors"]["held"] == 4


def test_a_rewritten_log_names_the_first_line_and_the_commit_that_knew_another(stage: Stage, run: str) -> None:
    def rewritten(lines: Lines) -> Lines:
        return [line.replace(b"say hello", b"say howdy") for line in lines]

    log = forge(stage, run, rewritten)
    found = verified(stage, run, code=1)
    missing = found["anchors"]["missing"]
    assert len(missing) == 4
    first = log.read_bytes()[: missing[0]["position"]].count(b"\n")
    assert (found["damage"][0]["line"], found["anchors"]["held"]) == (first, 0)
    assert missing[0]["commit"][:12] in found["damage"][0]["reason"]


@pytest.mark.parametrize("how", ["run", "folder", "file", "copy"])
def test_a_stripped_chain_of_our_run_is_damage_wherever_the_log_lies(stage: Stage, run: str, how: str) -> None:
    log = Path(run_folder(stage.home, run), "events.jsonl")
    log.write_bytes(b"".join(chain.unseal(line)[0] + b"\n" for line in log.read_bytes().splitlines()))
    (log.parent / "snapshot.json").unlink()
    copy = shutil.copy(log, os.path.join(stage.folder, "somewhere.jsonl"))
    target = {"run": run, "folder": str(log.parent), "file": str(log), "copy": copy}[how]
    found = verified(stage, target, code=1)
    assert (found["chained"], found["ours"], found["damage"][0]["line"]) == (False, True, 1)
    assert "carries no link" in found["damage"][0]["reason"]


def test_damage_is_told_by_line_though_the_end_is_torn(stage: Stage, run: str) -> None:
    """The anchor misses the first line of the call whose end was cut off."""
    log = Path(run_folder(stage.home, run), "events.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    whole = calls(lines)
    first, last = next((one, two) for one, two in itertools.pairwise([0, *whole]) if two - one > 2)
    log.write_bytes(b"".join(lines[: last - 1]))
    (log.parent / "snapshot.json").unlink(missing_ok=True)
    found = stage.holdfast("verify", run, "--json", code=1).object
    assert [one["line"] for one in found["damage"]] == [first + 1, last]


def test_a_copy_of_a_log_is_held_to_the_anchors_of_its_run(stage: Stage, run: str) -> None:
    log = Path(run_folder(stage.home, run), "events.jsonl")
    copy = Path(stage.folder, "copy.jsonl")
    shutil.copy(log, copy)
    assert verified(stage, str(copy))["anchors"]["held"] == 4
    lines = log.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[: calls(lines)[-2]]))
    assert verified(stage, str(copy), code=1)["anchors"]["held"] == 3


def test_a_log_that_names_another_repository_is_checked_where_its_worktree_is(stage: Stage, run: str) -> None:
    lied = stage.project.git_dir.replace("project", "elsewhe")
    forge(stage, run, lambda lines: [line.replace(stage.project.git_dir.encode(), lied.encode()) for line in lines])
    elsewhere = stage.holdfast.elsewhere(cwd=stage.folder)
    found = elsewhere("verify", run, "--json", code=1).object
    assert (found["anchors"]["absent"], len(found["anchors"]["missing"])) == ([lied], 4)


def test_an_archived_run_keeps_its_proof(stage: Stage, run: str) -> None:
    stage.holdfast("archive", run)
    assert stage.project.branches() == []
    found = verified(stage, run)
    assert found["anchors"]["last_line"] == found["lines"]
    forge(stage, run, lambda lines: lines[: calls(lines)[-2]])
    assert verified(stage, run, code=1)["anchors"]["missing"]


def test_what_was_merged_proves_the_log_without_any_ref_of_the_run(stage: Stage, run: str) -> None:
    stage.project.git("merge", "--quiet", branch(run))
    stage.holdfast("archive", run)
    stage.project.git("update-ref", "-d", f"refs/holdfast/chain/{run}")
    assert verified(stage, run)["anchors"]["held"] == 2
    forge(stage, run, lambda lines: lines[: calls(lines)[1]])
    assert len(verified(stage, run, code=1)["anchors"]["missing"]) == 2


def test_a_pushed_copy_is_proof_against_a_rewritten_repository(stage: Stage, run: str) -> None:
    stage.holdfast("push", run)
    lines = Path(run_folder(stage.home, run), "events.jsonl").read_bytes().splitlines(keepends=True)
    forge(stage, run, lambda _: lines[: calls(lines)[1]])
    for ref in (f"refs/holdfast/chain/{run}", f"refs/heads/{branch(run)}", f"refs/remotes/origin/{branch(run)}"):
        stage.project.git("update-ref", "-d", ref)
    for ref in stage.project.git("for-each-ref", "--format=%(refname)", "refs/holdfast").split():
        stage.project.git("update-ref", "-d", ref)
    assert verified(stage, run)["anchors"]["found"] == 0, "with the repository rewritten as well, nothing here knows"
    found = verified(stage, run, "--repo", stage.project.remote, code=1)
    assert len(found["anchors"]["missing"]) == 2


def test_a_run_without_anchors_is_whole_and_said_to_have_none(stage: Stage, run: str) -> None:
    stage.project.git("update-ref", "-d", f"refs/holdfast/chain/{run}")
    text = stage.project.git("log", "-1", "--format=%B", branch(run))
    tree = stage.project.git("rev-parse", f"{branch(run)}^{{tree}}")
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("Holdfast-Chain"))
    old = stage.project.git("commit-tree", "-p", "main", "-m", plain, tree)
    stage.project.git("update-ref", f"refs/heads/{branch(run)}", old)
    found = verified(stage, run)
    assert (found["anchors"]["found"], found["anchors"]["last"]) == (0, None)
    assert "no anchors" in stage.holdfast("verify", run).out


def test_a_repository_that_is_gone_is_told_and_one_that_cannot_be_read_is_doubt(stage: Stage, run: str) -> None:
    shutil.move(stage.project.path, f"{stage.project.path}-moved")
    elsewhere = stage.holdfast.elsewhere(cwd=stage.folder)
    assert elsewhere("verify", run, "--json").object["anchors"]["absent"] == [stage.project.git_dir]
    moved = elsewhere("verify", run, "--json", "--repo", f"{stage.project.path}-moved").object
    assert moved["anchors"]["held"] == 4
    os.makedirs(stage.project.git_dir)
    found = elsewhere("verify", run, "--json", code=1).object
    assert (found["whole"], found["damage"], len(found["anchors"]["unread"])) == (False, [], 1)


def test_anchors_of_other_runs_say_nothing(stage: Stage, run: str) -> None:
    other = stage.run("say hello again", "--agent", stage.book(HELLO))
    assert other != run
    assert verified(stage, run)["anchors"]["held"] == 4
    stage.project.git("merge", "--quiet", "--squash", branch(run), branch(other), check=False)
    message = "Squashed\n\n" + "\n\n".join(
        stage.project.git("log", "-1", "--format=%B", branch(one)) for one in (run, other)
    )
    stage.project.git("commit", "--quiet", "--allow-empty", f"--message={message}")
    assert verified(stage, run)["anchors"]["missing"] == verified(stage, other)["anchors"]["missing"] == []


@pytest.mark.parametrize("point", ["anchor.before", "anchor.after"])
@pytest.mark.parametrize("time", [1, 2])
def test_killed_at_an_anchor_the_run_goes_on_and_is_whole(stage: Stage, point: str, time: int) -> None:
    agent = stage.book(HELLO)
    environment = failpoint_environment(stage.folder, f"{point}:{time}")
    stage.holdfast("run", "say hello", "--agent", agent, env=environment, code=-signal.SIGKILL, cold=True)
    run = stage.only_run()
    verified(stage, run)
    stage.holdfast("resume", run, code=4 if time == 2 else 0)
    found = verified(stage, run)
    assert found["anchors"]["held"] >= 3
    assert stage.file(run, "hello.txt") == "hello"


def test_reset_takes_the_anchors_away(stage: Stage, run: str) -> None:
    stage.holdfast("reset", "-y", run)
    assert stage.project.git("for-each-ref", "refs/holdfast/chain") == ""
