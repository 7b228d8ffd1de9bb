"""Shows a turn to the client: sends updates, and asks permission."""

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

from holdfast.agents.builtin.screen import CallStatus, DisplayedCall, PermissionChoice, TokenUsage
from holdfast.agents.builtin.secrets import Secrets
from holdfast.agents.builtin.tools import PlanItem
from holdfast.leaf.text.encodable import make_encodable

_OPTIONS = [
    PermissionOption(option_id="once", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Allow this tool for the session", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


class AcpScreen:
    def __init__(self, client: Client, session_id: str, secrets: Secrets) -> None:
        self._client = client
        self._session_id = session_id
        self._secrets = secrets
        self._diffs: set[str] = set()

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self._session_id, update=self._redact(update))

    def _redact(self, update: BaseModel) -> Any:
        """The client logs what it is shown."""
        fields = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        clean = self._secrets.redact_data(make_encodable(fields))
        return update if clean == fields else type(update).model_validate(clean)

    async def show_user_text(self, text: str) -> None:
        await self._update(update_user_message_text(text))

    async def show_text(self, piece: str, message_id: str) -> None:
        content = text_block(piece)
        await self._update(
            AgentMessageChunk(session_update="agent_message_chunk", content=content, message_id=message_id)
        )

    async def show_thought(self, piece: str, message_id: str) -> None:
        content = text_block(piece)
        await self._update(
            AgentThoughtChunk(session_update="agent_thought_chunk", content=content, message_id=message_id)
        )

    async def show_call(self, displayed: DisplayedCall, status: CallStatus) -> None:
        if displayed.diff is not None:
            self._diffs.add(displayed.id)
        await self._update(
            start_tool_call(
                displayed.id,
                displayed.title,
                kind=displayed.kind,
                status=status,
                content=_content(displayed),
                locations=_locations(displayed),
                raw_input=displayed.arguments,
            )
        )

    async def show_progress(self, call_id: str, status: CallStatus, text: str | None = None) -> None:
        """Update the call with its result; only a diff that was carried out stays visible."""
        shows = text is not None and not (status == "completed" and call_id in self._diffs)
        await self._update(
            update_tool_call(
                call_id,
                status=status,
                content=[tool_content(text_block(text or ""))] if shows else None,
                raw_output=None if text is None else {"text": text},
            )
        )

    async def show_plan(self, steps: tuple[PlanItem, ...]) -> None:
        await self._update(update_plan(plan_entry(step.content, status=step.status) for step in steps))

    async def show_usage(self, used: int, size: int, usage: TokenUsage) -> None:
        cost = None if usage.cost is None else Cost(amount=usage.cost, currency="USD")
        await self._update(UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost))

    async def show_title(self, title: str) -> None:
        await self._update(SessionInfoUpdate(session_update="session_info_update", title=title))

    async def ask_permission(self, displayed: DisplayedCall) -> PermissionChoice:
        call = ToolCallUpdate(
            tool_call_id=displayed.id,
            title=displayed.title,
            kind=displayed.kind,
            status="pending",
            content=_content(displayed),
            locations=_locations(displayed),
            raw_input=displayed.arguments,
        )
        answer = await self._client.request_permission(
            session_id=self._session_id, tool_call=self._redact(call), options=_OPTIONS
        )
        if answer.outcome.outcome != "selected":
            return "cancelled"
        match answer.outcome.option_id:
            case "once":
                return "once"
            case "always":
                return "always"
        return "no"


def _content(displayed: DisplayedCall) -> Any:
    if displayed.diff is not None:
        return [tool_diff_content(displayed.diff.path, displayed.diff.new, displayed.diff.old)]
    if displayed.kind == "execute" and isinstance(displayed.arguments, dict):
        return [tool_content(text_block(str(displayed.arguments.get("command", ""))))]
    return None


def _locations(displayed: DisplayedCall) -> Any:
    return [ToolCallLocation(path=displayed.path, line=displayed.line)] if displayed.path else None
