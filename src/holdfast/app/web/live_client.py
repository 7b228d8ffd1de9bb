"""The one WebSocket of a tab: everything live goes over it, as JSON text that is encoded once.

For a client are kept only the rows that changed, by run, a position in each log, and a few hints.
A client that reads slowly gets fewer, larger messages. One that is far behind is told to load the newest page anew.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from holdfast import __version__
from holdfast.app.web.live.board import BoardChange
from holdfast.app.web.live.feeds import MAX_CHUNK_BYTES, Chunk, RunFeed, Viewer
from holdfast.app.web.shapes.board import RunRow
from holdfast.app.web.site import Site
from holdfast.core.conversation.live_text import Hint
from holdfast.engine.queries.logs import end_of_log
from holdfast.leaf.errors import HoldfastError, NoSuchRun

_BOARD = "board"
_JOB = "job:"
_BATCH_S = 0.1  # the shortest time between two messages, unless there is much to send
_MAX_BEHIND_BYTES = 8 * 1024 * 1024
_MAX_HINTS = 256
_MAX_SUBSCRIPTIONS = 64
_MAX_MESSAGE_CHARS = 4_096


class Request(msgspec.Struct, frozen=True):
    """What a client sends. `sub` and `unsub` name the board, a run, or a job."""

    sub: str | None = None
    unsub: str | None = None
    after: int | None = None
    ping: int | None = None


class _Subscription:
    def __init__(self, feed: RunFeed, position: int) -> None:
        self.feed = feed
        self.position = position


async def serve_live(site: Site, websocket: WebSocket) -> None:
    """Serve one client until it leaves."""
    await websocket.accept()
    await LiveClient(site, websocket).run()


class LiveClient:
    def __init__(self, site: Site, websocket: WebSocket) -> None:
        self._site = site
        self._socket = websocket
        self._wake = asyncio.Event()
        self._runs: dict[str, _Subscription] = {}
        self._jobs: dict[str, int] = {}
        self._replies: deque[bytes] = deque()
        self._hints: deque[tuple[str, Hint]] = deque(maxlen=_MAX_HINTS)
        self._rows: dict[str, RunRow | None] = {}
        self._restated: set[str] = set()
        self._gone: set[str] = set()
        self._full_board = False
        self._on_board = False
        self._viewer = Viewer(self._wake.set, self._hear, self._lose)

    async def run(self) -> None:
        self._site.board.listen(self._board_changed)
        self._reply({"type": "hello", "version": __version__, "server": self._site.id})
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            self._site.board.forget(self._board_changed)
            self._site.jobs.forget(self._wake)
            for run_id in tuple(self._runs):
                self._unsubscribe(run_id)
            if self._socket.application_state is WebSocketState.CONNECTED:
                with suppress(RuntimeError, WebSocketDisconnect):
                    await self._socket.close()

    # what comes in

    async def _read(self) -> None:
        with suppress(WebSocketDisconnect, KeyError, RuntimeError):
            while True:
                text = await self._socket.receive_text()
                await self._handle(text)

    async def _handle(self, text: str) -> None:
        try:
            request = msgspec.json.decode(text[:_MAX_MESSAGE_CHARS], type=Request)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self._reply({"type": "error", "sub": None, "error": f"not understood: {error}"})
            return
        if request.ping is not None:
            self._reply({"type": "pong", "ping": request.ping})
        if request.unsub is not None:
            self._leave(request.unsub)
        if request.sub is not None:
            try:
                await self._subscribe(request.sub, request.after)
            except (HoldfastError, OSError) as error:
                self._reply({"type": "error", "sub": request.sub, "error": str(error)})

    def _leave(self, name: str) -> None:
        if name == _BOARD:
            self._on_board = False
            self._rows.clear()
        elif name.startswith(_JOB):
            self._jobs.pop(name.removeprefix(_JOB), None)
        else:
            self._unsubscribe(name)

    async def _subscribe(self, name: str, after: int | None) -> None:
        if name == _BOARD:
            await self._site.board.listing()
            self._on_board = self._full_board = True
            self._wake.set()
            return
        if name.startswith(_JOB):
            self._site.jobs.listen(self._wake)
            self._jobs[name.removeprefix(_JOB)] = 0
            self._wake.set()
            return
        if not self._site.home.index.has_run(name):
            raise NoSuchRun(f"there is no run {name!r}")
        if len(self._runs) >= _MAX_SUBSCRIPTIONS and name not in self._runs:
            raise HoldfastError(f"at most {_MAX_SUBSCRIPTIONS} runs at once")
        end = await end_of_log(self._site.home, name)
        position = end if after is None else after
        if not 0 <= position <= end:
            self._reply({"type": "resync", "run": name, "reason": "gone"})
            return
        self._unsubscribe(name)
        feed = self._site.feeds.open(name, self._viewer)
        self._runs[name] = _Subscription(feed, position)
        self._restated.add(name)
        self._wake.set()

    def _unsubscribe(self, run_id: str) -> None:
        if self._runs.pop(run_id, None) is not None:
            self._site.feeds.close(run_id, self._viewer)

    # what happens

    def _hear(self, run_id: str, hint: Hint) -> None:
        self._hints.append((run_id, hint))
        self._wake.set()

    def _lose(self, run_id: str) -> None:
        self._gone.add(run_id)
        self._wake.set()

    def _board_changed(self, change: BoardChange) -> None:
        if self._on_board:
            self._rows.update(change.changed)
            self._rows.update(dict.fromkeys(change.removed))
        self._restated.update(run_id for run_id in change.restated if run_id in self._runs)
        self._gone.update(run_id for run_id in change.removed if run_id in self._runs)
        if self._rows or self._restated or self._gone:
            self._wake.set()

    def _reply(self, message: dict[str, Any]) -> None:
        self._replies.append(msgspec.json.encode(message))
        self._wake.set()

    # what goes out

    async def _write(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError, OSError):
            while True:
                await self._wake.wait()
                self._wake.clear()
                has_more = await self._send_all()
                if has_more:
                    self._wake.set()
                else:
                    await asyncio.sleep(_BATCH_S)

    async def _send_all(self) -> bool:
        """Send what there is, but of each run only one message. Returns whether there is more."""
        while self._replies:
            await self._send(self._replies.popleft())
        await self._send_board()
        for run_id in tuple(self._gone):
            self._gone.discard(run_id)
            if run_id in self._runs:
                self._unsubscribe(run_id)
                await self._send_json({"type": "resync", "run": run_id, "reason": "deleted"})
        has_more = [await self._send_lines(run_id) for run_id in tuple(self._runs)]
        if not any(has_more):
            await self._send_hints()
        for run_id in tuple(self._restated):
            self._restated.discard(run_id)
            await self._send_status(run_id)
        await self._send_jobs()
        return any(has_more)

    async def _send_board(self) -> None:
        if self._full_board:
            self._full_board = False
            self._rows.clear()
            listing = await self._site.board.listing()
            await self._send_json(
                {"type": "board", "runs": listing.runs, "removed": [], "full": True, "unwatched": listing.unwatched}
            )
        elif self._rows:
            rows, self._rows = self._rows, {}
            message = {
                "type": "board",
                "runs": [row for row in rows.values() if row is not None],
                "removed": [run_id for run_id, row in rows.items() if row is None],
                "full": False,
                "unwatched": self._site.board.unwatched,
            }
            await self._send_json(message)

    async def _send_lines(self, run_id: str) -> bool:
        subscription = self._runs.get(run_id)
        if subscription is None:
            return False
        end = subscription.feed.end
        if end is not None and end - subscription.position > _MAX_BEHIND_BYTES:
            self._unsubscribe(run_id)
            await self._send_json({"type": "resync", "run": run_id, "reason": "slow"})
            return False
        chunks, size = list[Chunk](), 0
        while size < MAX_CHUNK_BYTES:
            after = chunks[-1].end if chunks else subscription.position
            chunk = await subscription.feed.next_chunk(after)
            if chunk is None:
                break
            chunks.append(chunk)
            size += len(chunk.lines)
        if not chunks:
            return False
        start, until = subscription.position, chunks[-1].end
        lines = b",".join(chunk.lines for chunk in chunks if chunk.size)
        if lines:
            head = b'{"type":"events","run":"%b","start":%d,"end":%d,"lines":[' % (run_id.encode(), start, until)
            await self._send(head + lines + b"]}")
        subscription.position = until
        if any(chunk.rewound for chunk in chunks):
            await self._send_json({"type": "resync", "run": run_id, "reason": "rewound"})
        return size >= MAX_CHUNK_BYTES

    async def _send_hints(self) -> None:
        """Send hints, those that follow each other as one."""
        merged: list[tuple[str, Hint]] = []
        while self._hints:
            run_id, hint = self._hints.popleft()
            last = merged[-1] if merged else None
            if last is not None and last[0] == run_id and _follows(last[1], hint):
                merged[-1] = (run_id, msgspec.structs.replace(last[1], text=last[1].text + hint.text))
            else:
                merged.append((run_id, hint))
        for run_id, hint in merged:
            if run_id in self._runs:
                await self._send_json({"type": "hint", "run": run_id, "hint": hint})

    async def _send_status(self, run_id: str) -> None:
        subscription = self._runs.get(run_id)
        if subscription is None:
            return
        owned = self._site.home.is_owned(run_id)
        status = self._site.board.status_of(run_id)
        message = {"type": "run", "run": run_id, "status": status, "owned": owned, "position": subscription.position}
        await self._send_json(message)

    async def _send_jobs(self) -> None:
        for job_id, sent in tuple(self._jobs.items()):
            job = self._site.jobs.find(job_id)
            if job is None:
                del self._jobs[job_id]
                await self._send_json({"type": "error", "sub": f"{_JOB}{job_id}", "error": "there is no such job"})
                continue
            if len(job.lines) > sent or job.done:
                message = {"type": "job", "job": job_id, "lines": job.lines[sent:], "done": job.done}
                await self._send_json({**message, "error": job.error, "result": job.result})
                self._jobs[job_id] = len(job.lines)
            if job.done:
                del self._jobs[job_id]

    async def _send_json(self, message: dict[str, Any]) -> None:
        await self._send(msgspec.json.encode(message))

    async def _send(self, data: bytes) -> None:
        await self._socket.send_text(data.decode())


def _follows(first: Hint, second: Hint) -> bool:
    same = (first.conversation, first.turn, first.speaker) == (second.conversation, second.turn, second.speaker)
    return same and second.offset == first.end
