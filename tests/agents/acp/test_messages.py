"""Facts of our messages: the official SDK reads what we send, and we read what it sends."""

from typing import Any

import msgspec
import pytest
from acp import schema
from msgspec import structs
from pydantic import BaseModel

from holdfast.agents.acp.messages import (
    AcpMessage,
    AgentAbilities,
    AudioContent,
    Authenticate,
    CallToPermit,
    ClientAbilities,
    CreateTerminal,
    EmbeddedResource,
    EnvironmentVariable,
    FileAccess,
    ImageContent,
    Initialize,
    Initialized,
    ListedSession,
    ListSessions,
    LoginMethod,
    Mode,
    NewSession,
    OfferedAnswer,
    OptionChoice,
    Program,
    Prompt,
    PromptAnswer,
    ReadTextFile,
    ReopenSession,
    RequestPermission,
    ResourceLink,
    SessionAbilities,
    SessionCreated,
    SessionList,
    SessionModes,
    SessionOption,
    SessionSettings,
    SessionTarget,
    SetMode,
    SetOption,
    StdioMcpServer,
    StopReason,
    TerminalTarget,
    TextContent,
    TextResource,
    TurnUsage,
    WriteTextFile,
    read_message,
    to_wire,
)

SERVER = StdioMcpServer(
    name="holdfast", command="holdfast", args=("mcp",), env=(EnvironmentVariable(name="A", value="b"),)
)

SENT: list[tuple[AcpMessage, type[BaseModel]]] = [
    (
        Initialize(
            protocol_version=1,
            client_capabilities=ClientAbilities(
                fs=FileAccess(read_text_file=True, write_text_file=True), terminal=True
            ),
            client_info=Program(name="holdfast", title="Holdfast", version="1"),
        ),
        schema.InitializeRequest,
    ),
    (Authenticate(method_id="key"), schema.AuthenticateRequest),
    (NewSession(cwd="/w", mcp_servers=(SERVER,)), schema.NewSessionRequest),
    (NewSession(cwd="/w", mcp_servers=()), schema.NewSessionRequest),
    (ReopenSession(session_id="s", cwd="/w", mcp_servers=(SERVER,)), schema.LoadSessionRequest),
    (ReopenSession(session_id="s", cwd="/w", mcp_servers=(SERVER,)), schema.ResumeSessionRequest),
    (ReopenSession(session_id="s", cwd="/w", mcp_servers=(SERVER,)), schema.ForkSessionRequest),
    (ListSessions(cwd="/w"), schema.ListSessionsRequest),
    (ListSessions(cwd="/w", cursor="2"), schema.ListSessionsRequest),
    (Prompt(session_id="s", prompt=(TextContent(text="go"),)), schema.PromptRequest),
    (
        Prompt(
            session_id="s",
            prompt=(
                TextContent(text="go"),
                ImageContent(data="aGk=", mime_type="image/png", uri="file:///a.png"),
                AudioContent(data="aGk=", mime_type="audio/wav"),
                EmbeddedResource(resource=TextResource(uri="file:///a.md", text="hi", mime_type="text/markdown")),
                ResourceLink(name="a.pdf", uri="file:///a.pdf", mime_type="application/pdf", size=2),
            ),
        ),
        schema.PromptRequest,
    ),
    (SetMode(session_id="s", mode_id="plan"), schema.SetSessionModeRequest),
    (SetOption(session_id="s", config_id="model", value="opus"), schema.SetSessionConfigOptionSelectRequest),
    (
        SetOption(session_id="s", config_id="fast", value=True, type="boolean"),
        schema.SetSessionConfigOptionBooleanRequest,
    ),
    (SessionTarget(session_id="s"), schema.CancelNotification),
    (SessionTarget(session_id="s"), schema.CloseSessionRequest),
]


@pytest.mark.parametrize(("message", "model"), SENT, ids=lambda value: getattr(value, "__name__", None))
def test_sdk_reads_every_field_that_we_send(message: AcpMessage, model: type[BaseModel]) -> None:
    sent = msgspec.json.decode(msgspec.json.encode(to_wire(message)))
    read = model.model_validate(sent)
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True) == sent


MODES = schema.SessionModeState(
    current_mode_id="a", available_modes=[schema.SessionMode(id=mode, name=mode) for mode in "ab"]
)
MODEL_OPTION = schema.SessionConfigOptionSelect(
    id="model",
    name="Model",
    type="select",
    category="model",
    current_value="x",
    options=[
        schema.SessionConfigSelectGroup(
            group="g", name="G", options=[schema.SessionConfigSelectOption(value="x", name="X")]
        )
    ],
)
FLAG = schema.SessionConfigOptionBoolean(id="fast", name="Fast", type="boolean", current_value=True)
OPTIONS: list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean] = [MODEL_OPTION, FLAG]

READ_MODES = SessionModes(available_modes=(Mode(id="a"), Mode(id="b")))
READ_OPTIONS = (
    SessionOption(
        id="model",
        type="select",
        category="model",
        current_value="x",
        options=(OptionChoice(name="G", options=(OptionChoice(name="X", value="x"),)),),
    ),
    SessionOption(id="fast", type="boolean", current_value=True),
)

RECEIVED: list[tuple[BaseModel, AcpMessage]] = [
    (
        schema.InitializeResponse(
            protocol_version=1,
            agent_info=schema.Implementation(name="ada", version="2"),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(), resume=schema.SessionResumeCapabilities()
                ),
                field_meta={"holdfast": {"connects": "on_demand"}},
            ),
            auth_methods=[schema.AuthMethodAgent(id="key", name="Key")],
        ),
        Initialized(
            protocol_version=1,
            agent_info=Program(name="ada", version="2"),
            agent_capabilities=AgentAbilities(
                load_session=True,
                session_capabilities=SessionAbilities(list={}, resume={}),
                meta={"holdfast": {"connects": "on_demand"}},
            ),
            auth_methods=(LoginMethod(id="key"),),
        ),
    ),
    (schema.InitializeResponse(protocol_version=1), Initialized(protocol_version=1)),
    (
        schema.NewSessionResponse(session_id="s", modes=MODES, config_options=OPTIONS),
        SessionCreated(session_id="s", modes=READ_MODES, config_options=READ_OPTIONS),
    ),
    (
        schema.ForkSessionResponse(session_id="s", modes=MODES),
        SessionCreated(session_id="s", modes=READ_MODES),
    ),
    (
        schema.LoadSessionResponse(modes=MODES, config_options=OPTIONS),
        SessionSettings(modes=READ_MODES, config_options=READ_OPTIONS),
    ),
    (schema.ResumeSessionResponse(), SessionSettings()),
    (
        schema.ListSessionsResponse(sessions=[schema.SessionInfo(session_id="s", cwd="/w")], next_cursor="2"),
        SessionList(sessions=(ListedSession(session_id="s"),), next_cursor="2"),
    ),
    (
        schema.PromptResponse(
            stop_reason="max_tokens", usage=schema.Usage(total_tokens=12, input_tokens=5, output_tokens=7)
        ),
        PromptAnswer(stop_reason="max_tokens", usage=TurnUsage(input_tokens=5, output_tokens=7)),
    ),
    (
        schema.RequestPermissionRequest(
            session_id="s",
            tool_call=schema.ToolCallUpdate(
                tool_call_id="c",
                kind="execute",
                title="ls",
                raw_input={"command": "ls"},
                content=[
                    schema.ContentToolCallContent(
                        type="content", content=schema.TextContentBlock(type="text", text="x")
                    )
                ],
                locations=[schema.ToolCallLocation(path="/w/a")],
                field_meta={"toolName": "Bash"},
            ),
            options=[schema.PermissionOption(option_id="o", name="Yes", kind="allow_once")],
        ),
        RequestPermission(
            session_id="s",
            tool_call=CallToPermit(
                tool_call_id="c",
                kind="execute",
                title="ls",
                raw_input={"command": "ls"},
                content=[{"type": "content", "content": {"type": "text", "text": "x"}}],
                locations=[{"path": "/w/a"}],
                meta={"toolName": "Bash"},
            ),
            options=(OfferedAnswer(option_id="o", name="Yes", kind="allow_once"),),
        ),
    ),
    (
        schema.ReadTextFileRequest(session_id="s", path="a", line=2, limit=1),
        ReadTextFile(session_id="s", path="a", line=2, limit=1),
    ),
    (
        schema.WriteTextFileRequest(session_id="s", path="a", content="x"),
        WriteTextFile(session_id="s", path="a", content="x"),
    ),
    (
        schema.CreateTerminalRequest(
            session_id="s",
            command="ls",
            args=["-l"],
            env=[schema.EnvVariable(name="A", value="b")],
            cwd="/w",
            output_byte_limit=9,
        ),
        CreateTerminal(
            session_id="s",
            command="ls",
            args=("-l",),
            env=(EnvironmentVariable(name="A", value="b"),),
            cwd="/w",
            output_byte_limit=9,
        ),
    ),
    (
        schema.TerminalOutputRequest(session_id="s", terminal_id="t"),
        TerminalTarget(session_id="s", terminal_id="t"),
    ),
    (schema.KillTerminalRequest(session_id="s", terminal_id="t"), TerminalTarget(session_id="s", terminal_id="t")),
    (schema.ReleaseTerminalRequest(session_id="s", terminal_id="t"), TerminalTarget(session_id="s", terminal_id="t")),
    (
        schema.WaitForTerminalExitRequest(session_id="s", terminal_id="t"),
        TerminalTarget(session_id="s", terminal_id="t"),
    ),
]


@pytest.mark.parametrize(("model", "expected"), RECEIVED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("exclude_none", [True, False])
def test_what_the_sdk_sends_is_read(model: BaseModel, expected: AcpMessage, exclude_none: bool) -> None:
    sent = model.model_dump(mode="json", by_alias=True, exclude_none=exclude_none)
    read = read_message(type(expected), {**sent, "vendor": [1]})
    assert without_nulls(read) == without_nulls(expected)


def without_nulls(value: Any) -> Any:
    """Also in the parts that are passed on as they are."""
    if isinstance(value, msgspec.Struct):
        value = structs.asdict(value)
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list | tuple) else value


def test_stop_reasons_and_permission_kinds_are_those_of_the_sdk() -> None:
    assert schema.StopReason == StopReason
    assert OfferedAnswer.__annotations__["kind"] == schema.PermissionOptionKind


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (SessionSettings, {"modes": 5, "configOptions": None}, SessionSettings()),
        (
            SessionSettings,
            {"modes": {"availableModes": [{"id": "a"}, {"name": "b"}, 3]}},
            SessionSettings(modes=SessionModes(available_modes=(Mode(id="a"),))),
        ),
        (
            Initialized,
            {"protocolVersion": 1, "agentCapabilities": {"loadSession": "x", "sessionCapabilities": {"list": 1}}},
            Initialized(protocol_version=1),
        ),
        (PromptAnswer, {"stopReason": "refusal", "usage": {"inputTokens": 1}}, PromptAnswer(stop_reason="refusal")),
        (
            CallToPermit,
            {"toolCallId": "c", "kind": 1, "title": None, "content": [1, {}], "rawInput": "x"},
            CallToPermit(tool_call_id="c", content=[{}], raw_input="x"),
        ),
    ],
)
def test_malformed_optional_fields_count_as_missing(kind: type[AcpMessage], value: Any, expected: AcpMessage) -> None:
    assert read_message(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SessionCreated, None),
        (SessionCreated, []),
        (SessionCreated, {}),
        (SessionCreated, {"sessionId": 1}),
        (SessionCreated, {"sessionId": "s", "configOptions": "none"}),
        (PromptAnswer, {"stopReason": "news"}),
        (CreateTerminal, {"sessionId": "s", "command": "ls", "args": ["-l", 5]}),
        (CreateTerminal, {"sessionId": "s", "command": "ls", "env": {"A": "b"}}),
        (CreateTerminal, {"sessionId": "s", "command": "ls", "cwd": 5}),
        (RequestPermission, {"sessionId": "s", "toolCall": {"toolCallId": 1}, "options": []}),
        (RequestPermission, {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": [{"optionId": "a"}]}),
    ],
)
def test_malformed_required_fields_are_refused(kind: type[AcpMessage], value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_message(kind, value)
