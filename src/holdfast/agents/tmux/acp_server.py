"""The go-between as its client sees it: an agent of the Agent Client Protocol whose turns are played in a window.

A prompt is a file, and a line typed into the window that names it. The turn ends by the agent's own report. When its
pane is lost the go-between ends as well: to its client an agent has died.
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
from holdfast.agents.playbook.format import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND
from holdfast.agents.playbook.jsonrpc import INVALID_REQUEST, Refusal, Wire
from holdfast.agents.tmux.files import Memory, Notes
from holdfast.agents.tmux.launch_request import Order, Start
from holdfast.agents.tmux.pane import Pane, PaneLost, squeezed, watched
from holdfast.agents.tmux.server import Server
from holdfast.core.conversation.states import NOT_NOW
from holdfast.core.conversation.terminal_ui import Question, filled
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.process.identity import Families, identify
from holdfast.leaf.process.own_program import own_program

_TELL = "Read {path} and do what it says."
_RETURN = 45.0  # seconds in which one that comes back either shows its screen or dies
_ECHO = 5.0  # seconds for a pasted line to be seen; without it, Enter is not pressed
_PAUSE = 2.0  # seconds between two looks at one that is at work, and may write all the time
_PULSE = 10.0  # seconds between two signs of life
_ALLOW, _REJECT = "allow", "reject"
_ABOUT = "holdfast-tmux"


class Report(NamedTuple):
    """What the agent reported: by which tool, and in what words."""

    tool: str
    text: str


class Face:
    """`reports` are those of this conversation, from now on."""

    def __init__(self, order: Order, reports: AsyncIterator[Report]) -> None:
        self._order = order
        self._berth = order.berth
        self._tui = order.berth.tui
        self._notes = Notes(order.berth)
        self._server = Server(order.berth.socket)
        self._reports = reports
        self._stack = AsyncExitStack()
        self._pane: Pane | None = None
        self._memory = Memory("")
        self._passed_on: list[Question] = []
        self._turn: asyncio.Future[str] | None = None
        self._pulse = 0.0
        self._told = False
        self._background: set[asyncio.Task[Any]] = set()
        self.lost = asyncio.Event()
        self.wire = Wire(self._handle)
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
        }

    async def serve(self) -> bool:
        """Until the client goes, or the pane is lost: True for that."""
        hearing = asyncio.ensure_future(self._hear())
        waiting = {asyncio.ensure_future(self.wire.listen()), asyncio.ensure_future(self.lost.wait()), hearing}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
            return self.lost.is_set()
        finally:
            for one in (*waiting, *self._background):
                one.cancel()
            await self.wire.stop()
            await self._stack.aclose()

    async def _handle(self, method: str, params: Any, _: Any) -> Any:
        if method not in self._methods:
            raise Refusal(METHOD_NOT_FOUND, "Method not found", {"method": method})
        try:
            return await self._methods[method](params or {})
        except KeyError as error:
            raise Refusal(INVALID_PARAMS, f"Invalid params: {error} is missing") from None
        except (HoldfastError, OSError) as error:  # of the disk, or of tmux: what was asked for may be had later
            raise Refusal(NOT_NOW, str(error)) from None
        except PaneLost:
            await asyncio.Event().wait()  # the end of this process is the answer

    async def _initialize(self, _: dict[str, Any]) -> Any:
        can: dict[str, Any] = {"resume": {}, "list": {}} if self._tui.resume else {}
        about = {"name": _ABOUT, "version": __version__, "title": f"{os.path.basename(self._tui.command[0])} in tmux"}
        return {"protocolVersion": 1, "agentInfo": about, "agentCapabilities": {"sessionCapabilities": can}}

    # --- sessions ---

    async def _new(self, given: dict[str, Any]) -> Any:
        session = str(uuid.uuid4())
        self._memory = Memory(session, session if self._tui.takes_an_id else None)
        self._notes.remember(self._memory)  # before it is there: a kill from now on leaves a way back
        await self._open(given, self._tui.new, session)
        return {"sessionId": session}

    async def _list(self, _: dict[str, Any]) -> Any:
        """The session of this window, when its program can find it again."""
        memory = self._notes.memory()
        known = [memory.session] if memory is not None and memory.native is not None else []
        return {"sessions": [{"sessionId": session, "cwd": self._order.cwd} for session in known]}

    async def _resume(self, given: dict[str, Any]) -> Any:
        memory = self._notes.recall(given["sessionId"])
        if memory is None or memory.native is None or not self._tui.resume:
            raise Refusal(NOT_FOUND, "nobody knows by which name its program would find this session")
        self._memory = memory
        pane = await self._open(given, self._tui.resume, memory.native, watch=False)
        try:
            await pane.until(lambda screen: self._asked(screen) or self._is_ready(screen) or None, _RETURN)
        except PaneLost:
            await self._stack.aclose()
            self._pane = None
            said = pane.last_words().rpartition("\n")[2]
            raise Refusal(NOT_FOUND, f"its program ended when it was asked for this session: {said}") from None
        self._watch(pane)
        return {}

    async def _open(self, given: dict[str, Any], words: tuple[str, ...], session: str, *, watch: bool = True) -> Pane:
        if self._pane is not None:
            raise Refusal(INVALID_REQUEST, "there is a session in this window")
        servers = list(given.get("mcpServers") or [])
        first = servers[0] if servers else {"command": "", "args": []}
        values = {
            "session": session,
            "mcp": self._notes.tools(servers),
            "mcp_command": json.dumps(first["command"]),
            "mcp_arguments": json.dumps(first.get("args") or []),
            "prompts": self._notes.prompts,
        }
        own = {name: filled(value, values) for name, value in self._tui.environment.items()}
        start = Start(
            command=tuple(filled(word, values) for word in (*self._tui.command, *words)),
            cwd=self._order.cwd,
            environment={**own, **self._order.environment},
            tether=self._order.tether,
        )
        path, pipe = self._stack.enter_context(self._notes.pipe())
        command = own_program(path, module="holdfast.agents.tmux.exec_agent")
        window = await asyncio.to_thread(
            self._server.open,
            self._berth,
            command,
            environment=self._order.marks,
        )
        self._pane = await self._stack.enter_async_context(watched(self._server, window))
        self._pane.wrote = self._alive
        os.write(pipe, msgspec.json.encode(start) + b"\n")
        if watch:
            self._watch(self._pane)
        return self._pane

    def _watch(self, pane: Pane) -> None:
        async def lose() -> None:
            await pane.lost.wait()
            sys.stderr.write(f"the pane was lost; the last of it:\n{pane.last_words()}\n")
            self.lost.set()

        self._go(lose())

    # --- a turn ---

    async def _prompt(self, given: dict[str, Any]) -> Any:
        pane = self._pane
        if pane is None or given["sessionId"] != self._memory.session:
            raise Refusal(NOT_FOUND, "this session is not open", {"sessionId": given["sessionId"]})
        if self._turn is not None:
            raise Refusal(INVALID_REQUEST, "a turn is running in this session")
        text = "\n\n".join(str(block.get("text", "")) for block in given["prompt"])
        turn = self._turn = asyncio.get_running_loop().create_future()
        telling = self._go(self._tell(pane, self._notes.prompt(text)))
        telling.add_done_callback(lambda done: _pass_on(done, turn))
        try:
            lost = asyncio.ensure_future(pane.lost.wait())
            await asyncio.wait({turn, lost}, return_when=asyncio.FIRST_COMPLETED)
            lost.cancel()
            if not turn.done():
                raise PaneLost
            return {"stopReason": turn.result()}
        finally:
            telling.cancel()
            self._turn, self._told = None, False
            self._find_native(pane)

    async def _tell(self, pane: Pane, path: str) -> None:
        """Once it can hear: what it asks before is answered by whoever may, or by a person at the window."""
        seen = squeezed(os.path.basename(path))
        while True:
            while isinstance(found := await pane.until(self._hears), Question):
                self._ask_for(pane, found)
            before = await pane.screen()
            await pane.press(self._tui.clear)
            await pane.paste(_TELL.format(path=path))
            if await pane.until(lambda screen: seen in squeezed(screen) or None, _ECHO):
                break
            if await pane.screen() == before:  # nobody shows it, and Enter might answer something else
                await pane.change()
        self._told = True  # before it is: it may report at once
        await pane.press(("Enter",))
        await self.wire.notify("_holdfast/told", {"pane": pane.window.pane})  # from now on it may have begun
        while isinstance(found := await pane.until(self._new_question, pause=_PAUSE), Question):  # some ask only now
            self._ask_for(pane, found)

    def _hears(self, screen: str) -> Question | bool | None:
        """True when it can be told something; before that, what it asks."""
        if self._asked(screen) is not None:
            return self._new_question(screen)
        return self._is_ready(screen) or None

    def _new_question(self, screen: str) -> Question | None:
        """One that was not passed on yet."""
        question = self._asked(screen)
        return question if question not in self._passed_on else None

    def _ask_for(self, pane: Pane, question: Question) -> None:
        self._passed_on.append(question)
        self._go(self._ask(pane, question))

    def _asked(self, screen: str) -> Question | None:
        return next((one for one in self._tui.questions if re.search(one.when, screen)), None)

    def _is_ready(self, screen: str) -> bool:
        return re.search(self._tui.ready, screen, re.MULTILINE) is not None

    async def _ask(self, pane: Pane, question: Question) -> None:
        """Answered once, and only while it is still on the screen."""
        options = [
            {"optionId": _ALLOW, "name": "Yes", "kind": "allow_once"},
            {"optionId": _REJECT, "name": "No", "kind": "reject_once"},
        ]
        about = {
            "toolCallId": f"question-{uuid.uuid4().hex[:8]}",
            "title": question.about,
            "kind": "other",
            "status": "pending",
        }
        asked = {"sessionId": self._memory.session, "toolCall": about, "options": options}
        answer = await self.wire.request("session/request_permission", asked)
        keys = {_ALLOW: question.yes, _REJECT: question.no}.get((answer or {}).get("outcome", {}).get("optionId"), ())
        if keys and self._asked(await pane.screen()) is question:
            await pane.press(keys)
        await self._update("tool_call_update", toolCallId=about["toolCallId"], status="completed")
        if keys:
            await pane.until(lambda screen: self._asked(screen) is not question or None)
        self._passed_on.remove(question)  # whatever comes from now on is asked anew

    async def _cancel(self, _: dict[str, Any]) -> Any:
        if self._turn is not None and self._pane is not None and not self._turn.done():
            await self._pane.press(self._tui.interrupt)
            if not self._turn.done():
                self._turn.set_result("cancelled")

    async def _hear(self) -> None:
        """What it reports. Outside of a turn it is for the run alone."""
        async for report in self._reports:
            turn = self._turn
            if turn is None or not self._told or report.tool not in self._berth.endings:
                continue
            await self._update("agent_message_chunk", content={"type": "text", "text": report.text})
            if not turn.done():
                turn.set_result("end_turn")
        raise AssertionError("reports do not end")

    async def _update(self, kind: str, **fields: Any) -> None:
        told = {"sessionId": self._memory.session, "update": {"sessionUpdate": kind, **fields}}
        await self.wire.notify("session/update", told)

    def _alive(self) -> None:
        """A sign of life, now and then: an agent at work writes to its screen, and is not silent."""
        now = asyncio.get_running_loop().time()
        if self._turn is not None and self._told and now - self._pulse > _PULSE:
            self._pulse = now
            if self._pane is not None:
                self._find_native(self._pane)  # not only at the turn's end: we may be killed before
            self._go(self.wire.notify("_holdfast/alive", {}))

    def _find_native(self, pane: Pane) -> None:
        """The name that its program gave the session, where that is not ours: by the file that it holds open."""
        if self._memory.native is not None or self._tui.found is None:
            return
        for path in _open_files(pane.window.pid):
            if found := re.search(self._tui.found, path):
                self._memory = Memory(self._memory.session, found[1])
                self._notes.remember(self._memory)
                return

    def _go(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _pass_on(work: "asyncio.Task[None]", turn: "asyncio.Future[str]") -> None:
    """A prompt that could not be told is a turn that failed."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not turn.done():
        turn.set_exception(Refusal(INTERNAL_ERROR, str(error)))


async def _quietly(work: Awaitable[None]) -> None:
    with suppress(PaneLost, Refusal):
        await work


def _open_files(pid: int) -> list[str]:
    """Of a process and all below it."""
    root, found = identify(pid), []
    for process in (root, *Families().below(root)) if root is not None else ():
        with suppress(OSError):
            for fd in os.listdir(f"/proc/{process.pid}/fd"):
                with suppress(OSError):
                    found.append(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
    return found
