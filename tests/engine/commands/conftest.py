"""Chats that end with their test."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engine.commands.stop import stop_run
from tests.support.chats import Chats


@pytest.fixture
async def chats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Chats]:
    monkeypatch.setenv("HOLDFAST_PLAYBOOK_STATE", os.fspath(tmp_path / "memory"))
    found = Chats(os.fspath(tmp_path))
    yield found
    for chat in found.started:
        if chat.home.is_owned(chat.run_id):
            await stop_run(chat.home, chat.run_id)
