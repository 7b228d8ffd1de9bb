"""The ACP side of the tmux proxy: an ACP agent whose turns happen in a window.

A prompt is written to a file, and a line that names it is typed into the window. The agent's report ends the turn.
When the pane is lost, the proxy exits too: for its client, the agent died.
"""

import asyncio
import json
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple

import msgspec

from holdfast import __version__
from holdfast.agents.jsonrpc.connection import (
    INTERNAL_ERROR_CODE,
    INVALID_PARAMS_CODE,
    INVALID_REQUEST_CODE,
    METHOD_NOT_FOUND_CODE,
    RESOURCE_NOT_FOUND_CODE,
    JsonRpcError,
)
from holdfast.agents.jsonrpc.stdio import StdioConnection
from holdfast.agents.tmux.files import SessionNames, TmuxFiles
from holdfast.agents.tmux.launch_request import ExecRequest, TmuxLaunchRequest
from holdfast.agents.tmux.pane import PaneLost, TmuxPane, squeeze, watch_pane
from holdfast.agents.tmux.server import TmuxServer
from holdfast.core.conversation.states import SESSION_UNAVAILABLE_CODE
from holdfast.core.conversation.terminal_ui import StartupQuestion, fill_placeholders
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.process.identity import ProcessTable, identify
from holdfast.leaf.process.own_program import holdfast_command

_PROMPT_LINE = "Read {path} and do what it says."
_RESUME_TIMEOUT_S = 45.0  # until a resumed program shows its screen or dies
_ECHO_TIMEOUT_S = 5.0  # until a pasted line is visible; without it, Enter is not pressed
_POLL_INTERVAL_S = 2.0  # between two reads of the screen of a working agent, which may change all the time
_HEARTBEAT_INTERVAL_S = 10.0
_ALLOW, _REJECT = "allow", "reject"
_AGENT_NAME = "holdfast-tmux"


class AgentReport(NamedTuple):
    """A report of the agent: the tool and its text."""

    tool: str
    text: str


class TmuxAcpServer:
    """Serves ACP for one window. `reports` yields the conversation's new reports."""

    def __init__(self, request: TmuxLaunchRequest, reports: AsyncIterator[AgentReport]) -> None:
        self._request = request
        self._slot = request.slot
        self._tui = request.slot.tui
        self._files = TmuxFiles(request.slot)
        self._server = TmuxServer(request.slot.socket)
        self._reports = reports
        self._stack = AsyncExitStack()
        self._pane: TmuxPane | None = None
        self._session = SessionNames("")
        self._open_questions: list[StartupQuestion] = []
        self._turn: asyncio.Future[str] | None = None
        self._last_heartbeat = 0.0
        self._is_prompt_sent = False
        self._background: set[asyncio.Task[Any]] = set()
        self.pane_lost = asyncio.Event()
        self.connection = StdioConnection(self._handle)
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
        }

    async def serve(self) -> bool:
        """Serve until the client disconnects, or the pane is lost. True when it was lost."""
        tasks = {
            asyncio.ensure_future(self.connection.listen()),
            asyncio.ensure_future(self.pane_lost.wait()),
            asyncio.ensure_future(self._follow_reports()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return self.pane_lost.is_set()
        finally:
            for task in (*tasks, *self._background):
                task.cancel()
            await self.connection.stop()
            await self._stack.aclose()

    async def _handle(self, method: str, params: Any, _: Any) -> Any:
        if method not in self._methods:
            raise JsonRpcError(METHOD_NOT_FOUND_CODE, "Method not found", {"method": method})
        try:
            return await self._methods[method](params or {})
        except KeyError as error:
            raise JsonRpcError(INVALID_PARAMS_CODE, f"Invalid params: {error} is missing") from None
        except (HoldfastError, OSError) as error:  # of the disk, or of tmux: a later attempt may succeed
            raise JsonRpcError(SESSION_UNAVAILABLE_CODE, str(error)) from None
        except PaneLost:
            await asyncio.Event().wait()  # the exit of this process is the answer

    async def _initialize(self, _: dict[str, Any]) -> Any:
        capabilities: dict[str, Any] = {"resume": {}, "list": {}} if self._tui.resume else {}
        info = {
            "name": _AGENT_NAME,
            "version": __version__,
            "title": f"{os.path.basename(self._tui.command[0])} in tmux",
        }
        return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {"sessionCapabilities": capabilities}}

    # --- sessions ---

    async def _new(self, params: dict[str, Any]) -> Any:
        session = str(uuid.uuid4())
        self._session = SessionNames(session, session if self._tui.accepts_session_id else None)
        self._files.save_session(self._session)  # before it exists: if we are killed from now on, it can be resumed
        await self._open(params, self._tui.new, session)
        return {"sessionId": session}

    async def _list(self, _: dict[str, Any]) -> Any:
        """Return the session of this window, if its program can resume it."""
        names = self._files.load_session()
        known = [names.session] if names is not None and names.native is not None else []
        return {"sessions": [{"sessionId": session, "cwd": self._request.cwd} for session in known]}

    async def _resume(self, params: dict[str, Any]) -> Any:
        names = self._files.find_session(params["sessionId"])
        if names is None or names.native is None or not self._tui.resume:
            raise JsonRpcError(RESOURCE_NOT_FOUND_CODE, "the agent's own id of this session is unknown")
        self._session = names
        pane = await self._open(params, self._tui.resume, names.native, watch=False)
        try:
            await pane.wait_for(
                lambda screen: self._question_on(screen) or self._is_ready(screen) or None, _RESUME_TIMEOUT_S
            )
        except PaneLost:
            await self._stack.aclose()
            self._pane = None
            last_line = pane.last_output().rpartition("\n")[2]
            raise JsonRpcError(
                RESOURCE_NOT_FOUND_CODE, f"its program exited instead of resuming this session: {last_line}"
            ) from None
        self._watch_for_loss(pane)
        return {}

    async def _open(
        self, params: dict[str, Any], arguments: tuple[str, ...], session_id: str, *, watch: bool = True
    ) -> TmuxPane:
        if self._pane is not None:
            raise JsonRpcError(INVALID_REQUEST_CODE, "this window has a session already")
        servers = list(params.get("mcpServers") or [])
        first = servers[0] if servers else {"command": "", "args": []}
        values = {
            "session": session_id,
            "mcp": self._files.write_mcp_config(servers),
            "mcp_command": json.dumps(first["command"]),
            "mcp_arguments": json.dumps(first.get("args") or []),
            "prompts": self._files.prompts_folder,
        }
        variables = {name: fill_placeholders(value, values) for name, value in self._tui.environment.items()}
        exec_request = ExecRequest(
            command=tuple(fill_placeholders(argument, values) for argument in (*self._tui.command, *arguments)),
            cwd=self._request.cwd,
            environment={**variables, **self._request.environment},
            fd_marker=self._request.fd_marker,
        )
        path, pipe = self._stack.enter_context(self._files.open_pipe())
        command = holdfast_command(path, module="holdfast.agents.tmux.exec_agent")
        window = await asyncio.to_thread(
            self._server.open_window,
            self._slot,
            command,
            environment=self._request.env_markers,
        )
        self._pane = await self._stack.enter_async_context(watch_pane(self._server, window))
        self._pane.on_output = self._send_heartbeat
        os.write(pipe, msgspec.json.encode(exec_request) + b"\n")
        if watch:
            self._watch_for_loss(self._pane)
        return self._pane

    def _watch_for_loss(self, pane: TmuxPane) -> None:
        async def lose() -> None:
            await pane.lost.wait()
            sys.stderr.write(f"the pane was lost; its last output:\n{pane.last_output()}\n")
            self.pane_lost.set()

        self._run_in_background(lose())

    # --- a turn ---

    async def _prompt(self, params: dict[str, Any]) -> Any:
        pane = self._pane
        if pane is None or params["sessionId"] != self._session.session:
            raise JsonRpcError(RESOURCE_NOT_FOUND_CODE, "this session is not open", {"sessionId": params["sessionId"]})
        if self._turn is not None:
            raise JsonRpcError(INVALID_REQUEST_CODE, "a turn is running in this session")
        text = "\n\n".join(str(block.get("text", "")) for block in params["prompt"])
        turn = self._turn = asyncio.get_running_loop().create_future()
        sending = self._run_in_background(self._send_prompt(pane, self._files.write_prompt(text)))
        sending.add_done_callback(lambda done: _fail_turn_on_error(done, turn))
        try:
            pane_lost = asyncio.ensure_future(pane.lost.wait())
            await asyncio.wait({turn, pane_lost}, return_when=asyncio.FIRST_COMPLETED)
            pane_lost.cancel()
            if not turn.done():
                raise PaneLost
            return {"stopReason": turn.result()}
        finally:
            sending.cancel()
            self._turn, self._is_prompt_sent = None, False
            self._find_native_session(pane)

    async def _send_prompt(self, pane: TmuxPane, path: str) -> None:
        """Type the prompt once the program is ready. A person answers its questions, through us or in the window."""
        expected = squeeze(os.path.basename(path))
        while True:
            while isinstance(found := await pane.wait_for(self._ready_or_question), StartupQuestion):
                self._start_asking(pane, found)
            before = await pane.screen()
            await pane.press(self._tui.clear)
            await pane.paste(_PROMPT_LINE.format(path=path))
            if await pane.wait_for(lambda screen: expected in squeeze(screen) or None, _ECHO_TIMEOUT_S):
                break
            if await pane.screen() == before:  # the line is not visible, and Enter might answer something else
                await pane.wait_for_change()
        self._is_prompt_sent = True  # before Enter: the agent may report at once
        await pane.press(("Enter",))
        await self.connection.notify("_holdfast/told", {"pane": pane.window.pane_id})  # the turn may have started
        while isinstance(
            found := await pane.wait_for(self._new_question, poll_interval_s=_POLL_INTERVAL_S), StartupQuestion
        ):  # some ask only now
            self._start_asking(pane, found)

    def _ready_or_question(self, screen: str) -> StartupQuestion | bool | None:
        """Return True when the program accepts input, or a new question that it asks."""
        if self._question_on(screen) is not None:
            return self._new_question(screen)
        return self._is_ready(screen) or None

    def _new_question(self, screen: str) -> StartupQuestion | None:
        """Return the question on the screen, unless it was passed on already."""
        question = self._question_on(screen)
        return question if question not in self._open_questions else None

    def _start_asking(self, pane: TmuxPane, question: StartupQuestion) -> None:
        self._open_questions.append(question)
        self._run_in_background(self._ask_permission(pane, question))

    def _question_on(self, screen: str) -> StartupQuestion | None:
        return next((question for question in self._tui.questions if re.search(question.when, screen)), None)

    def _is_ready(self, screen: str) -> bool:
        return re.search(self._tui.ready, screen, re.MULTILINE) is not None

    async def _ask_permission(self, pane: TmuxPane, question: StartupQuestion) -> None:
        """Pass a question on as a permission request; press the answer only while the question is on the screen."""
        options = [
            {"optionId": _ALLOW, "name": "Yes", "kind": "allow_once"},
            {"optionId": _REJECT, "name": "No", "kind": "reject_once"},
        ]
        tool_call = {
            "toolCallId": f"question-{uuid.uuid4().hex[:8]}",
            "title": question.about,
            "kind": "other",
            "status": "pending",
        }
        request = {"sessionId": self._session.session, "toolCall": tool_call, "options": options}
        answer = await self.connection.request("session/request_permission", request)
        keys = {_ALLOW: question.yes, _REJECT: question.no}.get((answer or {}).get("outcome", {}).get("optionId"), ())
        if keys and self._question_on(await pane.screen()) is question:
            await pane.press(keys)
        await self._send_update("tool_call_update", toolCallId=tool_call["toolCallId"], status="completed")
        if keys:
            await pane.wait_for(lambda screen: self._question_on(screen) is not question or None)
        self._open_questions.remove(question)  # if it appears again, it is asked again

    async def _cancel(self, _: dict[str, Any]) -> Any:
        if self._turn is not None and self._pane is not None and not self._turn.done():
            await self._pane.press(self._tui.interrupt)
            if not self._turn.done():
                self._turn.set_result("cancelled")

    async def _follow_reports(self) -> None:
        """End the turn on the agent's report. Reports outside of a turn are only for the run."""
        async for report in self._reports:
            turn = self._turn
            if turn is None or not self._is_prompt_sent or report.tool not in self._slot.endings:
                continue
            await self._send_update("agent_message_chunk", content={"type": "text", "text": report.text})
            if not turn.done():
                turn.set_result("end_turn")
        raise AssertionError("reports do not end")

    async def _send_update(self, kind: str, **fields: Any) -> None:
        params = {"sessionId": self._session.session, "update": {"sessionUpdate": kind, **fields}}
        await self.connection.notify("session/update", params)

    def _send_heartbeat(self) -> None:
        """Tell the client now and then that the agent is active: it writes to its screen."""
        now = asyncio.get_running_loop().time()
        if self._turn is not None and self._is_prompt_sent and now - self._last_heartbeat > _HEARTBEAT_INTERVAL_S:
            self._last_heartbeat = now
            if self._pane is not None:
                self._find_native_session(self._pane)  # not only at the end of the turn: we may be killed before
            self._run_in_background(self.connection.notify("_holdfast/alive", {}))

    def _find_native_session(self, pane: TmuxPane) -> None:
        """Find the program's own session id in the name of a file that it holds open."""
        if self._session.native is not None or self._tui.found is None:
            return
        for path in _open_files(pane.window.pid):
            if found := re.search(self._tui.found, path):
                self._session = SessionNames(self._session.session, found[1])
                self._files.save_session(self._session)
                return

    def _run_in_background(self, coroutine: Awaitable[None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(_ignore_expected_errors(coroutine))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _fail_turn_on_error(task: "asyncio.Task[None]", turn: "asyncio.Future[str]") -> None:
    """Fail the turn when its prompt could not be sent."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not turn.done():
        turn.set_exception(JsonRpcError(INTERNAL_ERROR_CODE, str(error)))


async def _ignore_expected_errors(coroutine: Awaitable[None]) -> None:
    with suppress(PaneLost, JsonRpcError):
        await coroutine


def _open_files(pid: int) -> list[str]:
    """Return the open files of a process and its descendants."""
    root, found = identify(pid), []
    for process in (root, *ProcessTable().descendants(root)) if root is not None else ():
        with suppress(OSError):
            for fd in os.listdir(f"/proc/{process.pid}/fd"):
                with suppress(OSError):
                    found.append(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
    return found
