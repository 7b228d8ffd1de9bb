"""A chat for programs: one JSON object a line, in and out."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from threading import Thread
from typing import Any

import msgspec

from holdfast.app.cli.chat.client import MAX_RESTARTS, ChatClient
from holdfast.app.cli.live.async_writer import AsyncWriter, ReaderGone
from holdfast.app.cli.live.run_session import exit_code_for
from holdfast.app.text.interview_plan import plan_as_json, read_plan
from holdfast.core.events.conversation import TurnEnded
from holdfast.core.log.codec import Line
from holdfast.core.messages.attachments import Attachment
from holdfast.core.state import RunState, Session
from holdfast.engine.queries.conversations import conversations_of
from holdfast.engine.queries.logs import view_from_state, view_run
from holdfast.leaf.errors import EXIT_OK, BadInput, HoldfastError

_READ_BYTES = 64 * 1024
_POLL_S = 1.0  # how soon the death of a runner is seen
# Done in the order in which they were read: what they do depends on those before.
_IN_ORDER = frozenset(["say", "compact", "plan", "accept", "add", "edit", "drop", "option", "conversation"])


class JsonChat:
    """`{"event": …}`, `{"hint": …}`, `{"state": …}`, `{"done": …}` and `{"error": …}` go out; commands come in."""

    def __init__(self, client: ChatClient, *, is_new: bool = False) -> None:
        self._client = client
        self._is_new = is_new  # its first session may have ended before the client was opened
        self._writer = AsyncWriter(sys.stdout.fileno())
        self._state: dict[str, Any] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._order = asyncio.Lock()
        self._restarts = 0  # of runners that died with something to do
        self._commands: Mapping[str, Callable[[Any], Awaitable[object]]] = {
            "say": self._say,
            "accept": self._accept,
            "cancel": lambda _: client.cancel(),
            "compact": lambda _: client.compact(),
            "plan": self._plan,
            "answer": self._answer,
            "option": self._option,
            "add": self._add,
            "conversation": self._choose,
            "queue": self._queue,
            "edit": self._edit,
            "drop": lambda message: client.drop(str(message)),
        }

    async def run(self, first: str | None = None) -> int:
        """Until `quit`, or the end of the input. Messages on their way are finished first. `first` is sent at once."""
        sessions = {} if self._is_new else self._client.state.sessions
        ended_before = {sid for sid, session in sessions.items() if session.ended}
        if first is not None:
            self._start(json.dumps({"say": first}).encode())
        watching = [asyncio.ensure_future(part) for part in (self._events(), self._hints(), self._owners())]
        reading = asyncio.ensure_future(self._read())
        try:
            done, _ = await asyncio.wait((*watching, reading), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(ReaderGone):
                    task.result()
            if self._running:
                await asyncio.wait(self._running)
        finally:
            for task in (*watching, reading):
                task.cancel()
            await asyncio.gather(*watching, reading, return_exceptions=True)
            self._writer.close()
        return await self._exit_code(ended_before)

    async def _exit_code(self, ended_before: Collection[str]) -> int:
        """Of the session that ended last while this client was here, as for `holdfast wait`."""
        ended = _ended_session((await view_run(self._client.home, self._client.run_id)).state)
        if ended is None or ended.sid in ended_before:
            return EXIT_OK
        return exit_code_for(ended.end_reason or "")

    async def _put(self, kind: str, value: object) -> None:
        await self._writer.write(msgspec.json.encode({kind: value}) + b"\n")

    # Out

    async def _events(self) -> None:
        await self._put_state()
        async for update in self._client.updates():
            for line in update.lines:
                if isinstance(line.line, Line):
                    self._restarts = 0 if line.line.type == TurnEnded.type else self._restarts
                    await self._put("event", msgspec.Raw(line.raw))
            await self._put_state()

    async def _hints(self) -> None:
        async for hint in self._client.hints():
            await self._put("hint", hint)

    async def _owners(self) -> None:
        """A runner that dies writes nothing: its absence is a new state. What it left undone gets another one."""
        had_runner = True
        while True:
            has_runner = self._client.has_runner
            is_gone = had_runner and not has_runner
            if is_gone and self._restarts < MAX_RESTARTS and await self._client.waits_for_runner():
                self._restarts += 1
                with suppress(HoldfastError):  # the state shows that there is none
                    await self._client.restart_runner()
            had_runner = has_runner
            await asyncio.sleep(_POLL_S)
            await self._put_state()

    async def _put_state(self) -> None:
        client = self._client
        view = await view_from_state(client.home, client.run_id, client.state)
        state = {
            "run": client.run_id,
            "runner": view.holder is not None,
            "target": client.target,
            "working": client.is_working,
            "conversations": [one._asdict() for one in conversations_of(view)],
            "requests": [{"request": need.key, "text": need.text} for need in client.requests()],
        }
        if state != self._state:
            self._state = state
            await self._put("state", state)

    # In

    async def _read(self) -> None:
        lines = asyncio.Queue[bytes]()
        loop = asyncio.get_running_loop()
        Thread(
            target=_read_lines, args=(lambda raw: loop.call_soon_threadsafe(lines.put_nowait, raw),), daemon=True
        ).start()
        while raw := await lines.get():
            if not raw.strip():
                continue
            try:
                if not self._start(raw):
                    return
            except (ValueError, HoldfastError) as error:
                await self._put("error", {"message": str(error)})

    def _start(self, raw: bytes) -> bool:
        """Start one command; return False for `quit`."""
        command = json.loads(raw)
        if not isinstance(command, dict) or len(command) != 1:
            raise BadInput('a line is an object with one command, such as {"say": "hello"}')
        (name, value), *_ = command.items()
        if name == "quit":
            return False
        perform = self._commands.get(name)
        if perform is None:
            raise BadInput(f"unknown command {name!r}; the commands are {', '.join(self._commands)}, quit")
        task = asyncio.ensure_future(self._perform(name, perform, value))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return True

    async def _perform(self, name: str, perform: Callable[[Any], Awaitable[object]], value: Any) -> None:
        with suppress(ReaderGone):
            try:
                async with self._order if name in _IN_ORDER else nullcontext():
                    result = await perform(value)
            except (HoldfastError, OSError, KeyError, TypeError, AttributeError) as error:
                await self._put("error", {"command": name, "message": str(error) or repr(error)})
            else:
                await self._put("done", {"command": name, "result": result})

    async def _say(self, value: Any) -> str:
        """A text, or an object with a text and attachments."""
        text, files = (value.get("text"), value.get("attachments")) if isinstance(value, dict) else (value, None)
        if not isinstance(text, str) or not text.strip():
            raise BadInput("say: the message is empty")
        return await self._client.say(text, [await self._attach(file) for file in files or []])

    async def _attach(self, file: Any) -> Attachment:
        """A `path` on this machine, or a `name` and base64 `data`."""
        name, media_type = file.get("name"), file.get("media_type")
        if isinstance(file.get("path"), str):
            return await self._client.attach(file["path"], name, media_type)
        if not isinstance(name, str) or not isinstance(file.get("data"), str):
            raise BadInput('an attachment has a "path", or a "name" and "data" in base64')
        try:
            data = base64.b64decode(file["data"], validate=True)
        except ValueError as error:
            raise BadInput(f"the data of {name} is not base64: {error}") from error
        return await self._client.attach_bytes(name, data, media_type)

    async def _accept(self, value: Any) -> str:
        return await self._client.accept(finish=isinstance(value, dict) and value.get("finish") is True)

    async def _plan(self, value: Any) -> object:
        """`true` for the plan of an interview, or the plan that replaces it."""
        if value is not True:
            plan = read_plan(value)
            return await self._client.edit_plan(plan.overview, plan.tasks, plan.seeds)
        interview = self._client.state.interview
        return plan_as_json(interview) if interview is not None else None

    async def _answer(self, value: Any) -> None:
        """Without a `request`, the oldest that is open."""
        wanted = value.get("request")
        found = [need for need in self._client.requests() if wanted in (None, need.key)]
        if not found:
            raise BadInput(f"there is no open request {wanted or ''}".rstrip())
        allow, always = value["allow"] is True, value.get("always") is True
        await self._client.answer(found[0], allow=allow, always=always, reason=value.get("reason"))

    async def _option(self, value: Any) -> None:
        for name, chosen in dict(value).items():
            await self._client.set_option(str(name), None if chosen is None else str(chosen))

    async def _add(self, value: Any) -> str:
        own = value.get("own_worktree") is True
        return await self._client.add(str(value["agent"]), str(value["text"]), own_worktree=own)

    async def _choose(self, conversation_id: Any) -> None:
        if conversation_id is not None and conversation_id not in self._client.state.conversations:
            raise BadInput(f"there is no conversation {conversation_id!r}")
        self._client.conversation_id = conversation_id

    async def _queue(self, _: Any) -> list[dict[str, Any]]:
        return [message._asdict() for message in await self._client.queued()]

    async def _edit(self, value: Any) -> None:
        await self._client.edit(str(value["message"]), str(value["text"]))


def _ended_session(state: RunState) -> Session | None:
    """The newest session, unless a runner is at work or died."""
    newest = state.newest_session()
    return newest if newest is not None and newest.ended else None


def _read_lines(put: Callable[[bytes], object]) -> None:
    """Read standard input, whatever it is. An empty line is its end.

    From the descriptor: at exit, Python would wait for the lock of a stream that this thread reads.
    """
    rest = b""
    with suppress(RuntimeError, OSError):  # the loop is closed: we are leaving
        while data := os.read(sys.stdin.fileno(), _READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for raw in lines:
                put(raw + b"\n")
        if rest.strip():
            put(rest)
        put(b"")
