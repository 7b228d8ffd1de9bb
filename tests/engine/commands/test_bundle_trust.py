"""Which lines of somebody else's log or inbox need trust, and which do not."""

import json
from typing import Any

import pytest

from holdfast.core.config.settings import Settings
from holdfast.engine.commands.bundle.trust import needing_trust


def _found(event_type: str, data: Any) -> list[str]:
    line = json.dumps({"sid": "s", "seq": 1, "type": event_type, "data": data}).encode()
    return [*needing_trust([line], Settings())]


@pytest.mark.parametrize(
    ("event_type", "data", "named"),
    [
        ("settings.chosen", {"settings": {"flags": {"hooks.pre_tool": [["sh", "-c", "true"]]}}}, "pre_tool"),
        ("settings.chosen", {"settings": {"flags": {"hooks": {"pre_tool": [["true"]]}}}}, "hooks"),
        ("settings.chosen", {"settings": {"prepares": {"flags": {"agents.x.command": ["true"]}}}}, "agents"),
        ("settings.chosen", {"settings": {"flags": {"of a newer": 1}}}, "of a newer"),
        ("permission.rule_added", {"rule": "r", "kind": "execute"}, "a permission"),
        ("conversation.started", {"conversation": "c", "agent": "playbook:/tmp/x.json"}, "playbook:"),
        ("plan.created", {"tasks": [{"id": "T-1", "agent": "claude --dangerous"}]}, "--dangerous"),
        ("effect.intended", {"kind": "push", "arguments": {"remote": "--upload-pack=touch x;"}}, "--upload-pack"),
        ("effect.intended", {"kind": "push", "arguments": {"remote": "ext::sh -c x"}}, "ext::"),
        ("task.started", {"taskId": "T-1", "agent": "worker of T-1", "x": {"agent": "sh -c x"}}, "sh -c"),
        ("task.committed", {"task_id": "T-1", "commit": "--output=/x"}, "--output"),
    ],
)
def test_what_runs_a_command_needs_trust(event_type: str, data: Any, named: str) -> None:
    assert any(named in each for each in _found(event_type, data))


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("settings.chosen", {"settings": {"flags": {"agent": "claude", "workflow": "solo"}, "folder": "/x"}}),
        ("conversation.started", {"conversation": "c", "agent": "claude-code"}),
        ("message.recorded", {"conversation": "c", "speaker": "user", "text": "--output=/x"}),
        ("effect.intended", {"kind": "push", "arguments": {"remote": "origin", "commit": "0" * 40}}),
        ("run.created", {"run_id": "r", "remote": None}),
        ("task.started", {"taskId": "T-1", "agent": "worker of T-1"}),
    ],
)
def test_ordinary_lines_need_none(event_type: str, data: Any) -> None:
    assert _found(event_type, data) == []
