"""Chats with runners and agents as processes of their own."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.core.events import Event
from holdfast.engine.commands.create import RunRequest
from holdfast.engine.commands.start_chat import start_chat
from holdfast.engine.home import Home
from holdfast.engine.queries.conversations import ConversationStatus, conversations_of
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import view_run
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.projects import Project
from tests.support.wait import PATIENCE


class Chat(NamedTuple):
    home: Home
    run_id: str

    async def events(self, kind: type[Event]) -> list[Any]:
        return [event for event in events_in(await whole(self.home.store, self.run_id)) if isinstance(event, kind)]

    async def status(self) -> list[ConversationStatus]:
        return conversations_of(await view_run(self.home, self.run_id))

    async def until(self, condition: Callable[..., Awaitable[bool]], *arguments: object) -> None:
        """Until it holds, looked at whenever the log has grown."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self.home.store.log(self.run_id).follow():
                if await condition(self, *arguments):
                    return

    async def rest(self) -> None:
        """Until its runner has ended."""
        await wait_until_free(self.home, self.run_id)


class Chats:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.home = Home(os.path.join(folder, "home"))
        self.project = Project.make(folder)
        self.started: list[Chat] = []

    async def start(self, *turns: Mapping[str, Any], idle: float = 0, **book: Any) -> Chat:
        path = Path(self.folder, "book.json")
        path.write_text(json.dumps({"turns": turns, "otherwise": [{"say": "fine"}], **book}))
        flags = {"agent": f"playbook:{path}", "chat.idle": idle}
        run_id = await start_chat(self.home, RunRequest("begin", self.project.path, flags=flags))
        self.started.append(Chat(self.home, run_id))
        return self.started[-1]
