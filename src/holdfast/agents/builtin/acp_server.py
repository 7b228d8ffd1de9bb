"""The agent as its client sees it: the Agent Client Protocol's methods, and nothing else."""

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
from holdfast.agents.builtin.file_access import Worktree
from holdfast.agents.builtin.instructions import instructions_for
from holdfast.agents.builtin.loop import Ended, Limits, Loop, Mode, Session
from holdfast.agents.builtin.mcp_tools import McpTools, Server, quiet_environment
from holdfast.agents.builtin.models import Endpoint, Model, ModelTrouble
from holdfast.agents.builtin.rate_limits import iso
from holdfast.agents.builtin.replay import remember_ids, replay
from holdfast.agents.builtin.secrets import Secrets, scrubbed
from holdfast.agents.builtin.session_file import NoSuchSession, SessionFile, headers, new_session_id, title_of
from holdfast.agents.builtin.shell import Shell, end_what_is_left
from holdfast.agents.builtin.tools import Toolbox
from holdfast.core.conversation.states import NOT_NOW
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.text.encodable import encodable

_PROTOCOL = 1
_PAGE = 50  # sessions in one answer
_TITLE = 80
_MODEL_TROUBLE = -32603
_AUTH_REQUIRED = -32000
_NOT_FOUND = -32002
_INVALID = -32602
_MODES: dict[Mode, tuple[str, str]] = {
    "ask": ("Ask", "asks before it changes a file or runs a command"),
    "code": ("Code", "changes files and runs commands without asking"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    endpoint: Endpoint
    folder: str  # of the session files
    mode: Mode = "ask"
    limits: Limits = field(default_factory=Limits)
    passed: tuple[str, ...] = ()  # variables that shell commands may see
    secrets: Secrets = field(default_factory=Secrets)


@dataclass(slots=True)
class _Open:
    session: Session
    screen: AcpScreen
    turn: "asyncio.Task[Ended] | None" = None


class BuiltinAgent:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._model = Model(settings.endpoint)
        self._open: dict[str, _Open] = {}
        self._client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=min(protocol_version, _PROTOCOL),
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
        folder = _folder(cwd)
        name, mode = new_session_id(), self._settings.mode
        first = {"id": name, "cwd": folder, "model": self._model.name, "mode": mode, "created": _now()}
        file = SessionFile.create(self._settings.folder, name, first)
        opened = await self._opened(name, folder, file, [first | {"type": "session"}], mcp_servers)
        return NewSessionResponse(session_id=name, modes=_modes(opened.session.mode))

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> LoadSessionResponse:
        opened = await self._reopened(cwd, session_id, mcp_servers)
        await replay(opened.session, opened.screen)
        return LoadSessionResponse(modes=_modes(opened.session.mode))

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> ResumeSessionResponse:
        opened = await self._reopened(cwd, session_id, mcp_servers)
        remember_ids(opened.session)
        return ResumeSessionResponse(modes=_modes(opened.session.mode))

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        start = int(cursor) if cursor and cursor.isdigit() else 0
        wanted = os.path.realpath(cwd) if cwd else None
        found = [each for each in headers(self._settings.folder) if wanted in (None, each[2].get("cwd"))]
        page = [
            SessionInfo(
                session_id=name,
                cwd=str(first.get("cwd", "")),
                title=title_of(self._settings.folder, name),
                updated_at=iso(changed),
            )
            for name, changed, first in found[start : start + _PAGE]
        ]
        more = str(start + _PAGE) if len(found) > start + _PAGE else None
        return ListSessionsResponse(sessions=page, next_cursor=more)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        session = self._of(session_id).session
        for mode in _MODES:
            if mode == mode_id:
                session.save({"type": "mode", "mode": mode})
                session.mode = mode
                return SetSessionModeResponse()
        raise RequestError(_INVALID, f"there is no mode {mode_id!r}; there are {', '.join(_MODES)}")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        opened = self._of(session_id)
        if opened.turn is not None:
            raise RequestError(_INVALID, "a turn is going on in this session; wait for it, or cancel it")
        request = _request(prompt)
        loop = Loop(opened.session, self._model, opened.screen, self._settings.limits, self._settings.secrets)
        opened.turn = asyncio.create_task(loop.turn(request))
        try:
            await self._name(opened, request)
            ended = await opened.turn
            if (asking := asyncio.current_task()) is not None and asking.cancelling():
                raise asyncio.CancelledError  # the client is gone: whoever would answer it would wait for ever
        except ModelTrouble as trouble:
            raise self._refusal(trouble) from trouble
        except HoldfastError as error:
            raise RequestError(_MODEL_TROUBLE, str(error)) from error
        finally:
            opened.turn.cancel()  # one that has ended stays as it is
            opened.turn = None
        return _answer(ended)

    async def cancel(self, session_id: str, **_: Any) -> None:
        opened = self._open.get(session_id)
        if opened is not None and opened.turn is not None:
            opened.turn.cancel()

    async def close_session(self, session_id: str, **_: Any) -> None:
        opened = self._open.pop(session_id, None)
        if opened is None:
            return
        if opened.turn is not None:
            opened.turn.cancel()
            await asyncio.wait({opened.turn})
        await opened.session.mcp.stop()
        opened.session.file.close()

    async def close(self) -> None:
        for name in list(self._open):
            await self.close_session(name)

    # --- inside -------------------------------------------------------------------------------------

    def _of(self, session_id: str) -> _Open:
        opened = self._open.get(session_id)
        if opened is None:
            raise RequestError(_NOT_FOUND, f"session {session_id!r} is not open; load or resume it first")
        if opened.turn is None and opened.session.file.closed:
            self._take_hold_again(opened.session)
        return opened

    def _take_hold_again(self, session: Session) -> None:
        """After a write that failed: what came to the disk is the session."""
        session.file, records = self._taken_hold_of(session.id)
        session.recall(records)

    def _taken_hold_of(self, session_id: str) -> tuple[SessionFile, list[dict[str, Any]]]:
        try:
            return SessionFile.open(self._settings.folder, session_id)
        except NoSuchSession as error:
            raise RequestError(_NOT_FOUND, str(error), {"sessionId": session_id}) from error
        except (HoldfastError, OSError) as error:
            raise RequestError(NOT_NOW, str(error), {"sessionId": session_id}) from error

    async def _reopened(self, cwd: str, session_id: str, mcp_servers: Any) -> _Open:
        """Own, repair, fence, settle; after that it is a session like any other."""
        folder = _folder(cwd)
        await self.close_session(session_id)
        file, records = self._taken_hold_of(session_id)
        try:
            await asyncio.to_thread(end_what_is_left, session_id)
            opened = await self._opened(session_id, folder, file, records, mcp_servers)
            opened.session.settle()
        except (HoldfastError, OSError) as error:
            file.close()
            raise RequestError(NOT_NOW, str(error), {"sessionId": session_id}) from error
        return opened

    async def _opened(
        self, name: str, folder: str, file: SessionFile, records: list[dict[str, Any]], mcp_servers: Any
    ) -> _Open:
        assert self._client is not None, "there is a connection before there is a request"
        environment = scrubbed(os.environ, self._settings.passed, self._settings.secrets)
        mcp = McpTools(_servers(mcp_servers), folder, quiet_environment(environment))
        try:
            await mcp.start()
        except HoldfastError as error:
            file.close()
            raise RequestError(NOT_NOW, str(error)) from error
        worktree = Worktree(folder)
        session = Session(
            id=name,
            folder=folder,
            file=file,
            instructions=instructions_for(worktree),
            toolbox=Toolbox(worktree, Shell(worktree.root, environment, name)),
            mcp=mcp,
            secrets=self._settings.secrets,
        )
        session.recall(records)
        opened = _Open(session, AcpScreen(self._client, name, self._settings.secrets))
        self._open[name] = opened
        return opened

    async def _name(self, opened: _Open, request: ModelRequest) -> None:
        """A session is called by the first line of its first prompt: no second call to the model for that."""
        if opened.session.title is None:
            first = next((part.content for part in request.parts if isinstance(part, UserPromptPart)), "")
            text = first if isinstance(first, str) else next((item for item in first if isinstance(item, str)), "")
            title = self._settings.secrets.redact(" ".join(text.split())[:_TITLE]) or "session"
            opened.session.save({"type": "title", "title": title})
            opened.session.title = title
            await opened.screen.title(title)

    def _refusal(self, trouble: ModelTrouble) -> RequestError:
        data: dict[str, Any] = {"kind": trouble.why}
        if trouble.why in ("rate_limit", "quota"):
            data["resetsAt"] = None if trouble.resets is None else iso(trouble.resets)
        code = _AUTH_REQUIRED if trouble.why == "auth" else _MODEL_TROUBLE
        return RequestError(code, self._settings.secrets.redact(str(trouble)), data)


def _folder(cwd: str) -> str:
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise RequestError(_INVALID, f"{cwd!r} is not an absolute path of a folder")
    real = os.path.realpath(cwd)
    if encodable(real) != real:
        raise RequestError(_INVALID, f"{real!r} is not UTF-8, so no model can be told of it; use another folder")
    return real


def _servers(given: Any) -> list[Server]:
    servers = []
    for server in given or []:
        if not isinstance(server, McpServerStdio):
            raise RequestError(_INVALID, f"only stdio MCP servers can be used, {server.name} is none")
        environment = {variable.name: variable.value for variable in server.env}
        servers.append(Server(server.name, server.command, server.args, environment))
    return servers


def _request(prompt: list[Any]) -> ModelRequest:
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
                raise RequestError(_INVALID, f"a prompt with {other} cannot be used")
    texts = [item for item in content if isinstance(item, str)]
    whole = "\n".join(texts) if len(texts) == len(content) else content
    return ModelRequest(parts=[UserPromptPart(content=whole)])


def _answer(ended: Ended) -> PromptResponse:
    spent = ended.spent
    usage = Usage(
        total_tokens=spent.input + spent.output,
        input_tokens=spent.input,
        output_tokens=spent.output,
        thought_tokens=spent.thought,
        cached_read_tokens=spent.cached_read,
        cached_write_tokens=spent.cached_write,
    )
    cost = None if spent.cost is None else {"amount": spent.cost, "currency": "USD"}
    return PromptResponse(stop_reason=ended.stop, usage=usage, field_meta={"requests": spent.requests, "cost": cost})


def _modes(current: Mode) -> SessionModeState:
    available = [SessionMode(id=mode, name=name, description=what) for mode, (name, what) in _MODES.items()]
    return SessionModeState(current_mode_id=current, available_modes=available)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()
