"""The screen behind the protocol: updates to the client, and questions to it."""

from typing import Any

from acp import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.interfaces import Client
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Cost,
    PermissionOption,
    SessionInfoUpdate,
    ToolCallLocation,
    ToolCallUpdate,
    UsageUpdate,
)
from pydantic import BaseModel

from holdfast.agents.builtin.screen import Shown, Spent, Status, Verdict
from holdfast.agents.builtin.secrets import Secrets
from holdfast.agents.builtin.tools import Step
from holdfast.leaf.text.encodable import encodable

_OPTIONS = [
    PermissionOption(option_id="once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Allow this tool for the session", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


class AcpScreen:
    def __init__(self, client: Client, session: str, secrets: Secrets) -> None:
        self._client = client
        self._session = session
        self._secrets = secrets
        self._diffs: set[str] = set()

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self._session, update=self._clean(update))

    def _clean(self, shown: BaseModel) -> Any:
        """What is shown ends in the client's log."""
        told = shown.model_dump(mode="json", by_alias=True, exclude_none=True)
        clean = self._secrets.redacted(encodable(told))
        return shown if clean == told else type(shown).model_validate(clean)

    async def user(self, text: str) -> None:
        await self._update(update_user_message_text(text))

    async def text(self, piece: str, message: str) -> None:
        content = text_block(piece)
        await self._update(AgentMessageChunk(session_update="agent_message_chunk", content=content, message_id=message))

    async def thought(self, piece: str, message: str) -> None:
        content = text_block(piece)
        await self._update(AgentThoughtChunk(session_update="agent_thought_chunk", content=content, message_id=message))

    async def call(self, shown: Shown, status: Status) -> None:
        if shown.diff is not None:
            self._diffs.add(shown.id)
        await self._update(
            start_tool_call(
                shown.id,
                shown.title,
                kind=shown.kind,
                status=status,
                content=_content(shown),
                locations=_locations(shown),
                raw_input=shown.arguments,
            )
        )

    async def progress(self, call: str, status: Status, text: str | None = None) -> None:
        """The result becomes what the call shows; only a diff that was carried out stays on the screen."""
        shows = text is not None and not (status == "completed" and call in self._diffs)
        await self._update(
            update_tool_call(
                call,
                status=status,
                content=[tool_content(text_block(text or ""))] if shows else None,
                raw_output=None if text is None else {"text": text},
            )
        )

    async def plan(self, steps: tuple[Step, ...]) -> None:
        await self._update(update_plan(plan_entry(step.content, status=step.status) for step in steps))

    async def usage(self, used: int, size: int, spent: Spent) -> None:
        cost = None if spent.cost is None else Cost(amount=spent.cost, currency="USD")
        await self._update(UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost))

    async def title(self, title: str) -> None:
        await self._update(SessionInfoUpdate(session_update="session_info_update", title=title))

    async def ask(self, shown: Shown) -> Verdict:
        call = ToolCallUpdate(
            tool_call_id=shown.id,
            title=shown.title,
            kind=shown.kind,
            status="pending",
            content=_content(shown),
            locations=_locations(shown),
            raw_input=shown.arguments,
        )
        answer = await self._client.request_permission(
            session_id=self._session, tool_call=self._clean(call), options=_OPTIONS
        )
        if answer.outcome.outcome != "selected":
            return "cancelled"
        match answer.outcome.option_id:
            case "once":
                return "once"
            case "always":
                return "always"
        return "no"


def _content(shown: Shown) -> Any:
    if shown.diff is not None:
        return [tool_diff_content(shown.diff.path, shown.diff.new, shown.diff.old)]
    if shown.kind == "execute" and isinstance(shown.arguments, dict):
        return [tool_content(text_block(str(shown.arguments.get("command", ""))))]
    return None


def _locations(shown: Shown) -> Any:
    return [ToolCallLocation(path=shown.path, line=shown.line)] if shown.path else None
