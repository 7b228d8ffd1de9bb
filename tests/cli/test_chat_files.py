"""Files that go with a message from the command line."""

import base64
import signal
from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.cli.test_chat import new
from tests.cli.test_chat_json import lines
from tests.cli.test_run_chat import chat
from tests.support.cli_stage import Stage

LOOK: dict[str, object] = {"when": "look at", "steps": [{"say": "{{prompt}}"}]}


def forms(stage: Stage, run: str) -> list[tuple[str, str]]:
    return [(file["name"], file["form"]) for data in stage.data(run, "prompt.files_sent") for file in data["sent"]]


@pytest.mark.parametrize("side", ["before", "after"])
def test_sender_killed_while_it_stores_an_attachment_has_sent_nothing(stage: Stage, tmp_path: Path, side: str) -> None:
    """Sent again, the message and its file arrive once."""
    run = chat(stage, LOOK)
    note = tmp_path / "note.txt"
    note.write_text("remember\n")
    send = ("send", run, "look at it", "--attach", str(note))
    crash = failpoint_environment(str(tmp_path), f"attachment.write.{side}:1")
    stage.holdfast(*send, env=crash, code=-signal.SIGKILL)
    assert stage.data(run, "inbox.consumed") == []
    stage.holdfast(*send)
    stage.holdfast("wait", run)
    assert forms(stage, run) == [("note.txt", "link")]
    assert sum("look at it" in prompt for prompt in stage.prompts(run)) == 1
    stage.holdfast("verify", run)


def test_program_sends_files(stage: Stage, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("remember\n")
    with lines(stage, *new(stage, LOOK)) as program:
        program.until_event("turn.ended")
        data = base64.b64encode(b"\x89PNG").decode()
        picture = {"name": "shot.png", "data": data, "media_type": "image/png"}
        program.put(say={"text": "look at these", "attachments": [{"path": str(note)}, picture]})
        sent = program.until_event("prompt.files_sent")["sent"]
        assert [(file["name"], file["media_type"]) for file in sent] == [
            ("note.txt", "text/plain"),
            ("shot.png", "image/png"),
        ]
        for wrong in ({"path": str(tmp_path / "none")}, {"path": str(tmp_path)}, {"name": "a", "data": "%"}, {"x": 1}):
            program.put(say={"text": "look", "attachments": [wrong]})
            assert program.until("error", command="say")["message"]
        program.put(compact=True)
        assert "no command that compacts" in program.until("error", command="compact")["message"]


def test_only_a_chat_takes_files(stage: Stage, tmp_path: Path) -> None:
    run = stage.run("write", "--agent", stage.book({"when": "write", "steps": [{"say": "done"}]}))
    assert "is not a chat" in stage.holdfast("send", run, "look", "--attach", str(tmp_path), code=2).err
