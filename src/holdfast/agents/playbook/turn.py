"""One turn: the state its steps share, and how they send updates to the client."""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from holdfast.agents.jsonrpc.stdio import StdioConnection
from holdfast.agents.playbook.format import Content, Diff, End, Failure, Location, ToolChange, ToolStart
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.sessions import PlaybookSession
from holdfast.agents.playbook.variables import fill

REPLAYED_UPDATES = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call"}) | {
    "tool_call_update",
    "plan",
}


class TurnOver(Exception):
    """The script ends the turn here."""

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


class TurnFailed(Exception):
    """The script answers the prompt with an error, or a step is impossible."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class StepImpossible(Exception):
    """A step that cannot be done: a missing file, an unknown MCP server."""


class RunningTurn:
    def __init__(
        self,
        connection: StdioConnection,
        record: PlaybookSession,
        servers: McpServers,
        prompt: str,
        *,
        has_message_ids: bool = False,
    ) -> None:
        self.connection = connection
        self.record = record
        self.servers = servers
        self.has_tools = servers.offered
        self.prompt = prompt
        self.has_message_ids = has_message_ids
        self.result = ""
        self.exit_code = 0
        self.round = 0
        self.tool_call_id = ""  # the last one started
        self.ended_calls: set[str] = set()
        self.background_pids: list[subprocess.Popen[bytes]] = []
        self.ignores_cancel = False
        self.is_asking = False
        self.cancelled = asyncio.Event()
        self.task: asyncio.Task[Any] | None = None

    def fill(self, text: str) -> str:
        return fill(
            text,
            {
                "prompt": lambda: self.prompt,
                "cwd": lambda: self.record.cwd,
                "session": lambda: self.record.id,
                "turn": lambda: self.record.turns,
                "result": lambda: self.result,
                "exit": lambda: self.exit_code,
                "pid": os.getpid,
                "n": lambda: self.round,
            },
            os.environ,
        )

    def fill_all(self, value: Any) -> Any:
        """Fill the variables in nested data, such as a tool's input or a call's arguments."""
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, list):
            return [self.fill_all(item) for item in value]
        if isinstance(value, dict):
            return {key: self.fill_all(item) for key, item in value.items()}
        return value

    def path(self, path: str) -> str:
        return os.path.join(self.record.cwd, self.fill(path))

    # --- to the client ---

    async def update(self, kind: str, /, **fields: Any) -> None:
        update = {"sessionUpdate": kind, **{name: value for name, value in fields.items() if value is not None}}
        if self.has_message_ids and kind == "agent_message_chunk":
            update["messageId"] = f"{self.record.id}-{self.record.turns}"
        if kind in REPLAYED_UPDATES:
            self.record.add_update(update)
        await self.connection.notify("session/update", {"sessionId": self.record.id, "update": update})

    async def request(self, method: str, **params: Any) -> Any:
        return await self.connection.request(method, {"sessionId": self.record.id, **params})

    async def say(self, text: str) -> None:
        await self.update("agent_message_chunk", content=text_content(text))

    # --- tool calls ---

    def new_tool_call(self, call_id: str | None = None) -> str:
        self.record.tool_calls += 1
        self.tool_call_id = self.fill(call_id) if call_id else f"call-{self.record.tool_calls}"
        return self.tool_call_id

    async def start_tool(self, step: ToolStart) -> None:
        await self.update(
            "tool_call", toolCallId=self.new_tool_call(step.id), status=step.status, **self.tool_fields(step)
        )

    async def change_tool(self, step: ToolChange, status: str | None = None) -> None:
        call, status = self.fill(step.id) if step.id else self.tool_call_id, status or step.status
        if status in ("completed", "failed"):
            self.ended_calls.add(call)
        await self.update("tool_call_update", toolCallId=call, status=status, **self.tool_fields(step))

    async def end_asked(self, call: str) -> None:
        """End a tool call that only a permission request showed, so that no reopened session shows it."""
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed"}
        await self.connection.notify("session/update", {"sessionId": self.record.id, "update": update})

    def tool_fields(self, step: Any) -> dict[str, Any]:
        output = getattr(step, "output", UNSET)
        return {
            "title": self.fill(step.title) if step.title else None,
            "kind": step.kind,
            "locations": self._location_list(step.locations) or None,
            "content": [self._content_block(content) for content in step.content] or None,
            "rawInput": None if step.input is UNSET else self.fill_all(step.input),
            "rawOutput": None if output is UNSET else self.fill_all(output),
        }

    def _location_list(self, locations: Sequence[Location | str]) -> list[dict[str, Any]]:
        found = (Location(path=location) if isinstance(location, str) else location for location in locations)
        return [
            {"path": self.path(location.path)} | ({} if location.line is None else {"line": location.line})
            for location in found
        ]

    def _content_block(self, content: Content | str) -> dict[str, Any]:
        if isinstance(content, str):
            return tool_text(self.fill(content))
        if isinstance(content.diff, Diff):
            diff = content.diff
            return tool_diff(self.path(diff.path), diff.old and self.fill(diff.old), self.fill(diff.new))
        if isinstance(content.terminal, str):
            return {"type": "terminal", "terminalId": self.fill(content.terminal)}
        assert isinstance(content.text, str)
        return tool_text(self.fill(content.text))


def text_content(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def tool_text(text: str) -> dict[str, Any]:
    return {"type": "content", "content": text_content(text)}


def tool_diff(path: str, old: str | None, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "newText": new} | ({} if old is None else {"oldText": old})
