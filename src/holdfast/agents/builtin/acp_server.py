"""The agent's side of the Agent Client Protocol: its methods, without any logic of the loop."""

import asyncio
import base64
import datetime as dt
import os
from dataclasses import dataclass, field
from typing import Any

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
    SetSessionModeResponse,
    Usage,
)
from pydantic_ai.messages import BinaryContent, ModelRequest, UserContent, UserPromptPart

from holdfast import __version__
from holdfast.agents.builtin.acp_screen import AcpScreen
from holdfast.agents.builtin.file_access import WorktreeFiles
from holdfast.agents.builtin.instructions import instructions_for
from holdfast.agents.builtin.loop import BuiltinSession, Limits, LoopResult, Mode, TurnLoop
from holdfast.agents.builtin.mcp_tools import McpServerCommand, McpToolset, mcp_environment
from holdfast.agents.builtin.models import Endpoint, ModelClient, ModelError
from holdfast.agents.builtin.replay import replay, reserve_call_ids
from holdfast.agents.builtin.secrets import Secrets, scrub_environment
from holdfast.agents.builtin.session_file import NoSuchSession, SessionFile, new_session_id, read_title, session_headers
from holdfast.agents.builtin.shell import Shell, kill_leftovers
from holdfast.agents.builtin.tools import Toolbox
from holdfast.agents.limits.headers import to_iso
from holdfast.core.conversation.states import SESSION_UNAVAILABLE_CODE
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.text.encodable import make_encodable

_PROTOCOL_VERSION = 1
_PAGE_SESSIONS = 50  # sessions per response
_MAX_TITLE_CHARS = 80
_MODEL_ERROR_CODE = -32603
_AUTH_REQUIRED_CODE = -32000
_NOT_FOUND_CODE = -32002
_INVALID_PARAMS_CODE = -32602
_MODES: dict[Mode, tuple[str, str]] = {
    "ask": ("Ask", "asks before it changes a file or runs a command"),
    "code": ("Code", "changes files and runs commands without asking"),
}


@dataclass(frozen=True, slots=True)
class BuiltinSettings:
    endpoint: Endpoint
    folder: str  # of the session files
    mode: Mode = "ask"
    limits: Limits = field(default_factory=Limits)
    passed_variables: tuple[str, ...] = ()  # variables that shell commands may see
    secrets: Secrets = field(default_factory=Secrets)


@dataclass(slots=True)
class _OpenSession:
    session: BuiltinSession
    screen: AcpScreen
    turn: "asyncio.Task[LoopResult] | None" = None


class BuiltinAgent:
    def __init__(self, settings: BuiltinSettings) -> None:
        self._settings = settings
        self._model = ModelClient(settings.endpoint)
        self._open_sessions: dict[str, _OpenSession] = {}
        self._client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, _PROTOCOL_VERSION),
            agent_info=Implementation(name="holdfast-builtin", title="Holdfast built-in agent", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), resume=SessionResumeCapabilities(), close=SessionCloseCapabilities()
                ),
            ),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        folder = _check_folder(cwd)
        name, mode = new_session_id(), self._settings.mode
        first = {"id": name, "cwd": folder, "model": self._model.name, "mode": mode, "created": _now()}
        file = SessionFile.create(self._settings.folder, name, first)
        opened = await self._open(name, folder, file, [first | {"type": "session"}], mcp_servers)
        return NewSessionResponse(session_id=name, modes=_mode_state(opened.session.mode))

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> LoadSessionResponse:
        opened = await self._reopen(cwd, session_id, mcp_servers)
        await replay(opened.session, opened.screen)
        return LoadSessionResponse(modes=_mode_state(opened.session.mode))

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> ResumeSessionResponse:
        opened = await self._reopen(cwd, session_id, mcp_servers)
        reserve_call_ids(opened.session)
        return ResumeSessionResponse(modes=_mode_state(opened.session.mode))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        start = int(cursor) if cursor and cursor.isdigit() else 0
        folder = os.path.realpath(cwd) if cwd else None
        found = [each for each in session_headers(self._settings.folder) if folder in (None, each[2].get("cwd"))]
        page = [
            SessionInfo(
                session_id=name,
                cwd=str(first.get("cwd", "")),
                title=read_title(self._settings.folder, name),
                updated_at=to_iso(changed),
            )
            for name, changed, first in found[start : start + _PAGE_SESSIONS]
        ]
        more = str(start + _PAGE_SESSIONS) if len(found) > start + _PAGE_SESSIONS else None
        return ListSessionsResponse(sessions=page, next_cursor=more)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        session = self._get_open(session_id).session
        for mode in _MODES:
            if mode == mode_id:
                session.save({"type": "mode", "mode": mode})
                session.mode = mode
                return SetSessionModeResponse()
        raise RequestError(_INVALID_PARAMS_CODE, f"there is no mode {mode_id!r}; there are {', '.join(_MODES)}")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        opened = self._get_open(session_id)
        if opened.turn is not None:
            raise RequestError(_INVALID_PARAMS_CODE, "a turn is going on in this session; wait for it, or cancel it")
        request = _to_model_request(prompt)
        loop = TurnLoop(opened.session, self._model, opened.screen, self._settings.limits, self._settings.secrets)
        opened.turn = asyncio.create_task(loop.run_turn(request))
        try:
            await self._set_title(opened, request)
            ended = await opened.turn
            if (asking := asyncio.current_task()) is not None and asking.cancelling():
                raise asyncio.CancelledError  # the client disconnected: an answer would never come
        except ModelError as trouble:
            raise self._model_error_response(trouble) from trouble
        except HoldfastError as error:
            raise RequestError(_MODEL_ERROR_CODE, str(error)) from error
        finally:
            opened.turn.cancel()  # a finished turn is unaffected
            opened.turn = None
        return _to_prompt_response(ended)

    async def cancel(self, session_id: str, **_: Any) -> None:
        opened = self._open_sessions.get(session_id)
        if opened is not None and opened.turn is not None:
            opened.turn.cancel()

    async def close_session(self, session_id: str, **_: Any) -> None:
        opened = self._open_sessions.pop(session_id, None)
        if opened is None:
            return
        if opened.turn is not None:
            opened.turn.cancel()
            await asyncio.wait({opened.turn})
        await opened.session.mcp.stop()
        opened.session.file.close()

    async def close(self) -> None:
        for name in list(self._open_sessions):
            await self.close_session(name)

    # --- inside -------------------------------------------------------------------------------------

    def _get_open(self, session_id: str) -> _OpenSession:
        opened = self._open_sessions.get(session_id)
        if opened is None:
            raise RequestError(_NOT_FOUND_CODE, f"session {session_id!r} is not open; load or resume it first")
        if opened.turn is None and opened.session.file.is_closed:
            self._reload(opened.session)
        return opened

    def _reload(self, session: BuiltinSession) -> None:
        """After a failed write, reload the session from the disk."""
        session.file, records = self._open_file(session.id)
        session.load_records(records)

    def _open_file(self, session_id: str) -> tuple[SessionFile, list[dict[str, Any]]]:
        try:
            return SessionFile.open(self._settings.folder, session_id)
        except NoSuchSession as error:
            raise RequestError(_NOT_FOUND_CODE, str(error), {"sessionId": session_id}) from error
        except (HoldfastError, OSError) as error:
            raise RequestError(SESSION_UNAVAILABLE_CODE, str(error), {"sessionId": session_id}) from error

    async def _reopen(self, cwd: str, session_id: str, mcp_servers: Any) -> _OpenSession:
        """Own, repair, fence and settle the session; then it is like any other."""
        folder = _check_folder(cwd)
        await self.close_session(session_id)
        file, records = self._open_file(session_id)
        try:
            await asyncio.to_thread(kill_leftovers, session_id)
            opened = await self._open(session_id, folder, file, records, mcp_servers)
            opened.session.settle()
        except (HoldfastError, OSError) as error:
            file.close()
            raise RequestError(SESSION_UNAVAILABLE_CODE, str(error), {"sessionId": session_id}) from error
        return opened

    async def _open(
        self, session_id: str, folder: str, file: SessionFile, records: list[dict[str, Any]], mcp_servers: Any
    ) -> _OpenSession:
        assert self._client is not None, "there is a connection before there is a request"
        environment = scrub_environment(os.environ, self._settings.passed_variables, self._settings.secrets)
        mcp = McpToolset(_mcp_servers(mcp_servers), folder, mcp_environment(environment))
        try:
            await mcp.start()
        except HoldfastError as error:
            file.close()
            raise RequestError(SESSION_UNAVAILABLE_CODE, str(error)) from error
        worktree = WorktreeFiles(folder)
        session = BuiltinSession(
            id=session_id,
            folder=folder,
            file=file,
            instructions=instructions_for(worktree),
            toolbox=Toolbox(worktree, Shell(worktree.root, environment, session_id)),
            mcp=mcp,
            secrets=self._settings.secrets,
        )
        session.load_records(records)
        opened = _OpenSession(session, AcpScreen(self._client, session_id, self._settings.secrets))
        self._open_sessions[session_id] = opened
        return opened

    async def _set_title(self, opened: _OpenSession, request: ModelRequest) -> None:
        """Name the session after the first line of its first prompt, without another call to the model."""
        if opened.session.title is None:
            first = next((part.content for part in request.parts if isinstance(part, UserPromptPart)), "")
            text = first if isinstance(first, str) else next((item for item in first if isinstance(item, str)), "")
            title = self._settings.secrets.redact(" ".join(text.split())[:_MAX_TITLE_CHARS]) or "session"
            opened.session.save({"type": "title", "title": title})
            opened.session.title = title
            await opened.screen.show_title(title)

    def _model_error_response(self, error: ModelError) -> RequestError:
        data: dict[str, Any] = {"kind": error.kind}
        if error.kind in ("rate_limit", "quota"):
            data["resetsAt"] = None if error.resets_at is None else to_iso(error.resets_at)
        code = _AUTH_REQUIRED_CODE if error.kind == "auth" else _MODEL_ERROR_CODE
        return RequestError(code, self._settings.secrets.redact(str(error)), data)


def _check_folder(cwd: str) -> str:
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise RequestError(_INVALID_PARAMS_CODE, f"{cwd!r} is not an absolute path of a folder")
    real = os.path.realpath(cwd)
    if make_encodable(real) != real:
        raise RequestError(
            _INVALID_PARAMS_CODE, f"{real!r} is not UTF-8, so it cannot be sent to a model; use another folder"
        )
    return real


def _mcp_servers(given: Any) -> list[McpServerCommand]:
    servers = []
    for server in given or []:
        if not isinstance(server, McpServerStdio):
            raise RequestError(_INVALID_PARAMS_CODE, f"only stdio MCP servers can be used, {server.name} is none")
        environment = {variable.name: variable.value for variable in server.env}
        servers.append(McpServerCommand(server.name, server.command, server.args, environment))
    return servers


def _to_model_request(prompt: list[Any]) -> ModelRequest:
    content: list[UserContent] = []
    for block in prompt:
        match block.type:
            case "text":
                content.append(block.text)
            case "image":
                content.append(BinaryContent(base64.b64decode(block.data), media_type=block.mime_type))
            case "resource_link":
                content.append(f"[{block.name}]({block.uri})")
            case "resource" if hasattr(block.resource, "text"):
                content.append(f'<resource uri="{block.resource.uri}">\n{block.resource.text}\n</resource>')
            case other:
                raise RequestError(_INVALID_PARAMS_CODE, f"a prompt with {other} cannot be used")
    texts = [item for item in content if isinstance(item, str)]
    whole = "\n".join(texts) if len(texts) == len(content) else content
    return ModelRequest(parts=[UserPromptPart(content=whole)])


def _to_prompt_response(result: LoopResult) -> PromptResponse:
    spent = result.usage
    usage = Usage(
        total_tokens=spent.input + spent.output,
        input_tokens=spent.input,
        output_tokens=spent.output,
        thought_tokens=spent.thought,
        cached_read_tokens=spent.cached_read,
        cached_write_tokens=spent.cached_write,
    )
    cost = None if spent.cost is None else {"amount": spent.cost, "currency": "USD"}
    return PromptResponse(
        stop_reason=result.stop_reason, usage=usage, field_meta={"requests": spent.requests, "cost": cost}
    )


def _mode_state(current: Mode) -> SessionModeState:
    available = [SessionMode(id=mode, name=name, description=what) for mode, (name, what) in _MODES.items()]
    return SessionModeState(current_mode_id=current, available_modes=available)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()
