"""Nothing that is recorded of a run holds a secret: not its log, its inbox, its pages, nor what is exported."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_stage import CASE, EVALUATE, HANG, Stage, alive, killed, wait_for_event, worker
from tests.support.wait import until

# In two parts each, so that no file of this repository holds what looks like a token.
TOKEN = "ghp_" + "R4nd0mLookingText" * 3
PASSWORD = "Tr0ub4dor&3"
CHANNEL = "T0123ABCD/B0123ABCD/" + "x7Zq" * 6
ENVIRONMENT = {
    "GITHUB_PAT": TOKEN,
    "DB_PASSWORD": PASSWORD,
    "DATABASE_URL": "postgres://app:kelp7forest@db.test/shop",
    "NOTIFY_URL": f"https://hooks.slack.com/services/{CHANNEL}",
}
SECRETS = (TOKEN, PASSWORD, "kelp7forest", CHANNEL)
ALL = " ".join((TOKEN, PASSWORD, ENVIRONMENT["DATABASE_URL"], ENVIRONMENT["NOTIFY_URL"]))


def leaks(stage: Stage) -> list[tuple[str, str]]:
    """Which secrets stand in which files of the home. Work trees and an agent's own sessions are not ours."""
    files = [file for file in Path(stage.home).rglob("*") if file.is_file()]
    kept = [file for file in files if not {"workspace", "tasks", "state"} & set(file.relative_to(stage.home).parts)]
    assert {"events.jsonl", "inbox.jsonl"} <= {file.name for file in kept}
    return [(str(file), one) for file in kept for one in SECRETS if one.encode() in file.read_bytes()]


def texts(stage: Stage, run: str) -> str:
    return json.dumps(stage.events(run))


def test_no_secret_is_recorded_wherever_it_turns_up(stage: Stage) -> None:
    case = {**CASE, "summary": f"I used {ALL}", "learnings": [f"the password is {PASSWORD}"]}
    agent = stage.book(
        worker(
            {"run": "env"},
            {"think": {"text": f"hm {ALL}", "chunk": 3}},
            {"say": {"text": f"I will use {ALL} now", "chunk": 5}},
            {"tool": {"title": f"curl {TOKEN}", "input": {"command": f"curl {ALL}"}}},
            {"tool_done": {"content": [ALL], "output": {"text": ALL}}},
            {"plan": [f"use {TOKEN}"]},
            {"stderr": f"warning: {ALL}"},
            {"write": {"path": "a.txt", "text": "a\n"}},
            {"mcp": {"tool": "submit_case", "arguments": case}},
        ),
        EVALUATE,
    )
    tasks = stage.tasks({"id": "A", "title": "Use it", "description": f"with {ALL}"})
    check = json.dumps({"command": ["sh", "-c", f"echo {TOKEN}"]})
    options = ("--workflow", "loop", "--agent", agent, "--set", f"validators.commands.leaky={check}")
    run = stage.holdfast("plan", tasks, *options, "--json", env=ENVIRONMENT, code=2).err
    assert "agents.NAME.secrets" in run  # flags are written to the log, and used from there

    script = Path(stage.folder, "check.sh")
    script.write_text(f"echo '{ALL}'\n", encoding="utf-8")
    check = json.dumps({"command": ["sh", str(script)]})
    run = stage.run(tasks, *options[:-1], f"validators.commands.leaky={check}", env=ENVIRONMENT)
    assert stage.states(run) == {"A": "COMPLETE"}
    stage.holdfast("send", run, f"and {ALL}", env=ENVIRONMENT)
    assert leaks(stage) == []
    found = texts(stage, run)
    for marker in ("GITHUB_PAT", "DB_PASSWORD", "password in URL", "Slack webhook"):
        assert f"[redacted: {marker}]" in found
    page = Path(stage.folder, "run.html")
    stage.holdfast("export", run, "--html", "-o", str(page), env=ENVIRONMENT)
    assert not [one for one in SECRETS if one in page.read_text(encoding="utf-8")]


def test_a_text_that_is_written_in_parts_does_not_hold_a_secret_across_them(stage: Stage) -> None:
    said = " ".join(
        f"{'word ' * 40}{TOKEN} {'w' * (number * 37 % 300)} {ENVIRONMENT['DATABASE_URL']}" for number in range(150)
    )
    run = stage.run("talk", "--agent", stage.book(worker({"say": {"text": said, "chunk": 4000}})), env=ENVIRONMENT)
    parts = [d["text"] for d in stage.data(run, "message.recorded") if d["speaker"] == "agent"]
    assert len(parts) > 3
    whole = "".join(parts)
    assert (whole.count("[redacted: GITHUB_PAT]"), whole.count("[redacted: password in URL]")) == (150, 150)
    assert leaks(stage) == []


def test_tokens_are_known_by_their_shape_where_no_variable_holds_them(stage: Stage) -> None:
    run = stage.run(f"use {TOKEN}", "--agent", stage.book(worker({"say": f"I used {ALL}"})))
    assert TOKEN not in texts(stage, run)
    assert "kelp7forest" not in texts(stage, run)
    assert "ghp" not in run
    assert "redacted" in run
    assert any("contains a secret" in d["message"] for d in stage.data(run, "warning.logged"))
    (prompt, *_) = stage.prompts(run)
    assert "use [redacted: GitHub token]" in prompt
    assert "Where this text says" in prompt


def test_a_restated_prompt_carries_the_redacted_text_and_says_so(stage: Stage, tmp_path: Path) -> None:
    """The agent that lives gets what its guide says; what is told again after a crash comes from the log."""
    stage.project.commit({"AGENTS.md": f"The registry wants {TOKEN}.\n"}, "Guide")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    agent = stage.book(worker(HANG, {"write": {"path": "a.txt", "text": "a\n"}}))
    with stage.start("run", "write a file", "--agent", agent, env=state) as process:
        wait_for_event(process, "turn.started")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    assert stage.resume(run, env=state)["ended"] == "all_done"
    (session,) = (tmp_path / "state").rglob("play-*.json")
    first, second = [said["text"] for said in json.loads(session.read_text(encoding="utf-8"))["said"]]
    assert TOKEN in first
    assert TOKEN not in second
    assert "The registry wants [redacted: GitHub token]." in second
    assert "Where this text says `[redacted: …]`, a secret was removed" in second
    assert TOKEN not in texts(stage, run)


def test_what_a_detached_runner_prints_holds_no_secret(stage: Stage) -> None:
    refused: Any = {"error": {"code": -32603, "message": f"bad request for {ALL}"}}
    path = stage.book(worker(refused)).removeprefix("playbook:")
    command = json.dumps([sys.executable, "-m", "holdfast", "agent", "playbook", path])
    options = ("--agent", "mine", "--set", f"agents.mine.command={command}", "--detach", "--json")
    run = stage.holdfast("run", "go", *options, env=ENVIRONMENT).object["run"]
    stage.holdfast("wait", run, code=1)
    asyncio.run(until(lambda: alive(stage) == []))
    log = Path(stage.home_of(run), "runner.log").read_text(encoding="utf-8")
    assert "bad request for [redacted: GITHUB_PAT]" in log
    assert leaks(stage) == []


def test_reported_secret_is_stored_nowhere(stage: Stage) -> None:
    """The agent was not given the password: only the runner knows that it is one."""
    submit = {"mcp": {"tool": "submit_case", "arguments": {**CASE, "summary": f"I used {PASSWORD}"}}}
    agent = stage.book(worker({"write": {"path": "a.txt", "text": "a\n"}}, submit), EVALUATE)
    options = ("--workflow", "loop", "--agent", agent)
    run = stage.ended("run", stage.tasks("A"), *options, env=ENVIRONMENT)["run"]
    assert len(stage.data(run, "case.submitted")) == 1
    assert leaks(stage) == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_message_outlives_a_kill_while_its_secret_is_blanked(stage: Stage, side: str) -> None:
    """The sender did not know that it is a secret; the runner does."""
    agent = stage.book(worker({"write": {"path": "a.txt", "text": "a\n"}}))
    run = stage.holdfast("plan", "write a file", "--agent", agent, "--json").object["run"]
    stage.holdfast("send", run, f"use {PASSWORD}")
    passes = Path(stage.folder, "passes")
    passes.touch()
    armed = {"HOLDFAST_CRASH": f"inbox.blank.{side}:1", "HOLDFAST_CRASH_FILE": str(passes)}
    with stage.start("resume", run, env={**ENVIRONMENT, **armed}) as process:
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert stage.data(run, "inbox.consumed") == []
    assert stage.resume(run, env=ENVIRONMENT)["ended"] == "all_done"
    blanked = "*" * len(PASSWORD) if side == "after" else "[redacted: DB_PASSWORD]"
    assert sum(f"use {blanked}" in prompt for prompt in stage.prompts(run)) == 1
    assert leaks(stage) == []


@pytest.mark.parametrize("secret", [False, True])
def test_send_says_when_a_secret_was_removed(stage: Stage, *, secret: bool) -> None:
    run = stage.holdfast("plan", "write a file", "--agent", stage.book(worker({"say": "ok"})), "--json").object["run"]
    sent = stage.holdfast("send", run, f"use {TOKEN}" if secret else "use the table", "--json")
    assert sent.object["redacted"] is secret
    assert bool(sent.err) is secret
    assert os.path.getsize(os.path.join(stage.home_of(run), "inbox.jsonl")) > 0
    assert leaks(stage) == []
