"""Files that go with a message: stored before it is acknowledged, and sent in the form that the agent takes."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.events.conversation import CommandsListed, FilesSent, MessageRecorded, TurnEnded
from holdfast.core.events.issue import WarningLogged
from holdfast.core.messages.attachments import MAX_ATTACHMENT_BYTES, Attachment
from holdfast.core.messages.schema import UserMessage
from holdfast.core.work.names import worktree_names
from holdfast.engine.attachments import attachment_path, read_attachment_file, store_attachment
from holdfast.engine.commands.chat import (
    add_attachment,
    compact,
    send_chat_message,
    set_option,
)
from holdfast.engine.commands.send import send
from holdfast.engine.queries.queued import list_queued
from holdfast.leaf.errors import BadInput
from tests.support.chats import Chat, Chats

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
ECHO = {"when": "look at", "steps": [{"say": "{{prompt}}"}]}


async def replies(chat: Chat) -> str:
    return "".join(event.text for event in await chat.events(MessageRecorded) if event.speaker == "agent")


async def sent_files(chat: Chat) -> list[tuple[str, str]]:
    return [(file.name, file.form) for event in await chat.events(FilesSent) for file in event.sent]


@pytest.mark.parametrize(
    ("accepts", "forms"),
    [
        ([], ["link", "link", "link"]),
        (["image"], ["image", "link", "link"]),
        (["image", "embedded_context"], ["image", "embedded", "link"]),
    ],
)
async def test_attachments_are_sent_in_the_best_form_that_the_agent_takes(
    chats: Chats, accepts: list[str], forms: list[str]
) -> None:
    """Whatever it takes, the prompt names the stored files, and the log says how each was sent."""
    chat = await chats.start(ECHO, agent={"accepts": accepts})
    await chat.rest()
    files: list[tuple[str, bytes]] = [("a/shot.png", PNG), ("notes.md", b"remember\n"), ("x.bin", b"\0\1")]
    attached = [await add_attachment(chat.home, chat.run_id, name, data) for name, data in files]
    await send_chat_message(chat.home, chat.run_id, "look at these", attachments=attached)
    await chat.rest()
    assert await sent_files(chat) == list(zip(["shot.png", "notes.md", "x.bin"], forms, strict=True))
    said = await replies(chat)
    for attachment in attached:
        assert attachment_path(chat.home.folder(chat.run_id), attachment) in said
    assert ("remember" in said) == ("embedded" in forms)


async def test_mentioned_file_of_the_worktree_is_sent(chats: Chats) -> None:
    chat = await chats.start(ECHO, agent={"accepts": ["embedded_context"]})
    await chat.rest()
    worktree = Path(chat.home.folder(chat.run_id), worktree_names(chat.run_id, "T-1").folder)
    (worktree / "plan.md").write_text("the plan\n")
    secret = Path(chats.folder, "secret.txt")
    secret.write_text("outside\n")
    (worktree / "link.md").symlink_to(secret)
    message = "look at @plan.md, @link.md and @../../secret.txt, and ask @ann"
    await send_chat_message(chat.home, chat.run_id, message)
    await chat.rest()
    assert await sent_files(chat) == [("plan.md", "embedded")]
    said = await replies(chat)
    assert "the plan" in said
    assert "outside" not in said


async def test_missing_attachment_is_refused_and_one_that_disappears_is_told(chats: Chats) -> None:
    chat = await chats.start(ECHO)
    await chat.rest()
    invented = Attachment("0" * 64, "a.txt", "text/plain", 1)
    with pytest.raises(BadInput, match="attach it first"):
        await send_chat_message(chat.home, chat.run_id, "look at it", attachments=[invented])
    outside = Attachment("../" * 9, "passwd", "text/plain", 1)
    await send(chat.home, chat.run_id, UserMessage("look at it", attachments=(outside, invented)))
    await send_chat_message(chat.home, chat.run_id, "and go on")
    await chat.rest()
    assert await sent_files(chat) == [("passwd", "missing"), ("a.txt", "missing")]


async def test_attachment_of_an_interrupted_turn_is_sent_again(chats: Chats) -> None:
    crash: dict[str, Any] = {"when": "look at", "once": True, "steps": [{"say": "oh"}, {"crash": "kill"}]}
    chat = await chats.start(crash, ECHO, agent={"accepts": ["image"]})
    await chat.rest()
    attached = await add_attachment(chat.home, chat.run_id, "shot.png", PNG)
    await send_chat_message(chat.home, chat.run_id, "look at it", attachments=[attached])
    await chat.rest()
    await send_chat_message(chat.home, chat.run_id, "go on")
    await chat.rest()
    assert await sent_files(chat) == [("shot.png", "image")] * 2


async def test_queued_message_lists_its_attachments(chats: Chats) -> None:
    chat = await chats.start()
    await chat.rest()
    attached = await add_attachment(chat.home, chat.run_id, "shot.png", PNG)
    await send(chat.home, chat.run_id, UserMessage("look", attachments=(attached,)))
    (queued,) = await list_queued(chat.home, chat.run_id)
    assert queued.attachments == ("shot.png",)


def test_names_and_sizes(tmp_path: Path) -> None:
    folder = os.fspath(tmp_path)
    stored = store_attachment(folder, "../../.ssh/-rf ü.png", PNG, "text/html; charset=x")
    assert (stored.name, stored.media_type) == ("rf_ü.png", "text/html")
    assert attachment_path(folder, stored).startswith(f"{folder}/attachments/")
    assert read_attachment_file(folder, stored) == PNG
    assert store_attachment(folder, "..", b"x").name == "file"
    with pytest.raises(BadInput, match=r"at most 10\.5 MB"):
        store_attachment(folder, "big", b"x" * (MAX_ATTACHMENT_BYTES + 1))
    with pytest.raises(BadInput, match="empty"):
        store_attachment(folder, "none", b"")
    Path(attachment_path(folder, stored)).write_bytes(b"something else")
    assert read_attachment_file(folder, stored) is None


def test_secret_of_the_environment_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "q7Rt2vXk9LmP4sWz8bNc")
    stored = store_attachment(os.fspath(tmp_path), "env.txt", b"key q7Rt2vXk9LmP4sWz8bNc\n")
    assert b"q7Rt2vXk9LmP4sWz8bNc" not in (read_attachment_file(os.fspath(tmp_path), stored) or b"q7Rt2vXk9LmP4sWz8bNc")


async def test_agent_compacts_by_its_own_command(chats: Chats) -> None:
    lists = {"commands": [{"name": "compress", "description": "shorten"}]}
    chat = await chats.start({"when": "/compress", "steps": [{"say": "shorter"}]}, {"when": "list", "steps": [lists]})
    await chat.rest()
    (conversation,) = await chat.status()
    with pytest.raises(BadInput, match="no command that compacts"):
        await compact(chat.home, chat.run_id, conversation.id)
    await send_chat_message(chat.home, chat.run_id, "list them")
    await chat.rest()
    assert (await chat.status())[0].commands == {"compress": "shorten"}
    await compact(chat.home, chat.run_id, conversation.id)
    await chat.rest()
    assert (await replies(chat)).endswith("shorter")
    assert len(await chat.events(CommandsListed)) == 1


async def test_model_is_set_as_the_agent_offers_it(chats: Chats) -> None:
    models = {"current": "small", "available": ["small", "large"]}
    chat = await chats.start(agent={"models": models, "models_by": "set_model"})
    await chat.rest()
    (conversation,) = await chat.status()
    for model in ("Large", "huge"):
        await set_option(chat.home, chat.run_id, conversation.id, "model", model)
    await send_chat_message(chat.home, chat.run_id, "what now?")
    await chat.rest()
    warnings = [event.message for event in await chat.events(WarningLogged)]
    assert warnings == ["the agent offers no model 'huge'; it offers small, large"]
    assert (await chat.status())[0].options == {}  # what was refused is not tried again
    await set_option(chat.home, chat.run_id, conversation.id, "model", "large")
    await send_chat_message(chat.home, chat.run_id, "and now?")
    await chat.rest()
    assert len(await chat.events(WarningLogged)) == 1
    assert len(await chat.events(TurnEnded)) == 3
