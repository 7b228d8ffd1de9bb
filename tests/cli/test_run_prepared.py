"""Before agents work: worktrees are set up, and each check runs once on the untouched base."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, worker
from tests.support.projects import write
from tests.support.variants import every

KILLED = -9
LOOP = ("--workflow", "loop")
WORK = {"write": {"path": "work.txt", "text": "work\n"}}
INSTALL = "test -e .env && test -e node_modules/dep && echo installed >> .deps"
RED = "echo first line; seq 100; echo last line; exit 3"


def setting(name: str, value: Any) -> tuple[str, str]:
    return "--set", f"{name}={json.dumps(value)}"


def check(name: str, script: str, **more: Any) -> tuple[str, str]:
    return setting(f"validators.commands.{name}", {"command": ["sh", "-c", script], **more})


def setup(script: str) -> tuple[str, str]:
    return setting("worktree.setup", [["sh", "-c", script]])


def supplied(stage: Stage) -> tuple[str, ...]:
    """A checkout with ignored files, and the settings that give them to worktrees."""
    stage.project.commit({".gitignore": ".env\nnode_modules\n.deps\n"}, "Ignore")
    write(stage.project.path, {".env": "KEY=1\n", "node_modules/dep": "1\n"})
    return *setting("worktree.copy", [".env"]), *setting("worktree.link", ["node_modules"])


def options(stage: Stage, *steps: dict[str, Any]) -> tuple[str, ...]:
    agent = stage.book(EVALUATE, worker(*(steps or (WORK,)), SUBMIT))
    return *LOOP, stage.tasks("T-1"), "--agent", agent


def prepared(stage: Stage, run: str) -> list[str | None]:
    return [data.get("task") for data in stage.data(run, "worktree.prepared")]


# The setup of worktrees


def test_worktrees_have_ignored_files_and_what_commands_made(stage: Stage) -> None:
    given = supplied(stage)
    before = stage.project.footprint().status
    run = stage.run(*options(stage), *given, *setup(INSTALL), *check("ready", "test -e .deps"))
    assert prepared(stage, run) == [None, "T-1"]
    finished = stage.data(run, "worktree.setup.finished")
    assert [(data.get("task"), data["passed"], data["exit_code"]) for data in finished] == [
        (None, True, 0),
        ("T-1", True, 0),
    ]
    assert stage.data(run, "worktree.prepared")[0]["copied"] == [".env"]
    assert stage.data(run, "worktree.prepared")[0]["linked"] == ["node_modules"]
    names = stage.project.git("ls-tree", "-r", "--name-only", f"holdfast/{run}/main").split()
    assert names == [".gitignore", "a.txt", "work.txt"]
    stage.holdfast("reset", run, "-y")
    assert Path(stage.project.path, "node_modules", "dep").read_text() == "1\n", "a link is deleted, not what it names"
    assert not os.path.exists(os.path.join(stage.project.path, ".deps"))
    assert stage.project.footprint().status == before


def test_failed_setup_ends_the_session_with_its_output_and_a_command(stage: Stage) -> None:
    begun = ("run", *options(stage), *setting("worktree.setup", [["sh", "-c", RED]]))
    ended = stage.holdfast(*begun, code=2)
    run = stage.only_run()
    assert "worktree.setup failed: sh -c" in ended.err
    assert "first line" in ended.err
    assert "last line" in ended.err
    assert f"holdfast resume {run}" in ended.err
    (finished,) = stage.data(run, "worktree.setup.finished")
    assert (finished["passed"], finished["exit_code"]) == (False, 3)
    assert finished["output"].startswith("first line\n")
    assert finished["output"].endswith("\nlast line")
    assert prepared(stage, run) == []
    stage.resume(run, *setting("worktree.setup", [["true"]]))
    assert prepared(stage, run) == [None, "T-1"]
    assert stage.states(run) == {"T-1": "COMPLETE"}


def test_setup_command_that_is_missing_is_named(stage: Stage) -> None:
    ended = stage.holdfast("run", *options(stage), *setting("worktree.setup", ["no-such-program ci"]), code=2)
    assert "no-such-program is not an executable program" in ended.err


@pytest.mark.parametrize(
    "point",
    every(
        3,
        [
            f"{point}:{number}"
            for point in (
                "worktree.supply.before",
                "worktree.supply.after",
                "worktree.setup.before",
                "worktree.setup.after",
            )
            for number in (1, 2)
        ],
    ),
)
def test_killed_during_its_setup_a_worktree_is_set_up_again(stage: Stage, point: str) -> None:
    given = (*options(stage), *supplied(stage), *setup(INSTALL), *check("ready", "test -e .deps"))
    stage.holdfast("run", *given, "--json", code=KILLED, env=failpoint_environment(stage.folder, point), cold=True)
    run = stage.only_run()
    assert stage.resume(run)["ended"] == "all_done"
    assert prepared(stage, run) == [None, "T-1"]
    assert stage.file(run, "work.txt") == "work"
    stage.holdfast("verify", run)


def test_worktree_that_is_made_again_is_set_up_again(stage: Stage) -> None:
    """A worker deletes the folder of its own worktree."""
    gone = {"run": 'cd / && rm -rf "$OLDPWD"'}
    agent = stage.book(EVALUATE, {"when": "was deleted", "steps": [WORK, SUBMIT]}, worker({"say": "now"}, gone, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *setup("echo x > .git/holdfast-test || true"))
    assert prepared(stage, run) == [None, "T-1", "T-1"]


def test_files_that_git_does_not_ignore_are_left_out_and_named(stage: Stage) -> None:
    write(stage.project.path, {".env": "KEY=1\n", "deps/one": "1\n", ".git/info/exclude": "deps/\n"})
    asked = (*setting("worktree.copy", [".env", "a.txt", "no.txt"]), *setting("worktree.link", ["deps"]))
    run = stage.run(*options(stage), *asked)
    warnings = " ".join(data["message"] for data in stage.data(run, "warning.logged"))
    for path in (".env", "a.txt", "no.txt", "deps"):
        assert f"lacks {path}: " in warnings
    names = stage.project.git("ls-tree", "-r", "--name-only", f"holdfast/{run}/main").split()
    assert names == ["a.txt", "work.txt"]


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", ".git/config", "."])
def test_paths_outside_of_the_checkout_are_refused_before_a_run_is_made(stage: Stage, path: str) -> None:
    ended = stage.holdfast("run", *options(stage), *setting("worktree.copy", [path]), code=2)
    assert "worktree.copy" in ended.err
    assert stage.holdfast("ls", "--json").objects == []


# The baseline of the checks


def test_check_that_fails_on_the_base_is_named_and_does_not_gate(stage: Stage) -> None:
    checks = (*check("old", f"cat work.txt; {RED}"), *check("good", "! grep -q bad work.txt"))
    ended = stage.holdfast("run", *options(stage), *checks)
    run = stage.only_run()
    assert "old fail before the work, so they do not gate tasks" in ended.err
    assert "first line" in ended.err
    (baseline,) = stage.data(run, "baseline.finished")
    assert (baseline["checks"], baseline["failed"], baseline["excused"]) == (["old", "good"], ["old"], ["old"])
    results = [(d["name"], d["passed"], d.get("excused", False)) for d in stage.data(run, "validator.finished")]
    assert results == [("old", False, True), ("good", True, False)]
    assert "1 of 2 checks passed; failed as before the work, so not counted: old" in ended.err
    assert "all checks passed" not in ended.err
    (verdict,) = stage.prompts(run, "evaluator")
    assert "it failed before the work too" in verdict


def test_check_that_passed_on_the_base_gates(stage: Stage) -> None:
    again = {"when": "The validators do not pass", "steps": [{"write": {"path": "work.txt", "text": "good\n"}}, SUBMIT]}
    bad = {"write": {"path": "work.txt", "text": "bad\n"}}
    agent = stage.book(EVALUATE, again, worker(bad, SUBMIT))
    run = stage.run(*LOOP, stage.tasks("T-1"), "--agent", agent, *check("good", "! grep -q bad work.txt"))
    assert [data["passed"] for data in stage.data(run, "validation.finished")] == [False, True]


def test_required_check_gates_although_it_fails_on_the_base(stage: Stage) -> None:
    run = stage.run(*options(stage), *check("work", "test -e work.txt", required=True))
    (baseline,) = stage.data(run, "baseline.finished")
    assert baseline["failed"] == ["work"]
    assert "excused" not in baseline or baseline["excused"] == []
    assert [data["passed"] for data in stage.data(run, "validation.finished")] == [True]


def test_when_every_check_fails_on_the_base_even_a_quiet_run_says_so(stage: Stage) -> None:
    ended = stage.holdfast("run", *options(stage), *check("one", "exit 1"), "--quiet")
    assert "every check fails on the untouched base (one)" in ended.err
    assert "worktree.setup" in ended.err


def test_without_a_baseline_all_checks_gate(stage: Stage) -> None:
    off = setting("validators.baseline", value=False)
    capped = setting("caps.iterations", 1)
    run = stage.run(*options(stage), *check("one", "exit 1"), *off, *capped, code=1)
    assert stage.data(run, "baseline.started") == []
    assert stage.states(run) == {"T-1": "FAILED"}


def test_what_checks_leave_on_the_base_is_removed(stage: Stage) -> None:
    run = stage.run(*options(stage), *check("messy", "test -e work.txt || echo x >> a.txt; echo x > left.txt"))
    assert stage.file(run, "a.txt") == "1\n2\n3"
    assert stage.project.git("ls-tree", "-r", "--name-only", f"holdfast/{run}/main").split() == ["a.txt", "work.txt"]
    assert stage.states(run) == {"T-1": "COMPLETE"}


@pytest.mark.parametrize("point", ["baseline.check.before:1", "baseline.check.after:1", "baseline.check.before:2"])
def test_killed_during_the_baseline_only_what_has_no_result_runs_again(stage: Stage, point: str) -> None:
    ran = os.path.join(stage.folder, "ran")
    checks = (
        *check("one", f"test -e work.txt || echo one >> {ran}"),
        *check("two", f"test -e work.txt || echo two >> {ran}"),
    )
    begun = ("run", *options(stage), *checks, "--json")
    stage.holdfast(*begun, code=KILLED, env=failpoint_environment(stage.folder, point), cold=True)
    run = stage.only_run()
    assert stage.resume(run)["ended"] == "all_done"
    names = [data["name"] for data in stage.data(run, "baseline.check.finished")]
    assert names == ["one", "two"]
    ones = Path(ran).read_text().split().count("one")
    assert ones == (2 if point.startswith("baseline.check.after") else 1)
    assert len(stage.data(run, "baseline.finished")) == 1
