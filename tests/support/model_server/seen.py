"""A request as the model sees it, whichever vendor's format it came in."""

import re
from typing import Any

import msgspec

# Calls beside the conversation: titles, topics, suggestions, classifiers, quota probes.
_SIDE = re.compile(
    r"generate a ((very )?short |brief |concise )?title|title generator|you are naming a coding session"
    r"|\btitle for (this|the) (conversation|session|chat)"
    r"|new conversation topic|write a \d+-\d+ word title|who should speak next|next_speaker|suggest(ed)? (next|follow)"
    r"|classif(y|ier)|command prefix|bash command.{0,40}file ?paths",
    re.IGNORECASE | re.DOTALL,
)

# The same, by agents that leave their tools on offer meanwhile, so that the vendor's cache still fits.
_SIDE_WITH_TOOLS = re.compile(
    r"reply with only the suggestion|memory extraction subagent|security classifier", re.IGNORECASE
)

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


class Call(msgspec.Struct, frozen=True):
    id: str
    name: str
    input: Any


class Result(msgspec.Struct, frozen=True):
    id: str
    text: str


class Said(msgspec.Struct, frozen=True):
    role: str  # user, assistant, tool
    text: str = ""
    calls: list[Call] = []
    results: list[Result] = []


class Seen(msgspec.Struct, frozen=True):
    vendor: str
    model: str
    streamed: bool
    system: str
    messages: list[Said]
    tools: list[str]
    headers: dict[str, str]
    body: Any
    side: bool = False

    @property
    def users(self) -> list[str]:
        """What the user said, without what the agent adds in the user's name."""
        said = [_REMINDER.sub("", said.text).strip() for said in self.messages if said.role == "user"]
        return [text for text in said if text]

    @property
    def last_user(self) -> str:
        return self.users[-1] if self.users else ""

    @property
    def assistants(self) -> list[str]:
        return [said.text for said in self.messages if said.role == "assistant" and said.text]

    @property
    def calls(self) -> list[Call]:
        return [call for said in self.messages for call in said.calls]

    @property
    def results(self) -> list[Result]:
        return [result for said in self.messages for result in said.results]

    @property
    def newest_results(self) -> list[str]:
        """Those that came after the last words or calls of the model."""
        newest: list[str] = []
        for said in reversed(self.messages):
            if said.role == "assistant":
                break
            newest[:0] = [result.text for result in said.results]
        return newest

    @property
    def all_text(self) -> str:
        parts = [self.system]
        for said in self.messages:
            parts += [said.text, *(f"{call.name} {call.input}" for call in said.calls), *(r.text for r in said.results)]
        return "\n".join(parts)


def is_side(system: str, last_user: str, tools: list[str], body: Any) -> bool:
    """It is asked for a title, a class, a guess — or for one token."""
    if _SIDE_WITH_TOOLS.search(system) or _SIDE_WITH_TOOLS.search(last_user):
        return True
    if tools:
        return False
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or body.get("max_output_tokens")
    return limit == 1 or bool(_SIDE.search(system) or _SIDE.search(last_user))


def flat(content: Any) -> str:
    """The text of a string, a list of blocks, or nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(flat(block) for block in content if flat(block))
    if isinstance(content, dict):
        return flat(content.get("text") or content.get("content"))
    return str(content)


def parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments
