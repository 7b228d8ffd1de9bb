"""A chat, as a user has one: it waits between turns, and every message starts what it needs."""

import json
import os
import signal
from pathlib import Path

from holdfast.store.files.layout import run_folder
from tests.support.cli_stage import HANG, Event, Stage, branch

GREETING = {"when": "the greeting", "steps": [{"write": {"path": "hello.txt", "text": "hello\n"}}, {"say": "done"}]}
CAPITALS = {"when": "in capitals", "steps": [{"write": {"path": "hello.txt", "text": "HELLO\n"}}, {"say": "done"}]}
FAREWELL = {"when": "the farewell", "steps": [{"write": {"path": "bye.txt", "text": "bye\n"}}, {"say": "done"}]}


def chat(stage: Stage, *turns: dict[str, object], idle: str = "0") -> str:
    """A chat after its first turn, which nobody works on."""
    agent = stage.book(*turns, FAREWELL, CAPITALS, GREETING)
    return stage.run("write the greeting", "--workflow", "chat", "--agent", agent, "--set", f"chat.idle={idle}")


def shown(stage: Stage, run: str) -> Event:
    found: Event = stage.holdfast("show", run, "--json").object
    return found


def conversation(stage: Stage, run: str) -> Event:
    (only,) = shown(stage, run)["conversations"]
    return dict(only)


def states(stage: Stage, run: str) -> list[str]:
    kinds = ("conversation.state_changed", "task.state_changed")
    return [event["data"]["state"] for event in stage.events(run) if event["type"] in kinds]


def say(stage: Stage, run: str, text: str) -> None:
    """Send a message, and wait until the runner that it started has ended."""
    stage.holdfast("send", run, text)
    stage.holdfast("wait", run)


def test_chat_waits_for_its_user_after_each_turn(stage: Stage) -> None:
    run = chat(stage)
    assert stage.events(run)[-1]["data"]["reason"] == "idle"
    assert stage.states(run) == {"T-1": "REVIEW"}
    first = ["starting", "waiting_for_input", "running", "in_progress", "waiting_for_input", "review"]
    assert states(stage, run) == [state for state in first if state != "in_progress"]  # `task.started` says it
    assert stage.prompts(run) == ["write the greeting"]


def test_message_restarts_the_agent_and_is_delivered_once(stage: Stage) -> None:
    run = chat(stage)
    found = conversation(stage, run)
    assert (found["state"], found["needs_resume"], found["reason"], found["is_agent_running"]) == (
        "waiting_for_input",
        True,
        "agent_not_running",
        False,
    )
    say(stage, run, "now in capitals")
    assert stage.prompts(run) == ["write the greeting", "now in capitals"]
    assert len(stage.data(run, "conversation.opened")) == 1
    assert states(stage, run)[-6:] == [
        *("starting", "waiting_for_input", "running", "in_progress", "waiting_for_input", "review")
    ]


def test_rejected_token_is_cleared_and_the_chat_stays_usable(stage: Stage) -> None:
    run = chat(stage)
    stage.book(FAREWELL, CAPITALS, GREETING, agent={"load": "gone", "resume": "gone"})
    before = len(states(stage, run))
    say(stage, run, "now in capitals")
    assert [stored["token"] is None for stored in stage.data(run, "conversation.token_stored")] == [False, True, False]
    assert "started a new agent session" in stage.holdfast("logs", run).out, "the user is told"
    assert states(stage, run)[before:] == [
        *("starting", "waiting_for_input", "running", "in_progress", "waiting_for_input", "review")
    ]
    assert stage.states(run) == {"T-1": "REVIEW"}


def test_chat_whose_agent_cannot_start_waits_and_is_usable_when_it_can(stage: Stage) -> None:
    run = chat(stage)
    stage.book(agent={"load": "gone", "resume": "gone", "new": "refuses"})
    stage.holdfast("send", run, "now in capitals", cold=True)  # it starts a runner, whose pid it looks for in the log
    stage.holdfast("wait", run, code=1)
    assert (conversation(stage, run)["state"], stage.states(run)) == ("waiting_for_input", {"T-1": "REVIEW"})
    stage.book(FAREWELL, CAPITALS, GREETING)
    stage.holdfast("resume", run)
    delivered = [prompt for prompt in stage.prompts(run) if "now in capitals" in prompt]
    assert len(delivered) == 1


def test_accepted_work_is_merged_and_the_worktree_stays(stage: Stage) -> None:
    run = chat(stage)
    worktree = os.path.join(run_folder(stage.home, run), "tasks", "T-1")
    before = os.stat(worktree).st_ino
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    assert stage.file(run, "hello.txt") == "hello"
    say(stage, run, "now in capitals")
    assert stage.file(run, "hello.txt") == "hello"
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    assert stage.file(run, "hello.txt") == "HELLO"
    assert os.stat(worktree).st_ino == before
    assert [data["iteration"] for data in stage.data(run, "iteration.accepted")] == [1, 2]
    assert len(stage.data(run, "conversation.opened")) == 1
    stage.holdfast("verify", run)


def test_finished_chat_ends_its_conversation(stage: Stage) -> None:
    run = chat(stage)
    stage.holdfast("accept", run, "--finish")
    assert stage.holdfast("wait", run).out.strip() == "done"
    assert stage.states(run) == {"T-1": "COMPLETE"}
    assert conversation(stage, run)["state"] == "completed"
    say(stage, run, "and now the farewell")
    assert stage.prompts(run)[-1].endswith("and now the farewell")


def test_failed_check_sends_accepted_work_back_to_review(stage: Stage) -> None:
    run = stage.run(
        *("write the greeting", "--workflow", "chat", "--agent", stage.book(CAPITALS, GREETING)),
        *("--set", "chat.idle=0"),
        *("--set", 'validators.commands.loud={"command": ["sh", "-c", "! grep hello hello.txt"]}'),
    )
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    assert stage.states(run) == {"T-1": "REVIEW"}
    assert stage.data(run, "task.committed") == []
    say(stage, run, "then in capitals")
    assert "could not be merged" in stage.prompts(run)[-1]
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    assert stage.file(run, "hello.txt") == "HELLO"


def test_interrupted_turn_waits_for_its_user(stage: Stage) -> None:
    """A resume does not continue it; a message does, with what was asked before."""
    agent = stage.book({"when": "the greeting", "steps": [HANG, {"write": {"path": "hello.txt", "text": "hello\n"}}]})
    process = stage.start("run", "write the greeting", "--workflow", "chat", "--agent", agent, "--set", "chat.idle=0")
    stage.hangs()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run = stage.only_run()
    assert stage.resume(run)["ended"] == "idle"
    assert len(stage.data(run, "turn.started")) == 1
    assert stage.states(run) == {"T-1": "REVIEW"}
    say(stage, run, "please go on")
    last = stage.prompts(run)[-1]
    assert "was interrupted" in last
    assert "write the greeting" in last
    assert "please go on" in last
    assert Path(run_folder(stage.home, run), "tasks", "T-1", "hello.txt").read_text() == "hello\n"


def test_message_to_another_run_is_queued_as_before(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(GREETING))
    assert "holdfast resume" in stage.holdfast("send", run, "and more").out
    refused = stage.holdfast("accept", run, code=2)
    assert "is not a chat" in refused.err


def test_task_branch_keeps_its_commits(stage: Stage) -> None:
    """Each accepted iteration is one commit on the task's branch, and none of them is squashed away."""
    run = chat(stage)
    for text in ("now in capitals", "now the farewell"):
        stage.holdfast("accept", run)
        stage.holdfast("wait", run)
        say(stage, run, text)
    log = stage.project.git("log", "--format=%s", f"main..{branch(run, 'T-1')}").split("\n")
    assert len([line for line in log if line == "write the greeting"]) == 2
    assert json.loads(stage.holdfast("show", run, "--json").out)["rules"] == {}
