"""The messages of the Agent Client Protocol that a client sends and reads.

Only the fields that we use; others are ignored. The tests hold every message against the models of the official SDK.
The protocol asks for lenient readers: see `read_message`.
"""

from collections.abc import Iterator
from contextlib import suppress
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import structs

PROTOCOL_VERSION = 1

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class AcpMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded with the protocol's names, without fields that have their default."""

    is_strict: ClassVar[bool] = False  # malformed optional fields are errors, too


M = TypeVar("M", bound=AcpMessage)


def read_message(kind: type[M], value: Any) -> M:
    """Read a message. Raises `msgspec.ValidationError` when a required field is missing or has the wrong type.

    A malformed optional field counts as missing, and malformed items of an optional list are dropped. A list that is
    none is an error.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        if kind.is_strict or not isinstance(value, dict):
            raise
        return msgspec.convert(_without_malformed(kind, value), kind)


def to_wire(message: AcpMessage) -> Any:
    return msgspec.to_builtins(message)


def _without_malformed(kind: type[AcpMessage], value: dict[str, Any]) -> dict[str, Any]:
    kept = dict(value)
    for field in structs.fields(kind):
        name = field.encode_name
        if name not in value:
            continue
        if field.required:
            if _is_message(field.type, value[name]):
                kept[name] = _without_malformed(field.type, value[name])
            continue
        if _is_list(field.type) and not isinstance(value[name], list | None):
            continue
        try:
            kept[name] = _valid_part(field.type, value[name])
        except msgspec.ValidationError:
            del kept[name]
    return kept


def _valid_part(kind: Any, value: Any) -> Any:
    """Return the valid part of an optional field, as it was sent."""
    kind = _without_none(kind)
    if _is_list(kind) and isinstance(value, list):
        return list(_valid_items(get_args(kind)[0], value))
    if _is_message(kind, value):
        value = _without_malformed(kind, value)
    msgspec.convert(value, kind)
    return value


def _valid_items(kind: Any, items: list[Any]) -> Iterator[Any]:
    for item in items:
        with suppress(msgspec.ValidationError):
            yield _valid_part(kind, item)


def _without_none(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is UnionType else kind


def _is_list(kind: Any) -> bool:
    return get_origin(_without_none(kind)) in (tuple, list)


def _is_message(kind: Any, value: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, AcpMessage) and isinstance(value, dict)


# What a client sends


class FileAccess(AcpMessage, frozen=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientAbilities(AcpMessage, frozen=True):
    fs: FileAccess
    terminal: bool = False


class Program(AcpMessage, frozen=True):
    """The name and version of a client or an agent."""

    name: str
    version: str
    title: str | None = None


class Initialize(AcpMessage, frozen=True):
    protocol_version: int
    client_capabilities: ClientAbilities
    client_info: Program


class Authenticate(AcpMessage, frozen=True):
    method_id: str


class EnvironmentVariable(AcpMessage, frozen=True):
    name: str
    value: str


class StdioMcpServer(AcpMessage, frozen=True):
    """An MCP server that the agent starts."""

    name: str
    command: str
    args: tuple[str, ...]
    env: tuple[EnvironmentVariable, ...]


class NewSession(AcpMessage, frozen=True):
    cwd: str
    mcp_servers: tuple[StdioMcpServer, ...]


class ReopenSession(AcpMessage, frozen=True):
    """The parameters of `session/load` and `session/resume`."""

    session_id: str
    cwd: str
    mcp_servers: tuple[StdioMcpServer, ...]


class ForkSession(AcpMessage, frozen=True):
    session_id: str
    cwd: str
    mcp_servers: tuple[StdioMcpServer, ...]
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class SessionTarget(AcpMessage, frozen=True):
    """The parameters of `session/cancel` and `session/close`."""

    session_id: str


class ListSessions(AcpMessage, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class TextContent(AcpMessage, frozen=True, tag_field="type", tag="text"):
    text: str


class ImageContent(AcpMessage, frozen=True, tag_field="type", tag="image"):
    """`data` is base64."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(AcpMessage, frozen=True, tag_field="type", tag="audio"):
    data: str
    mime_type: str


class TextResource(AcpMessage, frozen=True):
    uri: str
    text: str
    mime_type: str | None = None


class EmbeddedResource(AcpMessage, frozen=True, tag_field="type", tag="resource"):
    resource: TextResource


class ResourceLink(AcpMessage, frozen=True, tag_field="type", tag="resource_link"):
    name: str
    uri: str
    mime_type: str | None = None
    size: int | None = None


ContentBlock = TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink


class Prompt(AcpMessage, frozen=True):
    session_id: str
    prompt: tuple[ContentBlock, ...]


class SetMode(AcpMessage, frozen=True):
    session_id: str
    mode_id: str


class SetModel(AcpMessage, frozen=True):
    session_id: str
    model_id: str


class SetOption(AcpMessage, frozen=True):
    """`type` is "boolean" when the value is."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


# What an agent answers


class SessionAbilities(AcpMessage, frozen=True):
    """An agent has an ability when its field is present; today it is an empty object."""

    list: dict[str, Any] | None = None
    fork: dict[str, Any] | None = None
    resume: dict[str, Any] | None = None
    close: dict[str, Any] | None = None


class PromptAbilities(AcpMessage, frozen=True):
    """What a prompt may have beside text and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class AgentAbilities(AcpMessage, frozen=True):
    load_session: bool = False
    prompt_capabilities: PromptAbilities = PromptAbilities()
    session_capabilities: SessionAbilities = SessionAbilities()
    meta: dict[str, Any] = msgspec.field(name="_meta", default={})


class LoginMethod(AcpMessage, frozen=True):
    id: str


class Initialized(AcpMessage, frozen=True):
    protocol_version: int
    agent_capabilities: AgentAbilities = AgentAbilities()
    auth_methods: tuple[LoginMethod, ...] = ()
    agent_info: Program | None = None


class Mode(AcpMessage, frozen=True):
    id: str


class SessionModes(AcpMessage, frozen=True):
    available_modes: tuple[Mode, ...] = ()


class OptionChoice(AcpMessage, frozen=True):
    """A value that an option can have, or a named group of them."""

    name: str
    value: str | None = None
    options: tuple["OptionChoice", ...] = ()


class SessionOption(AcpMessage, frozen=True):
    id: str
    type: str
    category: str | None = None
    current_value: str | bool | None = None
    options: tuple[OptionChoice, ...] = ()


class OfferedModel(AcpMessage, frozen=True):
    model_id: str
    name: str = ""


class SessionModels(AcpMessage, frozen=True):
    """Models that are set with `session/set_model`; other agents offer them as an option."""

    available_models: tuple[OfferedModel, ...] = ()
    current_model_id: str | None = None


class SessionSettings(AcpMessage, frozen=True):
    """What an agent tells about a session that it opened again."""

    modes: SessionModes | None = None
    models: SessionModels | None = None
    config_options: tuple[SessionOption, ...] = ()


class SessionCreated(SessionSettings, frozen=True, kw_only=True):
    session_id: str


class ListedSession(AcpMessage, frozen=True):
    session_id: str


class SessionList(AcpMessage, frozen=True):
    sessions: tuple[ListedSession, ...] = ()
    next_cursor: str | None = None


class TurnUsage(AcpMessage, frozen=True):
    input_tokens: int
    output_tokens: int


class PromptAnswer(AcpMessage, frozen=True):
    stop_reason: StopReason
    usage: TurnUsage | None = None


# What an agent requests


class CallToPermit(AcpMessage, frozen=True):
    """A tool call in a permission request: the fields of `tool_call_update`."""

    tool_call_id: str
    kind: str | None = None
    status: str | None = None
    title: str | None = None
    content: list[dict[str, Any]] | None = None
    locations: list[dict[str, Any]] | None = None
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class OfferedAnswer(AcpMessage, frozen=True):
    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class RequestPermission(AcpMessage, frozen=True):
    session_id: str
    tool_call: CallToPermit
    options: tuple[OfferedAnswer, ...]


class ReadTextFile(AcpMessage, frozen=True):
    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class WriteTextFile(AcpMessage, frozen=True):
    session_id: str
    path: str
    content: str


class CreateTerminal(AcpMessage, frozen=True):
    """A command runs exactly as it was requested, or not at all."""

    is_strict: ClassVar[bool] = True

    session_id: str
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[EnvironmentVariable, ...] | None = None
    cwd: str | None = None
    output_byte_limit: int | None = None


class TerminalTarget(AcpMessage, frozen=True):
    """The parameters of every method for an existing terminal."""

    session_id: str
    terminal_id: str
