"""The types of a playbook. docs/playbook.md explains them; schema.json is generated from this file.

`Playbook` is the whole file; a `Step` is a mapping with one key, the name of the step.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.agents.acp.messages import StopReason
from holdfast.agents.jsonrpc.connection import INTERNAL_ERROR_CODE

Seconds = Annotated[float, Meta(ge=0, le=3600)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Exit = Annotated[int, Meta(ge=0, le=255)]
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolStatus = Literal["pending", "in_progress", "completed", "failed"]
PermissionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
Via = Literal["direct", "client"]


class PlaybookPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A mapping of the format without unknown keys."""


class OneOf(PlaybookPart, frozen=True):
    """A mapping with exactly one of its keys."""

    @property
    def key(self) -> str:
        (key,) = self.keys()
        return key

    def keys(self) -> list[str]:
        return [name for name in self.__struct_fields__ if getattr(self, name) is not UNSET]


# --- what the agent is -------------------------------------------------------------------------------

ReplyBehavior = Literal["works", "absent", "refuses", "hangs", "dies"]
ReopenBehavior = Literal["works", "absent", "refuses", "hangs", "dies", "gone", "starts_new"]


class Reply(PlaybookPart, frozen=True):
    """How a method answers."""

    how: ReplyBehavior = "works"
    advertised: bool | None = None
    error: int = INTERNAL_ERROR_CODE
    message: str = "the playbook refuses"
    after: Seconds = 0
    once: bool | str = False


class Reopen(PlaybookPart, frozen=True):
    """How `session/load` or `session/resume` answers."""

    how: ReopenBehavior = "works"
    advertised: bool | None = None
    error: int = INTERNAL_ERROR_CODE
    message: str = "the playbook refuses"
    after: Seconds = 0
    once: bool | str = False
    replay: bool | None = None
    tool_calls: Literal["same", "new_ids", "new_titles"] = "same"
    announces: bool = False
    replay_as: str | None = None
    other_cwd: Literal["works", "refuses", "hangs"] = "works"


class Auth(PlaybookPart, frozen=True):
    id: str = "login"
    name: str = "Log in"
    required: bool = True
    passes: bool = True


class PlaybookChoice(PlaybookPart, frozen=True):
    """A mode, a model, or one value of a config option."""

    id: str
    name: str | None = None
    description: str | None = None


class PlaybookChoices(PlaybookPart, frozen=True):
    current: str
    available: Annotated[list[PlaybookChoice | str], Meta(min_length=1)]


class ConfigOption(PlaybookPart, frozen=True):
    """With `available` a choice; without it a switch."""

    id: str
    current: str | bool
    name: str | None = None
    category: Literal["mode", "model", "model_config", "thought_level"] | None = None
    description: str | None = None
    available: list[PlaybookChoice | str] | None = None


Connecting = Literal["on_demand", "at_start"]


class Connect(PlaybookPart, frozen=True):
    """When the agent starts the MCP servers it is given; `wait_for` is a path that must exist first."""

    how: Connecting = "at_start"
    wait_for: str | None = None


class PlaybookAgent(PlaybookPart, frozen=True):
    name: str = "playbook"
    title: str | None = None
    version: str = "1"
    protocol: int = 1
    initialize: Reply | ReplyBehavior = "works"
    new: Reply | ReplyBehavior = "works"
    load: Reopen | ReopenBehavior = "works"
    resume: Reopen | ReopenBehavior = "works"
    list: Reply | ReplyBehavior = "works"
    fork: Reply | ReplyBehavior = "works"
    close: Reply | ReplyBehavior = "works"
    accepts: "list_of[Literal['image', 'audio', 'embedded_context']]" = []
    mcp: "list_of[Literal['http', 'sse']]" = []
    connects: Connect | Connecting = "on_demand"
    auth: Auth | None = None
    modes: PlaybookChoices | None = None
    models: PlaybookChoices | None = None
    models_by: Literal["option", "set_model"] = "option"
    config: "list_of[ConfigOption]" = []
    message_ids: bool = False
    forks: Literal["at_message", "whole"] = "at_message"
    wrapper: bool = False
    ignores: "list_of[Literal['cancel', 'eof', 'sigterm']]" = []


list_of = list  # `list` is a field of Agent


class Sessions(PlaybookPart, frozen=True):
    save: Literal["step", "turn", "never"] = "step"
    unknown: Literal["new", -32002, -32602, -32603] = -32002
    interrupted: Literal["again", "next", "continue"] = "again"
    forgets_killed_prompt: bool = False


# --- what it does: messages ------------------------------------------------------------------------------


class Spoken(PlaybookPart, frozen=True):
    text: str
    chunk: Count | None = None
    delay: Seconds = 0


class PlanEntry(PlaybookPart, frozen=True):
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class Location(PlaybookPart, frozen=True):
    path: str
    line: int | None = None


class Diff(PlaybookPart, frozen=True):
    path: str
    new: str
    old: str | None = None


class Content(OneOf, frozen=True):
    text: str | UnsetType = UNSET
    diff: Diff | UnsetType = UNSET
    terminal: str | UnsetType = UNSET


class ToolStart(PlaybookPart, frozen=True):
    title: str
    id: str | None = None
    kind: ToolKind = "other"
    status: ToolStatus = "in_progress"
    locations: list[Location | str] = []
    content: list[Content | str] = []
    input: Any = UNSET
    output: Any = UNSET


class ToolChange(PlaybookPart, frozen=True):
    id: str | None = None
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    locations: list[Location | str] = []
    content: list[Content | str] = []
    input: Any = UNSET
    output: Any = UNSET


class Usage(PlaybookPart, frozen=True):
    used: int
    size: int
    cost: float | None = None
    currency: str = "USD"


class PlaybookCommand(PlaybookPart, frozen=True):
    name: str
    description: str
    hint: str | None = None


class Memory(PlaybookPart, frozen=True):
    prefix: str = "I remember: "


# --- what it does: actions -----------------------------------------------------------------------------


class Write(PlaybookPart, frozen=True):
    path: str
    text: str
    via: Via = "direct"
    shown: bool = True


class Replace(PlaybookPart, frozen=True):
    path: str
    old: str
    new: str
    via: Via = "direct"
    shown: bool = True


class Delete(PlaybookPart, frozen=True):
    path: str
    shown: bool = True


class Read(PlaybookPart, frozen=True):
    path: str
    line: int | None = None
    limit: int | None = None
    via: Via = "direct"
    shown: bool = True


class Run(PlaybookPart, frozen=True):
    command: str
    via: Via = "direct"
    background: bool = False
    apart: Literal["same", "group", "session", "daemon"] = "group"
    env: dict[str, str] = {}
    clear_env: bool = False
    shown: bool = True


class PermissionOption(PlaybookPart, frozen=True):
    id: str
    kind: PermissionKind
    name: str | None = None


class PlaybookPermission(PlaybookPart, frozen=True):
    title: str
    id: str | None = None
    kind: ToolKind = "other"
    options: list[PermissionOption | PermissionKind] = []
    locations: list[Location | str] = []
    content: list[Content | str] = []
    input: Any = UNSET
    allowed: "list[Step]" = []
    rejected: "list[Step]" = []
    cancelled: "list[Step] | None" = None


class McpCall(PlaybookPart, frozen=True):
    tool: str
    arguments: dict[str, Any] = {}
    server: str | None = None
    expect: Literal["result", "error", "any"] = "result"
    tries: Annotated[int, Meta(ge=1, le=100)] = 1
    timeout: Seconds = 600  # only a hanging step takes this long, even on a busy machine
    say: bool = False
    shown: bool = True


class McpTools(PlaybookPart, frozen=True):
    server: str | None = None
    timeout: Seconds = 600  # only a hanging step takes this long, even on a busy machine


class WaitFor(PlaybookPart, frozen=True):
    path: str
    gone: bool = False
    timeout: Seconds = 600  # only a hanging step takes this long, even on a busy machine


class Repeat(PlaybookPart, frozen=True):
    times: Count
    steps: "list[Step]"


# --- what it does: faults ------------------------------------------------------------------------------


class Crash(PlaybookPart, frozen=True):
    how: Literal["kill", "exit", "abort", "segfault"] = "kill"
    code: Exit = 1
    once: bool | str = False


class Hang(PlaybookPart, frozen=True):
    how: Literal["turn", "deaf", "agent", "stubborn"] = "turn"
    seconds: Seconds = 600
    once: bool | str = False


class Junk(PlaybookPart, frozen=True):
    what: Literal["text", "half", "utf8", "unknown_id", "huge"] = "text"
    text: str = "this is not JSON"
    size: Annotated[int, Meta(ge=1, le=200_000_000)] = 1_000_000


class Flood(PlaybookPart, frozen=True):
    updates: Count
    text: str = "."


class Noise(PlaybookPart, frozen=True):
    text: str
    times: Count = 1


class TurnUsage(PlaybookPart, frozen=True):
    input: int = 0
    output: int = 0


class End(PlaybookPart, frozen=True):
    reason: StopReason = "end_turn"
    usage: TurnUsage | None = None


class Failure(PlaybookPart, frozen=True):
    code: int = INTERNAL_ERROR_CODE
    message: str = "the playbook fails"
    data: Any = UNSET


class Step(OneOf, frozen=True):
    """One step of a turn."""

    say: str | Spoken | UnsetType = UNSET
    think: str | Spoken | UnsetType = UNSET
    plan: list[PlanEntry | str] | UnsetType = UNSET
    tool: ToolStart | str | UnsetType = UNSET
    tool_update: ToolChange | UnsetType = UNSET
    tool_done: ToolChange | UnsetType = UNSET
    tool_failed: ToolChange | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    commands: list[PlaybookCommand] | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    config: dict[str, str | bool] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    echo_memory: Memory | bool | UnsetType = UNSET
    write: Write | UnsetType = UNSET
    append: Write | UnsetType = UNSET
    replace: Replace | UnsetType = UNSET
    delete: Delete | str | UnsetType = UNSET
    read: Read | str | UnsetType = UNSET
    run: Run | str | UnsetType = UNSET
    permission: PlaybookPermission | UnsetType = UNSET
    mcp: McpCall | UnsetType = UNSET
    mcp_tools: McpTools | UnsetType = UNSET
    sleep: Seconds | UnsetType = UNSET
    wait_for: WaitFor | str | UnsetType = UNSET
    repeat: Repeat | UnsetType = UNSET
    crash: Crash | Literal["kill", "exit", "abort", "segfault"] | UnsetType = UNSET
    hang: Hang | Literal["turn", "deaf", "agent", "stubborn"] | UnsetType = UNSET
    junk: Junk | Literal["text", "half", "utf8", "unknown_id", "huge"] | UnsetType = UNSET
    flood: Flood | Count | UnsetType = UNSET
    stderr: Noise | str | UnsetType = UNSET
    send: dict[str, Any] | UnsetType = UNSET
    answer: End | StopReason | UnsetType = UNSET
    end: End | StopReason | UnsetType = UNSET
    error: Failure | UnsetType = UNSET

    AT_START: ClassVar = frozenset({"sleep", "stderr", "junk", "crash", "hang", "wait_for", "run", "send"})


class PlaybookTurn(PlaybookPart, frozen=True):
    steps: list[Step]
    when: str | None = None
    resume_context: bool | None = None
    once: bool = False
    on_cancel: Literal["end", "ignore"] | list[Step] = "end"

    @property
    def is_chosen(self) -> bool:
        """True if the turn is chosen by its prompt; the others are played in order."""
        return self.when is not None or self.resume_context is not None


class Playbook(PlaybookPart, frozen=True):
    turns: list[PlaybookTurn | list[Step]] = []
    otherwise: list[Step] | None = None
    playbook: Literal[1] = 1
    agent: PlaybookAgent = PlaybookAgent()
    sessions: Sessions = Sessions()
    start: list[Step] = []


def schema() -> dict[str, Any]:
    """The JSON schema of a playbook, for editors."""
    found = msgspec.json.schema(Playbook)
    for name in ("Step", "Content"):
        found["$defs"][name] |= {"minProperties": 1, "maxProperties": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Playbook of the Holdfast playbook agent",
        **found,
    }
