"""`holdfast chat` at a terminal: a client that looks and types, while a runner elsewhere does the work."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import CTRL_C, EOF, Conversation, conversation
from tests.support.cli_stage import HANG, Stage
from tests.support.wait import until

ENTER = "\r"
GREETING = {
    "when": "the greeting",
    "steps": [{"write": {"path": "hello.txt", "text": "hello\n"}}, {"say": "greeted\n"}],
}
CAPITALS = {"when": "in capitals", "steps": [{"write": {"path": "hello.txt", "text": "HELLO\n"}}, {"say": "shouted\n"}]}
DANGER = {
    "when": "dangerous",
    "steps": [
        {"permission": {"title": "Delete it", "kind": "execute", "input": {"command": "rm -rf cache"}}},
        {"say": "you said {{result}}\n"},
    ],
}
LONG = {"when": "take long", "steps": [{"say": "it takes long\n"}, HANG]}


@contextmanager
def client(stage: Stage, *arguments: str) -> Iterator[Conversation]:
    env = {"TERM": "xterm-256color", "NO_COLOR": "1"}
    with conversation(stage.holdfast, "chat", *arguments, env=env) as terminal:
        yield terminal


def new(stage: Stage, *turns: dict[str, Any]) -> list[str]:
    agent = stage.book(*turns, CAPITALS, LONG, DANGER, GREETING)
    return ["--agent", agent, "--set", "chat.idle=60", "-m", "write the greeting"]


def wait_for(condition: Callable[[], object]) -> None:
    asyncio.run(until(lambda: bool(condition())))


def started(stage: Stage, terminal: Conversation) -> str:
    """The run of a new chat, after its first turn."""
    terminal.until("greeted")
    terminal.until("waiting for you")
    return stage.only_run()


def ended_turns(stage: Stage, run: str) -> int:
    return len(stage.data(run, "turn.ended"))


def runner_pid(stage: Stage, run: str) -> int:
    return int(stage.data(run, "session.start")[-1]["pid"])


@pytest.fixture(autouse=True)
def _no_runner_is_left(stage: Stage) -> Iterator[None]:
    yield
    for one in stage.holdfast("ls", "--json").objects:
        if one["status"] == "running":
            stage.holdfast("stop", one["id"])
            stage.holdfast("wait", one["id"])


def test_messages_are_answered_and_work_is_accepted(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")
        terminal.until("waiting for you")
        terminal.type(f"/diff{ENTER}")
        terminal.until("+HELLO")
        terminal.type(f"/accept{ENTER}")
        terminal.until("iteration 1 merged")
        terminal.until("bring it into your branch with: holdfast merge")
        terminal.type(f"/quit{ENTER}")
        assert terminal.end() == 0
    assert stage.prompts(run) == ["write the greeting", "now in capitals"]
    assert stage.file(run, "hello.txt") == "HELLO"


def test_first_message_is_shown_while_the_checks_run_and_again_beside_the_second(stage: Stage) -> None:
    gate = os.path.join(stage.folder, "gate")
    check = f'["sh", "-c", "until [ -e {gate} ]; do sleep 0.05; done"]'
    with client(stage, *new(stage), "--set", f"validators.commands.gate.command={check}") as terminal:
        terminal.until("sent when the agent has started: write the greeting")
        assert "waiting for you" not in terminal.until("starting")
        terminal.type(f"and be kind{ENTER}")
        run = stage.only_run()
        wait_for(lambda: stage.data(run, "inbox.consumed"))
        Path(gate).touch()
        terminal.until("› write the greeting")
        shown = terminal.until("› and be kind") + terminal.until("waiting for you")
        assert "Holdfast added" not in shown


def test_text_is_shown_before_it_is_in_the_log(stage: Stage) -> None:
    gate = os.path.join(stage.folder, "gate")
    talk = {
        "when": "speak",
        "steps": [{"say": "the first words"}, {"wait_for": {"path": gate}}, {"say": ", the last\n"}],
    }
    with client(stage, *new(stage, talk)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"speak{ENTER}")
        terminal.until("the first words")
        Path(gate).touch()
        terminal.until(", the last")
        wait_for(lambda: ended_turns(stage, run) == 2)
        said = [data["text"] for data in stage.data(run, "message.recorded") if data["speaker"] == "agent"]
        assert "".join(said).endswith("the first words, the last\n")


def test_permission_is_given_in_place(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"something dangerous{ENTER}")
        assert "rm -rf cache" in terminal.until("n deny")
        terminal.type(f"y{ENTER}")
        terminal.until("you said allow")
        assert stage.data(run, "permission.answered")[-1]["by"]


def test_late_answer_is_no_message(stage: Stage) -> None:
    """Another client was quicker."""
    asks = {**DANGER, "steps": [*DANGER["steps"], HANG]}
    with client(stage, *new(stage, asks)) as first:
        run = started(stage, first)
        first.type(f"something dangerous{ENTER}")
        first.until("n deny")
        with client(stage, run) as second:
            second.until("n deny")
            second.type(f"y{ENTER}")
            second.until("allowed by")
        first.until("allowed by")
        first.type(f"y{ENTER}")
        first.until("that request was answered already")
        first.type(f"yes{ENTER}")
        wait_for(lambda: len(stage.data(run, "inbox.consumed")) == 3)
    assert stage.data(run, "inbox.consumed")[-1]["body"]["text"] == "yes"


def test_refusal_takes_its_reason_to_the_agent(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"something dangerous{ENTER}")
        terminal.until("n deny")
        terminal.type(f"n not that folder{ENTER}")
        terminal.until("denied by")
        wait_for(lambda: any("not that folder" in prompt for prompt in stage.prompts(run)))


def test_message_during_a_turn_is_queued_and_can_be_changed(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"take long{ENTER}")
        stage.hangs()
        terminal.type(f"now in lowercase{ENTER}")
        wait_for(lambda: len(stage.data(run, "inbox.consumed")) == 2)
        terminal.type(f"and this never{ENTER}")
        wait_for(lambda: len(stage.data(run, "inbox.consumed")) == 3)
        terminal.type(f"/drop 2{ENTER}")
        terminal.until("taken back: and this never")
        wait_for(lambda: stage.data(run, "inbox.deleted"))
        terminal.type(f"/edit 1 now in capitals{ENTER}")
        wait_for(lambda: stage.data(run, "inbox.edited"))
        terminal.type(CTRL_C)
        terminal.until("turn cancelled by")
        terminal.until("shouted")
    assert stage.prompts(run)[-1] == "now in capitals"


def test_second_ctrl_c_leaves_and_the_agent_goes_on(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(CTRL_C + CTRL_C)
        terminal.until(f"Back with: holdfast chat {run}")
        assert terminal.end() == 0
    assert stage.holdfast("ls", "--json").objects[0]["status"] == "running"


def test_ctrl_c_while_something_is_printed_cancels_too(stage: Stage) -> None:
    """Then it comes as a signal."""
    with client(stage, *new(stage)) as terminal:
        started(stage, terminal)
        terminal.type(f"take long{ENTER}")
        terminal.until("it takes long")
        terminal.interrupt()
        terminal.until("turn cancelled by")


def test_runner_that_is_killed_is_replaced(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"take long{ENTER}")
        stage.hangs()
        os.kill(runner_pid(stage, run), signal.SIGKILL)
        terminal.until("the runner died")
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("turn interrupted")
        terminal.until("shouted")
    stage.holdfast("verify", run)


def test_queued_message_survives_its_runner(stage: Stage) -> None:
    """It was read by a runner that dies: the client starts another one."""
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"take long{ENTER}")
        stage.hangs()
        terminal.type(f"now in capitals{ENTER}")
        wait_for(lambda: len(stage.data(run, "inbox.consumed")) == 2)
        os.kill(runner_pid(stage, run), signal.SIGKILL)
        terminal.until("shouted")
    assert "now in capitals" in stage.prompts(run)[-1]


def test_agent_that_is_killed_is_restarted(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        os.kill(stage.data(run, "conversation.attached")[-1]["pid"], signal.SIGKILL)
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")
    assert stage.prompts(run)[-1].endswith("now in capitals")


def test_client_that_is_killed_loses_nothing(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"take long{ENTER}")
        stage.hangs()
    with client(stage) as terminal:
        assert run in terminal.until("it takes long")
        terminal.type(CTRL_C)
        terminal.until("turn cancelled by")
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")


def test_two_clients_see_the_same(stage: Stage) -> None:
    with client(stage, *new(stage)) as first:
        run = started(stage, first)
        with client(stage, run) as second:
            second.until("greeted")
            second.until("waiting for you")
            second.type(f"now in capitals{ENTER}")
            first.until("now in capitals")
            first.until("shouted")
            second.until("shouted")
    assert stage.prompts(run) == ["write the greeting", "now in capitals"]


def test_what_happened_meanwhile_is_shown_on_return(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(EOF)
        assert terminal.end() == 0
    stage.holdfast("send", run, "now in capitals")
    wait_for(lambda: ended_turns(stage, run) == 2)
    with client(stage, run) as terminal:
        before = terminal.until("while you were away")
        assert "greeted" in before
        assert "shouted" not in before
        terminal.until("shouted")


def test_tool_call_is_shown_in_full_on_request(stage: Stage) -> None:
    look = {"when": "look", "steps": [{"run": "echo one; echo two"}, {"say": "looked\n"}]}
    with client(stage, *new(stage, look)) as terminal:
        started(stage, terminal)
        terminal.type(f"look{ENTER}")
        assert "echo one; echo two" in terminal.until("looked")
        terminal.type(f"/show{ENTER}")
        terminal.until("    one\r\n    two\r\n")


def test_unknown_command_goes_to_the_agent(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"/shrink now{ENTER}")
        terminal.until("/shrink is no command here")
        wait_for(lambda: ended_turns(stage, run) == 2)
        terminal.type(f"/compact{ENTER}")
        terminal.until("no command that compacts")
    assert stage.prompts(run)[-1] == "/shrink now"


def test_agents_own_commands_are_completed_and_passed_on(stage: Stage) -> None:
    lists = {"when": "list", "steps": [{"commands": [{"name": "compress", "description": "shorten"}]}, {"say": "ok"}]}
    with client(stage, *new(stage, lists, {"when": "/compress", "steps": [{"say": "shorter"}]})) as terminal:
        run = started(stage, terminal)
        terminal.type(f"list them{ENTER}")
        wait_for(lambda: ended_turns(stage, run) == 2)
        terminal.type("/comp")
        terminal.until("/compress")
        terminal.type("\x15")
        terminal.type(f"/compact{ENTER}")
        terminal.until("shorter")
    assert stage.prompts(run)[-1] == "/compress"


def test_attached_picture_goes_with_the_next_message(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(b"\x89PNG")
    with client(stage, *new(stage, {"when": "look at", "steps": [{"say": "looked"}]})) as terminal:
        run = started(stage, terminal)
        terminal.type(f"/attach {tmp_path}/none.png{ENTER}")
        terminal.until("cannot attach")
        terminal.type(f"\x15/attach {tmp_path}/shot.png{ENTER}")
        terminal.until("shot.png (image/png, 4 bytes)")
        terminal.type(f"look at it{ENTER}")
        terminal.until("as a link")
        terminal.until("looked")
    (sent,) = stage.data(run, "prompt.files_sent")
    assert [file["form"] for file in sent["sent"]] == ["link"]


def test_another_agent_gives_its_opinion(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        other = stage.book({"when": "what do you think", "steps": [{"say": "a second opinion\n"}]}, name="other")
        terminal.type(f"/add {other} what do you think{ENTER}")
        terminal.until("a second opinion")
        terminal.type(f"/status{ENTER}")
        terminal.until("tokens, cost")
    assert len(stage.data(run, "conversation.opened")) == 2


def test_message_to_an_agent_whose_work_is_finished_starts_a_new_conversation(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"/agent 1{ENTER}/accept finish{ENTER}")
        terminal.until("bring it into your branch with: holdfast merge")
        wait_for(lambda: stage.data(run, "conversation.state_changed")[-1]["state"] == "completed")
        stage.holdfast("wait", run)
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")
        terminal.type(f"/accept{ENTER}")
        terminal.until("merged T-1")
    assert len(stage.data(run, "conversation.opened")) == 2


def test_chat_needs_a_terminal(stage: Stage) -> None:
    refused = stage.holdfast("chat", code=2)
    assert "not a terminal; use holdfast chat --json" in refused.err


def test_other_run_is_not_a_chat(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book({"when": "worker", "steps": [{"say": "hello"}]}))
    refused = stage.holdfast("chat", run, "--json", code=2)
    assert "is not a chat" in refused.err


def test_rewind_is_shown_first_and_fork_leaves_the_chat_as_it_is(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")
        wait_for(lambda: ended_turns(stage, run) == 2)
        wait_for(lambda: len(stage.holdfast("show", run, "--points", "--json").objects) == 3)
        terminal.type(f"/points{ENTER}")
        terminal.until("turn-2")
        terminal.until("/rewind POINT goes back")
        terminal.type(f"/rewind turn-1{ENTER}")
        terminal.until("hello.txt  +1 -1")
        terminal.until("/rewind yes does it")
        assert stage.data(run, "run.rewound") == []
        terminal.type(f"/fork turn-2 loud{ENTER}")
        terminal.until("continue the fork with: holdfast chat loud-")
        terminal.type(f"/rewind yes{ENTER}")
        assert "the runner died" not in terminal.until("/rewind undo takes it back")
        assert worktree_file(stage, run) == "hello\n"
        terminal.type(f"now in capitals{ENTER}")
        wait_for(lambda: ended_turns(stage, run) == 3)
        terminal.type(f"/rewind nonsense and more{ENTER}")
        terminal.until("/points lists the points")
    other = next(one["id"] for one in stage.holdfast("ls", "--json").objects if one["id"] != run)
    assert worktree_file(stage, other) == "HELLO\n"


def worktree_file(stage: Stage, run: str) -> str:
    return Path(stage.home_of(run), "tasks", "T-1", "hello.txt").read_text()


def test_reopened_chat_does_not_show_what_was_rewound(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")
        wait_for(lambda: ended_turns(stage, run) == 2)
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    with client(stage, run) as terminal:
        terminal.until("greeted")
        seen = terminal.until("went back to turn-1")
        assert "shouted" not in seen
        assert "in capitals" not in seen
