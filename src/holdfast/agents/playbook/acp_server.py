"""The playbook agent's side of the Agent Client Protocol."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, structs

from holdfast.agents.jsonrpc.connection import (
    INVALID_PARAMS_CODE,
    INVALID_REQUEST_CODE,
    METHOD_NOT_FOUND_CODE,
    RESOURCE_NOT_FOUND_CODE,
    AlreadyResponded,
    JsonRpcError,
)
from holdfast.agents.jsonrpc.stdio import StdioConnection
from holdfast.agents.playbook import faults
from holdfast.agents.playbook import messages as talk
from holdfast.agents.playbook.format import (
    Connect,
    Crash,
    End,
    Playbook,
    Reopen,
    Reply,
)
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.player import ChosenTurn, Player
from holdfast.agents.playbook.sessions import PlaybookSession, StateFolder, new_session_id
from holdfast.agents.playbook.turn import RunningTurn, TurnFailed

W = TypeVar("W", Reply, Reopen)

AUTH_REQUIRED_CODE = -32000

_MODEL = "model"
_CONTENT_BLOCKS = {"image": "image", "audio": "audio", "resource": "embedded_context"}


class PlaybookRequest(msgspec.Struct, rename="camel"):
    """The parameters of all methods; each method checks what it needs."""

    session_id: str = ""
    cwd: str = ""
    mcp_servers: list[dict[str, Any]] | None = None
    prompt: list[dict[str, Any]] = []
    method_id: str = ""
    mode_id: str = ""
    model_id: str = ""
    config_id: str = ""
    value: str | bool = ""
    meta: dict[str, Any] = msgspec.field(name="_meta", default={})


class LiveSession:
    """A session that is open in this process."""

    def __init__(self, record: PlaybookSession, servers: list[dict[str, Any]]) -> None:
        self.record = record
        self.servers = McpServers(servers, record.cwd)
        self.turn: RunningTurn | None = None
        self.chosen_turn: ChosenTurn | None = None


class PendingPrompt:
    """The answer that a prompt waits for."""

    def __init__(self, request_id: Any) -> None:
        self.request_id = request_id
        self.is_answered = False


_Method = Callable[[PlaybookRequest, Any], Awaitable[Any]]


class PlaybookAcpServer:
    def __init__(self, playbook: Playbook, file: str, folder: StateFolder) -> None:
        self._playbook = playbook
        self._agent = playbook.agent
        connects = playbook.agent.connects
        self._connect = connects if isinstance(connects, Connect) else Connect(how=connects)
        self._folder = folder
        self._sessions: dict[str, LiveSession] = {}
        self._pending_prompts: dict[int, PendingPrompt] = {}
        self._authenticated = False
        self.connection = StdioConnection(self._handle)
        self.player = Player(playbook, os.path.abspath(file), folder, self._answer_now)
        self._methods: dict[str, tuple[_Method, tuple[str, ...]]] = {
            "initialize": (self._initialize, ()),
            "authenticate": (self._authenticate, ("method_id",)),
            "session/new": (self._new, ("cwd",)),
            "session/load": (self._load, ("session_id", "cwd")),
            "session/resume": (self._resume, ("session_id", "cwd")),
            "session/list": (self._list, ()),
            "session/fork": (self._fork, ("session_id", "cwd")),
            "session/close": (self._close, ("session_id",)),
            "session/set_mode": (self._set_mode, ("session_id", "mode_id")),
            "session/set_model": (self._set_model, ("session_id", "model_id")),
            "session/set_config_option": (self._set_config, ("session_id", "config_id")),
            "session/prompt": (self._prompt, ("session_id",)),
            "session/cancel": (self._cancel, ("session_id",)),
        }

    async def stop(self) -> None:
        await self.connection.stop()
        for live in self._sessions.values():
            await live.servers.stop()

    async def _handle(self, method: str, params: Any, request_id: Any) -> Any:
        if method not in self._methods:
            raise JsonRpcError(METHOD_NOT_FOUND_CODE, "Method not found", {"method": method})
        do, needs = self._methods[method]
        try:
            request = msgspec.convert(params or {}, PlaybookRequest)
        except msgspec.ValidationError as error:
            raise JsonRpcError(INVALID_PARAMS_CODE, f"Invalid params: {error}") from None
        for name in needs:
            if not getattr(request, name):
                raise JsonRpcError(INVALID_PARAMS_CODE, f"Invalid params: {name} is missing")
        return await do(request, request_id)

    # --- the agent ---

    async def _initialize(self, _: PlaybookRequest, __: Any) -> Any:
        await self._reply("initialize", self._agent.initialize)
        agent = self._agent
        sessions: dict[str, Any] = {
            name: {} for name in ("list", "fork", "close", "resume") if _is_advertised(getattr(agent, name))
        }
        answer: dict[str, Any] = {
            "protocolVersion": agent.protocol,
            "agentInfo": {"name": agent.name, "version": agent.version, "title": agent.title or agent.name},
            "agentCapabilities": {
                "loadSession": _is_advertised(agent.load),
                "promptCapabilities": {
                    "image": "image" in agent.accepts,
                    "audio": "audio" in agent.accepts,
                    "embeddedContext": "embedded_context" in agent.accepts,
                },
                "mcpCapabilities": {"http": "http" in agent.mcp, "sse": "sse" in agent.mcp},
                "sessionCapabilities": sessions,
                "_meta": {"holdfast": {"connects": self._connect.how}},
            },
            "authMethods": [{"id": agent.auth.id, "name": agent.auth.name}] if agent.auth else [],
        }
        return answer

    async def _authenticate(self, request: PlaybookRequest, _: Any) -> Any:
        auth = self._agent.auth
        if auth is None or request.method_id != auth.id:
            raise JsonRpcError(INVALID_PARAMS_CODE, f"there is no way {request.method_id!r} to log in")
        if not auth.passes:
            raise JsonRpcError(AUTH_REQUIRED_CODE, "the login failed, as the playbook says")
        self._authenticated = True
        return {}

    # --- sessions ---

    async def _new(self, request: PlaybookRequest, _: Any) -> Any:
        self._check_login()
        await self._reply("session/new", self._agent.new)
        live = self._open_session(PlaybookSession(id=new_session_id(), cwd=request.cwd), request)
        self.player.save(live.record)
        return {"sessionId": live.record.id, **self._session_settings(live.record)}

    async def _load(self, request: PlaybookRequest, _: Any) -> Any:
        return await self._reopen("session/load", request, self._agent.load, replays=True)

    async def _resume(self, request: PlaybookRequest, _: Any) -> Any:
        return await self._reopen("session/resume", request, self._agent.resume, replays=False)

    async def _reopen(self, method: str, request: PlaybookRequest, behavior: Reopen | Any, *, replays: bool) -> Any:
        self._check_login()
        reopening = self._current_behavior(method, behavior if isinstance(behavior, Reopen) else Reopen(how=behavior))
        if reopening.how == "gone":
            raise _not_found(request, RESOURCE_NOT_FOUND_CODE)
        if reopening.how != "starts_new":
            await self._apply_behavior(method, reopening)
        record = None if reopening.how == "starts_new" else self._find_record(request.session_id)
        if record is None:
            if reopening.how != "starts_new" and self._playbook.sessions.unknown != "new":
                raise _not_found(request, self._playbook.sessions.unknown)
            record = PlaybookSession(id=request.session_id, cwd=request.cwd)
        elif record.cwd != request.cwd and reopening.other_cwd != "works":
            if reopening.other_cwd == "hangs":
                await asyncio.Event().wait()
            raise _not_found(request, RESOURCE_NOT_FOUND_CODE)
        else:
            self._forget_killed_prompt(record)
        record.cwd = request.cwd
        live = self._open_session(record, request)
        self.player.save(record)
        if reopening.announces:
            commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
            await self.connection.notify("session/update", {"sessionId": record.id, "update": commands})
        if reopening.replay if reopening.replay is not None else replays:
            await self._replay(live.record, reopening)
        return self._session_settings(record)

    async def _list(self, request: PlaybookRequest, _: Any) -> Any:
        await self._reply("session/list", self._agent.list)
        starts_new = _behavior_name(self._agent.resume) == "starts_new"  # it knows only sessions of this process
        records = {} if starts_new else {record.id: record for record in self._folder.sessions()}
        for live in self._sessions.values():
            records.setdefault(live.record.id, live.record)
        return {
            "sessions": [
                {"sessionId": record.id, "cwd": record.cwd}
                | ({"title": record.title} if record.title else {})
                | ({"updatedAt": record.updated} if record.updated else {})
                for record in records.values()
                if not request.cwd or record.cwd == request.cwd
            ]
        }

    async def _fork(self, request: PlaybookRequest, _: Any) -> Any:
        self._check_login()
        await self._reply("session/fork", self._agent.fork)
        record = self._find_record(request.session_id)
        if record is None:
            raise _not_found(request, RESOURCE_NOT_FOUND_CODE)
        copy = msgspec.convert(msgspec.to_builtins(record), PlaybookSession)
        copy.id, copy.cwd, copy.unfinished = new_session_id(), request.cwd, None
        message = talk.fork_point(request.meta)
        if message is not None and self._agent.forks == "at_message" and not copy.cut_after(message):
            raise JsonRpcError(INVALID_PARAMS_CODE, f"there is no message {message!r}")
        live = self._open_session(copy, request)
        self.player.save(copy)
        return {"sessionId": live.record.id, **self._session_settings(copy)}

    async def _close(self, request: PlaybookRequest, _: Any) -> Any:
        await self._reply("session/close", self._agent.close)
        live = self._sessions.pop(request.session_id, None)
        if live is None:
            raise _not_found(request, RESOURCE_NOT_FOUND_CODE)
        if live.turn and live.turn.task:
            live.turn.task.cancel()
        await live.servers.stop()
        return {}

    async def _set_mode(self, request: PlaybookRequest, _: Any) -> Any:
        record = self._get_session(request).record
        modes = self._agent.modes
        if modes is None or request.mode_id not in [mode["id"] for mode in talk.choice_list(modes.available, "id")]:
            raise JsonRpcError(INVALID_PARAMS_CODE, f"there is no mode {request.mode_id!r}")
        record.mode = request.mode_id
        self.player.save(record)
        return {}

    async def _set_model(self, request: PlaybookRequest, _: Any) -> Any:
        record, models = self._get_session(request).record, self._agent.models
        if models is None or self._agent.models_by != "set_model":
            raise JsonRpcError(METHOD_NOT_FOUND_CODE, "Method not found", {"method": "session/set_model"})
        if request.model_id not in [model["id"] for model in talk.choice_list(models.available, "id")]:
            raise JsonRpcError(INVALID_PARAMS_CODE, f"there is no model {request.model_id!r}")
        record.config[_MODEL] = request.model_id
        self.player.save(record)
        return {}

    async def _set_config(self, request: PlaybookRequest, _: Any) -> Any:
        record = self._get_session(request).record
        if request.config_id not in [option["id"] for option in self._config_options(record)]:
            raise JsonRpcError(INVALID_PARAMS_CODE, f"there is no option {request.config_id!r}")
        record.config[request.config_id] = request.value
        self.player.save(record)
        return {"configOptions": self._config_options(record)}

    # --- a turn ---

    async def _prompt(self, request: PlaybookRequest, request_id: Any) -> Any:
        live = self._get_session(request)
        if live.turn is not None:
            raise JsonRpcError(INVALID_REQUEST_CODE, "a turn is running in this session")
        part = self.player.begin(live.record, self._prompt_text(request.prompt))
        said, has_ids = live.record.said[-1].text, self._agent.message_ids
        stage = live.turn = RunningTurn(self.connection, live.record, live.servers, said, has_message_ids=has_ids)
        live.chosen_turn = part
        turning = self._pending_prompts[id(stage)] = PendingPrompt(request_id)
        try:
            end = await self._play(live, stage, part)
            if turning.is_answered:
                return AlreadyResponded
            self._finish_turn(live, stage)
            return _stop_response(end)
        except TurnFailed as failed:
            if turning.is_answered:
                return AlreadyResponded
            self._finish_turn(live, stage)
            data = None if failed.failure.data is UNSET else failed.failure.data
            raise JsonRpcError(failed.failure.code, failed.failure.message, data) from None
        finally:
            self._pending_prompts.pop(id(stage), None)
            if live.turn is stage:
                live.turn = None

    async def _play(self, session: LiveSession, turn: RunningTurn, chosen_turn: ChosenTurn) -> End:
        """A separate task, so that a cancel can end it without ending the answer."""
        turn.task = asyncio.create_task(self.player.play(turn, chosen_turn))
        try:
            end: End = await turn.task
            return end
        except asyncio.CancelledError:
            if not turn.cancelled.is_set() and session.record.id in self._sessions:
                turn.task.cancel()  # the agent itself is ending
                raise
            return await self.player.play_cancelled(turn, chosen_turn)

    async def _answer_now(self, turn: RunningTurn, end: End) -> None:
        """Answer before the turn is over, perhaps twice, as the script says. For the client the turn is over."""
        turning = self._pending_prompts.get(id(turn))
        if turning is None:
            return
        live = self._sessions.get(turn.record.id)
        if not turning.is_answered and live is not None:
            self._finish_turn(live, turn)  # before the answer: the client may start the next turn at once
        turning.is_answered = True
        await self.connection.answer(turning.request_id, _stop_response(end))

    def _finish_turn(self, session: LiveSession, turn: RunningTurn) -> None:
        if session.chosen_turn is not None and session.turn is turn:
            self.player.finish(session.record, session.chosen_turn)
            session.turn = session.chosen_turn = None

    async def _cancel(self, request: PlaybookRequest, _: Any) -> Any:
        live = self._sessions.get(request.session_id)
        stage = live.turn if live else None
        if live is None or stage is None or live.chosen_turn is None or stage.ignores_cancel:
            return
        if "cancel" in self._agent.ignores or live.chosen_turn.turn.on_cancel == "ignore":
            return
        stage.cancelled.set()
        if stage.task and not stage.is_asking:
            stage.task.cancel()

    # --- what they share ---

    def _check_login(self) -> None:
        auth = self._agent.auth
        if auth and auth.required and not self._authenticated:
            raise JsonRpcError(AUTH_REQUIRED_CODE, "Authentication required", {"methods": [auth.id]})

    async def _reply(self, method: str, behavior: Any) -> None:
        """Let the script answer this method with an error; returns if it has none."""
        reply = Reply(how=behavior) if isinstance(behavior, str) else behavior  # type: ignore[arg-type]
        await self._apply_behavior(method, self._current_behavior(method, reply))

    def _current_behavior(self, method: str, behavior: W) -> W:
        """A behavior marked `once` that has happened already counts as normal."""
        used_up = behavior.once and not self.player.is_first_time(behavior.once, method)
        return structs.replace(behavior, how="works") if used_up else behavior

    async def _apply_behavior(self, method: str, behavior: Reply | Reopen) -> None:
        await asyncio.sleep(behavior.after)
        match behavior.how:
            case "absent":
                raise JsonRpcError(METHOD_NOT_FOUND_CODE, "Method not found", {"method": method})
            case "refuses":
                raise JsonRpcError(behavior.error, behavior.message)
            case "hangs":
                await asyncio.Event().wait()
            case "dies":
                faults.crash(Crash(how="kill"))

    def _open_session(self, record: PlaybookSession, request: PlaybookRequest) -> LiveSession:
        live = self._sessions[record.id] = LiveSession(record, request.mcp_servers or [])
        if self._connect.how == "at_start":
            live.servers.connect(self._connect.wait_for)
        return live

    def _find_record(self, session_id: str) -> PlaybookSession | None:
        live = self._sessions.get(session_id)
        return live.record if live else self._folder.load(session_id)

    def _get_session(self, request: PlaybookRequest) -> LiveSession:
        live = self._sessions.get(request.session_id)
        if live is None:
            raise _not_found(request, RESOURCE_NOT_FOUND_CODE)
        return live

    def _forget_killed_prompt(self, record: PlaybookSession) -> None:
        """Some agents lose the message of the turn in which they were killed."""
        left = record.unfinished
        if left is None or not self._playbook.sessions.forgets_killed_prompt or record.id in self._sessions:
            return
        record.said = [message for message in record.said if message.turn != left.turn]
        record.shown = [
            shown
            for shown in record.shown
            if shown.turn != left.turn or shown.update["sessionUpdate"] != "user_message_chunk"
        ]

    async def _replay(self, record: PlaybookSession, behavior: Reopen) -> None:
        for shown in list(record.shown):
            update = dict(shown.update)
            if "toolCallId" in update and behavior.tool_calls == "new_ids":
                update["toolCallId"] = f"replayed-{update['toolCallId']}"
            if "title" in update and behavior.tool_calls == "new_titles":
                update["title"] = f"Replayed: {update['title']}"
            await self.connection.notify(
                "session/update", {"sessionId": behavior.replay_as or record.id, "update": update}
            )

    def _session_settings(self, record: PlaybookSession) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        if modes := self._agent.modes:
            available = talk.choice_list(modes.available, "id")
            answer["modes"] = {"currentModeId": record.mode or modes.current, "availableModes": available}
        if options := self._config_options(record):
            answer["configOptions"] = options
        if (models := self._agent.models) and self._agent.models_by == "set_model":
            current = record.config.get(_MODEL, models.current)
            available = talk.choice_list(models.available, "modelId")
            answer["models"] = {"currentModelId": current, "availableModels": available}
        return answer

    def _config_options(self, record: PlaybookSession) -> list[dict[str, Any]]:
        return talk.config_options(self._agent, record.config)

    def _prompt_text(self, prompt: list[dict[str, Any]]) -> str:
        parts: list[str] = []
        for block in prompt:
            kind = block.get("type")
            if kind in _CONTENT_BLOCKS and _CONTENT_BLOCKS[kind] not in self._agent.accepts:
                raise JsonRpcError(INVALID_PARAMS_CODE, f"this agent takes no {_CONTENT_BLOCKS[kind]} in a prompt")
            if kind == "text":
                parts.append(str(block.get("text", "")))
            elif kind == "resource" and "text" in block.get("resource", {}):
                parts.append(str(block["resource"]["text"]))
            else:
                parts.append(f"[{kind} {block.get('uri', '')}]".replace(" ]", "]"))
        return "\n".join(parts)


def _behavior_name(behavior: Any) -> str:
    return str(behavior if isinstance(behavior, str) else behavior.how)


def _is_advertised(behavior: Any) -> bool:
    if isinstance(behavior, str):
        return behavior != "absent"
    return bool(behavior.how != "absent" if behavior.advertised is None else behavior.advertised)


def _not_found(request: PlaybookRequest, code: int) -> JsonRpcError:
    return JsonRpcError(code, f"there is no session {request.session_id}")


def _stop_response(end: End) -> dict[str, Any]:
    if end.usage is None:
        return {"stopReason": end.reason}
    counted = {"inputTokens": end.usage.input, "outputTokens": end.usage.output}
    return {"stopReason": end.reason, "usage": {**counted, "totalTokens": end.usage.input + end.usage.output}}
