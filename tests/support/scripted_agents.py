"""A playbook agent that remembers what it was told, uses a tool, and dies or hangs when it is asked to."""

import os
import signal
from typing import Any

from holdfast.store.run import OwnedRun
from tests.support.conversations import EngineSession
from tests.support.wait import until

KNOW = "What do you know?"
FACT = "the word is kelp"

# It remembers what it was told, uses a tool, and says what a prompt with a history holds.
TURNS: list[dict[str, Any]] = [
    {"resume_context": True, "steps": [{"say": "I was told: {{prompt}}"}]},
    {"when": "What do you know", "steps": [{"echo_memory": True}]},
    {"when": "^exit$", "steps": [{"say": "bye"}, {"answer": "end_turn"}, {"crash": {"how": "exit", "once": True}}]},
    {"when": "^die$", "steps": [{"tool": {"id": "t-1", "title": "Saw"}}, {"crash": {"how": "kill", "once": True}}]},
    {"when": "^stop$", "steps": [{"tool": {"id": "t-2", "title": "Wait"}}, {"hang": {"how": "deaf", "once": True}}]},
    {"when": "^mute$", "steps": [{"crash": {"how": "kill", "once": True}}, {"say": "at last"}]},
    {"when": "^still$", "steps": [{"hang": {"how": "deaf", "once": True}}]},
    {"when": "^never$", "steps": [{"crash": "kill"}]},
    {
        "when": "kelp",
        "steps": [
            {"tool": {"id": "look", "title": "Look"}},
            {"tool_done": {"output": {"found": 41}}},
            {"say": "noted"},
        ],
    },
]
OTHERWISE = [{"say": "fine"}]


def book(**agent: Any) -> dict[str, Any]:
    can = {"load": "absent", "resume": "absent", **agent}
    return {"agent": can, "sessions": {"interrupted": "next"}, "turns": TURNS, "otherwise": OTHERWISE}


async def kill_idle(session: EngineSession, name: str) -> None:
    """SIGKILL the agent while it waits for us."""
    pid = session.conversations.state(name).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: session.conversations.resume_need(name)[0])


def calls_of(run: OwnedRun, name: str) -> list[str]:
    """The tool calls that are under way."""
    turn = run.state.conversations[name].turn
    return list(turn.calls) if turn is not None else []
