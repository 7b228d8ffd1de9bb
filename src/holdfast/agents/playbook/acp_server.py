"""The agent as a client sees it: the methods of the Agent Client Protocol."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, structs

from holdfast.agents.playbook import faults
from holdfast.agents.playbook import messages as talk
from holdfast.agents.playbook.format import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    Connect,
    Crash,
    End,
    Playbook,
    Reopen,
    Reply,
)
from holdfast.agents.playbook.jsonrpc import INVALID_REQUEST, Answered, Refusal, Wire
from holdfast.agents.playbook.mcp_servers import McpServers
from holdfast.agents.playbook.player import Part, Player
from holdfast.agents.playbook.sessions import Folder, Record, new_id
from holdfast.agents.playbook.turn import Stage, TurnFailed

W = TypeVar("W", Reply, Reopen)

AUTH_REQUIRED = -32000

_BLOCKS = {"image": "image", "audio": "audio", "resource": "embedded_context"}


class Request(msgspec.Struct, rename="camel"):
    """What any of the methods may be given; each says what it needs."""

    session_id: str = ""
    cwd: str = ""
    mcp_servers: list[dict[str, Any]] | None = None
    prompt: list[dict[str, Any]] = []
    method_id: str = ""
    mode_id: str = ""
    config_id: str = ""
    value: str | bool = ""


class Live:
    """A session that is open in this process."""

    def __init__(self, record: Record, servers: list[dict[str, Any]]) -> None:
        self.record = record
        self.servers = McpServers(servers, record.cwd)
        self.stage: Stage | None = None
        self.part: Part | None = None


class Turning:
    """The answer that a prompt waits for."""

    def __init__(self, request_id: Any) -> None:
        self.request_id = request_id
        self.answered = False


_Method = Callable[[Request, Any], Awaitable[Any]]


class Face:
    def __init__(self, playbook: Playbook, file: str, folder: Folder) -> None:
        self._book = playbook
        self._agent = playbook.agent
        connects = playbook.agent.connects
        self._connect = connects if isinstance(connects, Connect) else Connect(how=connects)
        self._folder = folder
        self._live: dict[str, Live] = {}
        self._turning: dict[int, Turning] = {}
        self._authenticated = False
        self.wire = Wire(self._handle)
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
            "session/set_config_option": (self._set_config, ("session_id", "config_id")),
            "session/prompt": (self._prompt, ("session_id",)),
            "session/cancel": (self._cancel, ("session_id",)),
        }

    async def stop(self) -> None:
        await self.wire.stop()
        for live in self._live.values():
            await live.servers.stop()

    async def _handle(self, method: str, params: Any, request_id: Any) -> Any:
        if method not in self._methods:
            raise Refusal(METHOD_NOT_FOUND, "Method not found", {"method": method})
        do, needs = self._methods[method]
        try:
            request = msgspec.convert(params or {}, Request)
        except msgspec.ValidationError as error:
            raise Refusal(INVALID_PARAMS, f"Invalid params: {error}") from None
        for name in needs:
            if not getattr(request, name):
                raise Refusal(INVALID_PARAMS, f"Invalid params: {name} is missing")
        return await do(request, request_id)

    # --- the agent ---

    async def _initialize(self, _: Request, __: Any) -> Any:
        await self._reply("initialize", self._agent.initialize)
        agent = self._agent
        sessions: dict[str, Any] = {
            name: {} for name in ("list", "fork", "close", "resume") if _advertised(getattr(agent, name))
        }
        answer: dict[str, Any] = {
            "protocolVersion": agent.protocol,
            "agentInfo": {"name": agent.name, "version": agent.version, "title": agent.title or agent.name},
            "agentCapabilities": {
                "loadSession": _advertised(agent.load),
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

    async def _authenticate(self, request: Request, _: Any) -> Any:
        auth = self._agent.auth
        if auth is None or request.method_id != auth.id:
            raise Refusal(INVALID_PARAMS, f"there is no way {request.method_id!r} to log in")
        if not auth.passes:
            raise Refusal(AUTH_REQUIRED, "the login failed, as the playbook says")
        self._authenticated = True
        return {}

    # --- sessions ---

    async def _new(self, request: Request, _: Any) -> Any:
        self._log_in_first()
        await self._reply("session/new", self._agent.new)
        live = self._open(Record(id=new_id(), cwd=request.cwd), request)
        self.player.keep(live.record)
        return {"sessionId": live.record.id, **self._settings(live.record)}

    async def _load(self, request: Request, _: Any) -> Any:
        return await self._reopen("session/load", request, self._agent.load, replays=True)

    async def _resume(self, request: Request, _: Any) -> Any:
        return await self._reopen("session/resume", request, self._agent.resume, replays=False)

    async def _reopen(self, method: str, request: Request, given: Reopen | Any, *, replays: bool) -> Any:
        self._log_in_first()
        way = self._way(method, given if isinstance(given, Reopen) else Reopen(how=given))
        if way.how == "gone":
            raise _not_found(request, NOT_FOUND)
        if way.how != "starts_new":
            await self._do(method, way)
        record = None if way.how == "starts_new" else self._find(request.session_id)
        if record is None:
            if way.how != "starts_new" and self._book.sessions.unknown != "new":
                raise _not_found(request, self._book.sessions.unknown)
            record = Record(id=request.session_id, cwd=request.cwd)
        elif record.cwd != request.cwd and way.other_cwd != "works":
            if way.other_cwd == "hangs":
                await asyncio.Event().wait()
            raise _not_found(request, NOT_FOUND)
        else:
            self._forget(record)
        record.cwd = request.cwd
        live = self._open(record, request)
        self.player.keep(record)
        if way.announces:
            commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
            await self.wire.notify("session/update", {"sessionId": record.id, "update": commands})
        if way.replay if way.replay is not None else replays:
            await self._replay(live.record, way)
        return self._settings(record)

    async def _list(self, request: Request, _: Any) -> Any:
        await self._reply("session/list", self._agent.list)
        starts_new = _how(self._agent.resume) == "starts_new"  # it knows no session but those of this process
        records = {} if starts_new else {record.id: record for record in self._folder.all()}
        for live in self._live.values():
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

    async def _fork(self, request: Request, _: Any) -> Any:
        self._log_in_first()
        await self._reply("session/fork", self._agent.fork)
        record = self._find(request.session_id)
        if record is None:
            raise _not_found(request, NOT_FOUND)
        copy = msgspec.convert(msgspec.to_builtins(record), Record)
        copy.id, copy.cwd, copy.unfinished = new_id(), request.cwd, None
        live = self._open(copy, request)
        self.player.keep(copy)
        return {"sessionId": live.record.id, **self._settings(copy)}

    async def _close(self, request: Request, _: Any) -> Any:
        await self._reply("session/close", self._agent.close)
        live = self._live.pop(request.session_id, None)
        if live is None:
            raise _not_found(request, NOT_FOUND)
        if live.stage and live.stage.task:
            live.stage.task.cancel()
        await live.servers.stop()
        return {}

    async def _set_mode(self, request: Request, _: Any) -> Any:
        record = self._session(request).record
        modes = self._agent.modes
        if modes is None or request.mode_id not in [one["id"] for one in talk.choices(modes.available, "id")]:
            raise Refusal(INVALID_PARAMS, f"there is no mode {request.mode_id!r}")
        record.mode = request.mode_id
        self.player.keep(record)
        return {}

    async def _set_config(self, request: Request, _: Any) -> Any:
        record = self._session(request).record
        if request.config_id not in [option["id"] for option in self._options(record)]:
            raise Refusal(INVALID_PARAMS, f"there is no option {request.config_id!r}")
        record.config[request.config_id] = request.value
        self.player.keep(record)
        return {"configOptions": self._options(record)}

    # --- a turn ---

    async def _prompt(self, request: Request, request_id: Any) -> Any:
        live = self._session(request)
        if live.stage is not None:
            raise Refusal(INVALID_REQUEST, "a turn is running in this session")
        part = self.player.begin(live.record, self._text_of(request.prompt))
        stage = live.stage = Stage(self.wire, live.record, live.servers, live.record.said[-1].text)
        live.part = part
        turning = self._turning[id(stage)] = Turning(request_id)
        try:
            end = await self._play(live, stage, part)
            if turning.answered:
                return Answered
            self._over(live, stage)
            return _stop(end)
        except TurnFailed as failed:
            if turning.answered:
                return Answered
            self._over(live, stage)
            data = None if failed.failure.data is UNSET else failed.failure.data
            raise Refusal(failed.failure.code, failed.failure.message, data) from None
        finally:
            self._turning.pop(id(stage), None)
            if live.stage is stage:
                live.stage = None

    async def _play(self, live: Live, stage: Stage, part: Part) -> End:
        """A task of its own, which a cancel can end without ending the answer."""
        stage.task = asyncio.create_task(self.player.play(stage, part))
        try:
            end: End = await stage.task
            return end
        except asyncio.CancelledError:
            if not stage.cancelled.is_set() and live.record.id in self._live:
                stage.task.cancel()  # it is the agent that ends
                raise
            return await self.player.play_cancelled(stage, part)

    async def _answer_now(self, stage: Stage, end: End) -> None:
        """The script answers before its turn is over, perhaps twice. For the client the turn is over."""
        turning = self._turning.get(id(stage))
        if turning is None:
            return
        live = self._live.get(stage.record.id)
        if not turning.answered and live is not None:
            self._over(live, stage)  # before it is told: who hears of it may begin the next one at once
        turning.answered = True
        await self.wire.answer(turning.request_id, _stop(end))

    def _over(self, live: Live, stage: Stage) -> None:
        if live.part is not None and live.stage is stage:
            self.player.finish(live.record, live.part)
            live.stage = live.part = None

    async def _cancel(self, request: Request, _: Any) -> Any:
        live = self._live.get(request.session_id)
        stage = live.stage if live else None
        if live is None or stage is None or live.part is None or stage.deaf:
            return
        if "cancel" in self._agent.ignores or live.part.turn.on_cancel == "ignore":
            return
        stage.cancelled.set()
        if stage.task and not stage.asking:
            stage.task.cancel()

    # --- what they share ---

    def _log_in_first(self) -> None:
        auth = self._agent.auth
        if auth and auth.required and not self._authenticated:
            raise Refusal(AUTH_REQUIRED, "Authentication required", {"methods": [auth.id]})

    async def _reply(self, method: str, given: Any) -> None:
        """As the script wants this method to answer; returns when it works."""
        await self._do(method, self._way(method, Reply(how=given) if isinstance(given, str) else given))  # type: ignore[arg-type]

    def _way(self, method: str, way: W) -> W:
        """What happens only once, and has, is over: it works."""
        over = way.once and not self.player.first_time(way.once, method)
        return structs.replace(way, how="works") if over else way

    async def _do(self, method: str, way: Reply | Reopen) -> None:
        await asyncio.sleep(way.after)
        match way.how:
            case "absent":
                raise Refusal(METHOD_NOT_FOUND, "Method not found", {"method": method})
            case "refuses":
                raise Refusal(way.error, way.message)
            case "hangs":
                await asyncio.Event().wait()
            case "dies":
                faults.crash(Crash(how="kill"))

    def _open(self, record: Record, request: Request) -> Live:
        live = self._live[record.id] = Live(record, request.mcp_servers or [])
        if self._connect.how == "at_start":
            live.servers.connect(self._connect.wait_for)
        return live

    def _find(self, session_id: str) -> Record | None:
        live = self._live.get(session_id)
        return live.record if live else self._folder.load(session_id)

    def _session(self, request: Request) -> Live:
        live = self._live.get(request.session_id)
        if live is None:
            raise _not_found(request, NOT_FOUND)
        return live

    def _forget(self, record: Record) -> None:
        """Some agents lose the message of the turn in which they were killed."""
        left = record.unfinished
        if left is None or not self._book.sessions.forgets_killed_prompt or record.id in self._live:
            return
        record.said = [said for said in record.said if said.turn != left.turn]
        record.shown = [
            shown
            for shown in record.shown
            if shown.turn != left.turn or shown.update["sessionUpdate"] != "user_message_chunk"
        ]

    async def _replay(self, record: Record, way: Reopen) -> None:
        for shown in list(record.shown):
            update = dict(shown.update)
            if "toolCallId" in update and way.tool_calls == "new_ids":
                update["toolCallId"] = f"replayed-{update['toolCallId']}"
            if "title" in update and way.tool_calls == "new_titles":
                update["title"] = f"Replayed: {update['title']}"
            await self.wire.notify("session/update", {"sessionId": way.replay_as or record.id, "update": update})

    def _settings(self, record: Record) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        if modes := self._agent.modes:
            available = talk.choices(modes.available, "id")
            answer["modes"] = {"currentModeId": record.mode or modes.current, "availableModes": available}
        if options := self._options(record):
            answer["configOptions"] = options
        return answer

    def _options(self, record: Record) -> list[dict[str, Any]]:
        return talk.config_options(self._agent.config, self._agent.models, record.config)

    def _text_of(self, prompt: list[dict[str, Any]]) -> str:
        parts: list[str] = []
        for block in prompt:
            kind = block.get("type")
            if kind in _BLOCKS and _BLOCKS[kind] not in self._agent.accepts:
                raise Refusal(INVALID_PARAMS, f"this agent takes no {_BLOCKS[kind]} in a prompt")
            if kind == "text":
                parts.append(str(block.get("text", "")))
            elif kind == "resource" and "text" in block.get("resource", {}):
                parts.append(str(block["resource"]["text"]))
            else:
                parts.append(f"[{kind} {block.get('uri', '')}]".replace(" ]", "]"))
        return "\n".join(parts)


def _how(given: Any) -> str:
    return str(given if isinstance(given, str) else given.how)


def _advertised(given: Any) -> bool:
    if isinstance(given, str):
        return given != "absent"
    return bool(given.how != "absent" if given.advertised is None else given.advertised)


def _not_found(request: Request, code: int) -> Refusal:
    return Refusal(code, f"there is no session {request.session_id}")


def _stop(end: End) -> dict[str, Any]:
    if end.usage is None:
        return {"stopReason": end.reason}
    counted = {"inputTokens": end.usage.input, "outputTokens": end.usage.output}
    return {"stopReason": end.reason, "usage": {**counted, "totalTokens": end.usage.input + end.usage.output}}
