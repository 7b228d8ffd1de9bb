"""A permission request tells what will run: wherever a person looks, to hooks, and to rules."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.boards import board
from tests.support.cli_stage import CASE, Stage, killed, outcome, wait_for_event, worker

COMMAND = "rm -rf build\n\x1b[2Kecho \u202edone"
SHOWN = ("rm -rf build", "\\x1b[2Kecho \\u202edone")
EDIT = {"path": "notes.md", "old": "keep\nthis\n", "new": "keep\n"}


def asks(**more: Any) -> dict[str, Any]:
    """A call whose input comes before the request, which has only the model's own words for it."""
    answers = {
        "allowed": [{"write": {"path": "answer.txt", "text": "allowed\n"}}],
        "rejected": [{"write": {"path": "answer.txt", "text": "rejected\n"}}],
    }
    return {"permission": {"title": "bench", "id": "c1", "kind": "execute", **answers, **more}}


def called(command: str = COMMAND) -> dict[str, Any]:
    given = {"command": command, "description": "bench"}
    return {"tool": {"id": "c1", "title": "bench", "kind": "execute", "input": given}}


def waiting(stage: Stage, *steps: dict[str, Any], text: bool = False) -> subprocess.Popen[bytes]:
    agent = stage.book(worker(*steps), sessions={"interrupted": "again"})
    start = stage.holdfast.start if text else stage.start
    return start("run", "tidy up", "--agent", agent)


def seen(process: subprocess.Popen[bytes], *words: str) -> str:
    """Read what it says until all of these were said."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line.decode()
        if all(word in said for word in words):
            return said
    raise AssertionError(f"{words} never came: {said}")


def test_request_carries_command_and_input_in_the_log_and_in_show(stage: Stage) -> None:
    with waiting(stage, called(), asks()) as process:
        requested = wait_for_event(process, "permission.requested")["data"]
        assert (requested["title"], requested["command"]) == ("bench", COMMAND)
        assert requested["input"] == {"command": COMMAND, "description": "bench"}
        run = stage.only_run()
        (need,) = stage.holdfast("show", run, "--json").object["needs"]
        assert need["request"]["command"] == COMMAND
        assert need["request"]["input"]["description"] == "bench"
        for shown in (stage.holdfast("show", run).out, stage.holdfast("logs", run).out, stage.holdfast("top").out):
            assert SHOWN[0] in shown
            assert "bench" in shown, "what the agent calls it stands beside"
            assert not {"\x1b", "\u202e"} & set(shown)
        stage.holdfast("approve", run)
        outcome(process)
    assert stage.file(run, "answer.txt") == "allowed"


def test_run_and_attach_show_the_command(stage: Stage) -> None:
    with waiting(stage, called(), asks(), text=True) as process:
        said = seen(process, *SHOWN)
        assert "\x1b[2K" not in said
        run = stage.only_run()
        with stage.holdfast.start("attach", run) as attached:
            seen(attached, *SHOWN)
            killed(attached)
        killed(process)


def test_quiet_run_says_what_it_waits_for(stage: Stage) -> None:
    agent = stage.book(worker(called(), asks()), sessions={"interrupted": "again"})
    with stage.holdfast.start("run", "tidy up", "--agent", agent, "--quiet") as process:
        said = seen(process, "answer with: holdfast approve", *SHOWN)
        assert "started" not in said
        killed(process)


async def test_top_shows_the_command(stage: Stage) -> None:
    with waiting(stage, called(), asks()) as process:
        wait_for_event(process, "permission.requested")
        async with board(stage.home, size=(120, 50)) as screen:
            await screen.until(*SHOWN)
            await screen.press("a")
            await screen.until("asks", "approve", *SHOWN)
        killed(process)


def test_request_shows_the_change_of_an_edit(stage: Stage) -> None:
    edit = asks(title="Edit", kind="edit", content=[{"diff": EDIT}])
    with waiting(stage, edit) as process:
        requested = wait_for_event(process, "permission.requested")["data"]
        assert [(one["old"], one["new"]) for one in requested["diffs"]] == [(EDIT["old"], EDIT["new"])]
        assert requested["paths"] == [requested["diffs"][0]["path"]]
        shown = stage.holdfast("show", stage.only_run()).out
        assert "-this" in shown
        killed(process)


def test_long_input_is_cut_and_says_how_much_is_missing(stage: Stage) -> None:
    command = "echo ok\n" + "true\n" * 300 + "rm -rf build"
    with waiting(stage, called(command), asks()) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        shown = stage.holdfast("show", run).out
        assert "rm -rf build" in shown, "the end is not hidden by the middle"
        assert f"characters are not shown; holdfast show {run} --json has all of it" in shown
        (need,) = stage.holdfast("show", run, "--json").object["needs"]
        assert need["request"]["command"] == command
        killed(process)


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ({"then": "allow", "command": "make *"}, "allowed"),
        ({"then": "deny", "command": "rm *"}, "rejected"),
    ],
)
def test_rule_matches_the_command_and_not_the_title(stage: Stage, rule: dict[str, str], answer: str) -> None:
    command = {"allowed": "make all", "rejected": "cd x && rm -rf ."}[answer]
    rules = f"permissions.rules={json.dumps([rule])}"
    run = stage.run("tidy up", "--agent", stage.book(worker(called(command), asks())), "--set", rules)
    assert stage.file(run, "answer.txt") == answer
    if answer == "rejected":
        (blocked,) = stage.data(run, "tool.blocked")
        assert (blocked["tool"], blocked["command"]) == ("bench", command)


def test_allow_rule_for_a_command_is_not_met_by_more_than_it(stage: Stage) -> None:
    agent = stage.book(worker(called("make all; rm -rf ."), asks()))
    rules = f"permissions.rules={json.dumps([{'then': 'allow', 'command': 'make *'}, {'then': 'deny'}])}"
    run = stage.run("tidy up", "--agent", agent, "--set", rules)
    assert stage.file(run, "answer.txt") == "rejected"


def test_hook_is_told_the_input(stage: Stage) -> None:
    hook = f'hooks.pre_tool=[["sh", "-c", "cat > {stage.folder}/told"]]'
    agent = stage.book(worker(called("make all"), asks()))
    run = stage.run("tidy up", "--agent", agent, "--allow", "allow-all", "--set", hook)
    about = json.loads(Path(stage.folder, "told").read_text())
    assert about["input"] == {"command": "make all", "description": "bench"}
    assert (about["tool"], about["command"]) == ("bench", "make all")
    assert stage.file(run, "answer.txt") == "allowed"


# Holdfast's own tools


@pytest.mark.parametrize("title", ["mcp__holdfast__submit_case", "submit_case (holdfast MCP Server)"])
@pytest.mark.parametrize("policy", ["ask", "deny-all"])
def test_own_tool_needs_no_permission_under_any_policy(stage: Stage, title: str, policy: str) -> None:
    veto = 'hooks.pre_tool=[["false"]]'
    deny = f"permissions.rules={json.dumps([{'then': 'deny', 'tool': '*'}])}"
    step = asks(title=title, kind="other", id=None, input=CASE)
    agent = stage.book(worker(step))
    run = stage.run("tidy up", "--agent", agent, "--allow", policy, "--set", veto, "--set", deny)
    assert stage.file(run, "answer.txt") == "allowed"
    assert stage.data(run, "permission.requested") == []
    assert stage.data(run, "tool.blocked") == []


def test_title_of_an_own_tool_lets_no_command_through(stage: Stage) -> None:
    step = asks(title="mcp__holdfast__submit_case")
    run = stage.run("tidy up", "--agent", stage.book(worker(called(), step)), "--allow", "deny-all")
    assert stage.file(run, "answer.txt") == "rejected"
    assert [one["command"] for one in stage.data(run, "tool.blocked")] == [COMMAND]
