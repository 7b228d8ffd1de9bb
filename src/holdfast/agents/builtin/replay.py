"""A loaded session, told again to the client: everything that was said and done, compacted or not."""

from pydantic_ai.messages import (
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from holdfast.agents.builtin.conversation import text_of
from holdfast.agents.builtin.loop import Session
from holdfast.agents.builtin.screen import Screen, Shown, Status
from holdfast.agents.builtin.tools import Kind

_KINDS: dict[str, Kind] = {
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "glob": "search",
    "grep": "search",
    "bash": "execute",
    "plan": "think",
}


async def replay(session: Session, screen: Screen) -> None:
    open_calls: dict[str, str] = {}
    for number, message in enumerate(session.conversation.messages):
        for part in message.parts:
            match part:
                case UserPromptPart():
                    await screen.user(text_of(part))
                case TextPart(content=text) if text:
                    await screen.text(text, f"replay-{number}")
                case ThinkingPart(content=thought) if thought:
                    await screen.thought(thought, f"replay-{number}")
                case ToolCallPart():
                    open_calls[part.tool_call_id] = session.screen_id(part.tool_call_id)
                    await screen.call(_shown(part, open_calls[part.tool_call_id]), "pending")
                case ToolReturnPart() if part.tool_call_id in open_calls:
                    status: Status = "completed" if part.outcome == "success" else "failed"
                    await screen.progress(open_calls.pop(part.tool_call_id), status, str(part.content))


def remember_ids(session: Session) -> None:
    """Without a replay the ids of earlier calls are taken all the same."""
    for message in session.conversation.messages:
        if isinstance(message, ModelResponse):
            for call in message.tool_calls:
                session.screen_id(call.tool_call_id)


def _shown(call: ToolCallPart, on_screen: str) -> Shown:
    arguments = call.args if isinstance(call.args, dict) else call.args_as_json_str()
    return Shown(on_screen, call.tool_name, _KINDS.get(call.tool_name, "other"), arguments)
