"""Replays a loaded session to the client: all messages and tool calls, compacted or not."""

from pydantic_ai.messages import (
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from holdfast.agents.builtin.conversation import prompt_text
from holdfast.agents.builtin.loop import BuiltinSession
from holdfast.agents.builtin.screen import CallStatus, DisplayedCall, Screen
from holdfast.agents.builtin.tools import ToolKind

_KINDS: dict[str, ToolKind] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "glob": "search",
    "grep": "search",
    "bash": "execute",
    "plan": "think",
}


async def replay(session: BuiltinSession, screen: Screen) -> None:
    open_calls: dict[str, str] = {}
    for number, message in enumerate(session.conversation.messages):
        for part in message.parts:
            match part:
                case UserPromptPart():
                    await screen.show_user_text(prompt_text(part))
                case TextPart(content=text) if text:
                    await screen.show_text(text, f"replay-{number}")
                case ThinkingPart(content=thought) if thought:
                    await screen.show_thought(thought, f"replay-{number}")
                case ToolCallPart():
                    open_calls[part.tool_call_id] = session.unique_call_id(part.tool_call_id)
                    await screen.show_call(_displayed_call(part, open_calls[part.tool_call_id]), "pending")
                case ToolReturnPart() if part.tool_call_id in open_calls:
                    status: CallStatus = "completed" if part.outcome == "success" else "failed"
                    await screen.show_progress(open_calls.pop(part.tool_call_id), status, str(part.content))


def reserve_call_ids(session: BuiltinSession) -> None:
    """Reserve the ids of earlier calls when the session is loaded without a replay."""
    for message in session.conversation.messages:
        if isinstance(message, ModelResponse):
            for call in message.tool_calls:
                session.unique_call_id(call.tool_call_id)


def _displayed_call(call: ToolCallPart, screen_id: str) -> DisplayedCall:
    arguments = call.args if isinstance(call.args, dict) else call.args_as_json_str()
    return DisplayedCall(screen_id, call.tool_name, _KINDS.get(call.tool_name, "other"), arguments)
