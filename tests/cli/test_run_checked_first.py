"""What cannot work is found before a run is created: exit code 2, one line, and nothing is left behind."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.terminal import shown
from tests.support.cli_stage import HELLO, Stage, worker
from tests.support.projects import new_run

DECLINES = worker({"say": "I will not do this."}, {"end": "refusal"})


def refused(stage: Stage, *arguments: str, **env: str) -> str:
    """The one line that `holdfast run` prints; no run is left."""
    complaint = stage.holdfast("run", *arguments, code=2, env=env).complaint
    assert stage.holdfast("ls", "--json").out == ""
    return complaint


@pytest.mark.parametrize("path", ["tasks/", "plan.yaml", "docs/plan", "prd.json", "T-1.md"])
def test_path_that_does_not_exist_is_no_goal(stage: Stage, path: str) -> None:
    complaint = refused(stage, path, "--agent", stage.book(HELLO))
    assert complaint.startswith(f"{path} does not exist; name a task list that does")


def test_goal_of_one_word_and_one_with_a_slash_are_goals(stage: Stage) -> None:
    agent = stage.book(HELLO)
    stage.run("refactor", "--agent", agent)
    stage.run("add and/or search to docs/plan.md", "--agent", agent)


def test_missing_playbook(stage: Stage) -> None:
    assert "nowhere.yaml: No such file" in refused(stage, "go", "--agent", "playbook:nowhere.yaml")


def test_builtin_without_a_model_or_a_key(stage: Stage) -> None:
    assert refused(stage, "go", "--agent", "builtin") == (
        "builtin: no model: give --model PROVIDER:NAME or set HOLDFAST_MODEL"
    )
    complaint = refused(stage, "go", "--agent", "builtin", "--model", "openai:gpt")
    assert complaint.startswith("builtin: no key for openai:gpt: set OPENAI_API_KEY")


def test_node_that_is_too_old(stage: Stage) -> None:
    bin_folder = Path(stage.folder, "bin")
    bin_folder.mkdir()
    for name, text in (("kimi", "#!/usr/bin/env node\n"), ("node", "#!/bin/sh\necho v20.1.0\n")):
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    path = f"{bin_folder}:{os.environ['PATH']}"
    assert "kimi needs Node.js 22.19 or newer, and node is 20.1.0" in refused(stage, "go", "--agent", "kimi", PATH=path)


def test_agent_that_was_not_chosen_comes_with_the_command_to_choose_one(stage: Stage) -> None:
    path = os.path.join(stage.folder, "bin")
    os.mkdir(path)
    os.symlink("/usr/bin/git", os.path.join(path, "git"))
    complaint = refused(stage, "go", PATH=path)
    assert complaint.startswith("claude-agent-acp is not installed; install it with: npm install -g")
    assert complaint.endswith("To choose another agent: holdfast init")


def test_agent_that_cannot_start_is_tried_once_and_says_why(stage: Stage) -> None:
    script = "echo starting >> starts; echo 'no licence: set LICENCE_KEY' >&2; exit 2"
    command = json.dumps(["sh", "-c", script.replace("starts", f"{stage.folder}/starts")])
    ended = stage.ended("run", "go", "--agent", "odd", "--set", f"agents.odd.command={command}", code=1)
    assert ended["detail"].startswith("T-1: odd failed to start (exit code 2): no licence: set LICENCE_KEY; its stderr")
    (listed,) = stage.holdfast("ls", "--json").objects
    assert (listed["status"], listed["need"][:25]) == ("parked", ended["detail"][:25])
    assert Path(stage.folder, "starts").read_text() == "starting\n"
    run = stage.only_run()
    why = f"stopped      parked: {ended['detail']}"
    assert any(line.strip() == why for line in stage.holdfast("show", run).lines)
    assert f"holdfast show {run}" in stage.holdfast("resume", run, code=1).err
    folded = shown(stage.holdfast, "show", run, columns=60, NO_COLOR="1")
    assert max(len(line) for line in folded.splitlines() if " /" not in line and "holdfast" not in line) <= 60
    assert " ".join(why.split()[1:]) in " ".join(folded.split())


def test_agent_that_declines_ends_its_task_at_once_with_its_words(stage: Stage) -> None:
    agent = stage.book(DECLINES)
    ended = stage.ended("run", "--workflow", "loop", stage.tasks("A"), "--agent", agent, code=1)
    assert (ended["ended"], ended["detail"]) == ("declined", "A: I will not do this.")
    run = str(ended["run"])
    assert len(stage.data(run, "turn.started")) == 1
    stage.holdfast("resume", run, "--on-issue", "retry", "--agent", stage.book(HELLO, name="willing"), "--json", code=1)
    assert len(stage.data(run, "turn.started")) > 1


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--parallel", "0", "is not a whole number from 1 on"),
        ("--max-tokens", "many", "is not a whole number from 1 on"),
        ("--budget", "-1", "is not a number from 0 on"),
        ("--max-minutes", "nan", "is not a number from 0 on"),
    ],
)
def test_a_wrong_limit_is_told_by_the_name_of_its_option(stage: Stage, option: str, value: str, said: str) -> None:
    complaint = refused(stage, "go", "--agent", stage.book(HELLO), f"{option}={value}")
    assert complaint.startswith(f"argument {option}: {value!r} {said}")


def test_short_options_set_the_limits(stage: Stage) -> None:
    limits = ("--budget", "3", "--max-tokens", "9", "--max-minutes", "1.5", "--iterations", "2", "--model", "big")
    run = stage.run("go", "--agent", stage.book(HELLO), *limits)
    flags = stage.data(run, "settings.chosen")[0]["settings"]["flags"]
    assert {name: flags[name] for name in flags if name != "agent"} == {
        "model": "big",
        "caps.dollars": 3.0,
        "caps.tokens": 9,
        "caps.wall_clock": 90.0,
        "caps.iterations": 2,
    }


def test_limit_that_ended_a_session_names_the_option_that_raises_it(stage: Stage) -> None:
    told = worker({"usage": {"used": 1200, "size": 200000, "cost": 0.75}}, {"hang": {"how": "turn", "seconds": 3600}})
    outcome = stage.holdfast("run", "go on", "--agent", stage.book(told), "--budget", "0.5", code=1)
    assert "cost limit reached (caps.dollars) (raise it with --budget DOLLARS)" in outcome.err
    assert outcome.err.rstrip().endswith(f"continue: holdfast resume {stage.only_run()} --budget DOLLARS")


def test_a_missing_task_list_is_told_before_the_unfinished_run(stage: Stage) -> None:
    unfinished = new_run(stage.home, stage.project)
    told = stage.holdfast("run", "--workflow", "loop", "nope.yaml", "--agent", stage.book(HELLO), code=2).err
    assert "nope.yaml" in told
    assert unfinished not in told


def test_without_a_repository_no_agent_is_asked_for(holdfast: Program, tmp_path: Path) -> None:
    told = holdfast("run", "do it", "--agent", "codex", cwd=str(tmp_path), code=2).complaint
    assert "repository" in told


def test_an_error_is_broken_between_its_words_on_a_terminal(stage: Stage) -> None:
    told = shown(stage.holdfast, "run", "go", "--agent", "nobody", columns=50, code=2)
    assert "holdfast: there is no agent 'nobody'; known" in told.splitlines()[0]
    words = {"opencode,", "playbook:FILE,", "config"}
    assert words <= set(told.split())
    assert max(map(len, told.splitlines())) <= 50
