"""What an agent remembers after a rewind: its own session ends at the point, or it gets the history up to there."""

from typing import Any

import pytest

from tests.cli.test_run_chat import CAPITALS, FAREWELL, GREETING, say
from tests.support.cli_stage import Stage

RECALL = {"when": "what do you remember", "steps": [{"echo_memory": True}]}
CUT = {"fork": "works", "message_ids": True}


def chat(stage: Stage, *turns: dict[str, Any], **agent: Any) -> str:
    """A chat after two turns, which nobody works on."""
    book = stage.book(RECALL, *turns, FAREWELL, CAPITALS, GREETING, agent=agent)
    run = stage.run("write the greeting", "--workflow", "chat", "--agent", book, "--set", "chat.idle=0")
    say(stage, run, "now in capitals")
    return run


def strategies(stage: Stage, run: str) -> list[str]:
    return [attached["rung"] for attached in stage.data(run, "conversation.attached")]


def remembered(stage: Stage, run: str) -> str:
    say(stage, run, "what do you remember")
    said = [data["text"] for data in stage.data(run, "message.recorded") if data["speaker"] == "agent"]
    return str(said[-1])


def test_session_is_copied_up_to_the_point(stage: Stage) -> None:
    """The agent remembers, by itself, what was said before the point and nothing after it."""
    run = chat(stage, **CUT)
    stage.holdfast("rewind", run, "-y")
    assert remembered(stage, run) == 'I remember: ["write the greeting"]'
    assert strategies(stage, run)[-1] == "session/fork"
    assert len({stored["token"] for stored in stage.data(run, "conversation.token_stored")}) == 2
    say(stage, run, "and the farewell")
    assert strategies(stage, run)[-1] == "session/resume", "the copy is the agent's session now"
    assert remembered(stage, run) == 'I remember: ["write the greeting","what do you remember","and the farewell"]'
    stage.holdfast("verify", run)


def test_undo_copies_the_session_that_was_left(stage: Stage) -> None:
    run = chat(stage, **CUT)
    stage.holdfast("rewind", run, "-y")
    say(stage, run, "and the farewell")
    stage.holdfast("rewind", run, "--undo", "-y")
    assert remembered(stage, run) == 'I remember: ["write the greeting","now in capitals"]'
    assert strategies(stage, run)[-1] == "session/fork"


def test_undo_at_once_keeps_the_session(stage: Stage) -> None:
    run = chat(stage, **CUT)
    stage.holdfast("rewind", run, "-y")
    stage.holdfast("rewind", run, "--undo", "-y")
    assert remembered(stage, run) == 'I remember: ["write the greeting","now in capitals"]'


@pytest.mark.parametrize(
    ("agent", "tried"),
    [
        ({"message_ids": True, "forks": "whole"}, True),  # it would remember what was rewound
        ({"message_ids": True, "fork": "refuses"}, True),
        ({"message_ids": True, "fork": "absent"}, False),
        ({"message_ids": True, "load": "absent"}, False),  # nothing would show what the copy has
        ({"message_ids": False}, False),
    ],
    ids=["copies all", "refuses", "cannot fork", "cannot load", "gives no ids"],
)
def test_agent_whose_copy_is_not_proved_gets_the_history(stage: Stage, agent: dict[str, Any], tried: bool) -> None:
    retold = {"resume_context": True, "steps": [{"say": "{{prompt}}"}]}
    run = chat(stage, retold, **agent)
    stage.holdfast("rewind", run, "-y")
    say(stage, run, "and now")
    told = [data["text"] for data in stage.data(run, "message.recorded") if data["speaker"] == "agent"][-1]
    assert "write the greeting" in told
    assert "capitals" not in told
    assert strategies(stage, run)[-1] == "history injection"
    failed = [each["rung"] for each in stage.data(run, "conversation.rung_failed")]
    assert failed == (["session/fork"] if tried else [])
