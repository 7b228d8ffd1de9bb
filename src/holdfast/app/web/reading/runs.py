"""Runs: the list, one run, pages of its log."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from holdfast.app.tui.attention import filter_runs
from holdfast.app.web.endpoint import Call, Nothing, get
from holdfast.app.web.live.feeds import Viewer
from holdfast.app.web.live.lines import encode_line
from holdfast.app.web.problems import NotFound
from holdfast.app.web.shapes.board import RunList
from holdfast.app.web.shapes.conversation import ConversationList, ConversationView, conversation_view
from holdfast.app.web.shapes.run import RunDetail, run_detail
from holdfast.app.web.site import Site
from holdfast.core.log.codec import Line
from holdfast.engine.queries.conversations import conversations_of
from holdfast.engine.queries.digest import open_needs
from holdfast.engine.queries.documents import read_document
from holdfast.engine.queries.event_page import PageRequest, event_page
from holdfast.engine.queries.logs import end_of_log, parse_batch
from holdfast.engine.queries.queued import list_queued
from holdfast.leaf.errors import BadInput, HoldfastError

_MAX_DOCUMENT_BYTES = 1024 * 1024
_KEEP_ALIVE_S = 15


class ListQuery(msgspec.Struct, frozen=True):
    """`q`: words that all occur in the name, status, workflow, repository or goal."""

    q: str = ""


class PageQuery(msgspec.Struct, frozen=True):
    """`types`: names or patterns such as `task.*`, separated by commas. `abandoned=1`: also what a rewind left."""

    before: int | None = None
    after: int | None = None
    limit: int = 200
    conversation: str | None = None
    types: str = ""
    abandoned: bool = False


class Page(msgspec.Struct, frozen=True):
    """Lines of a log. Each is `{position, event}`, or `{position, malformed, reason}` when it is damaged."""

    start: int
    end: int
    has_older: bool
    has_newer: bool
    lines: list[msgspec.Raw]


class StreamQuery(msgspec.Struct, frozen=True):
    """`after`: a position; by default the end. `Last-Event-ID` wins."""

    after: int | None = None


class DocumentQuery(msgspec.Struct, frozen=True):
    path: str


class DocumentText(msgspec.Struct, frozen=True):
    path: str
    text: str
    truncated: bool


class QueuedView(msgspec.Struct, frozen=True):
    id: str
    kind: str
    text: str
    sender: str | None
    task: str | None
    conversation: str | None
    attachments: list[str]


class QueuedList(msgspec.Struct, frozen=True):
    messages: list[QueuedView]


@get("/runs", "All runs, the most urgent first")
async def list_all_runs(call: Call[ListQuery, Nothing]) -> RunList:
    listing = await call.site.board.refreshed()
    if not call.query.q:
        return listing
    found = {run.id for run in filter_runs(call.site.board.known, call.query.q)}
    return RunList([row for row in listing.runs if row.id in found], listing.unwatched)


@get("/runs/{run}", "One run: state, tasks, conversations, needs, and the decision how to resume it")
async def get_run(call: Call[Nothing, Nothing]) -> RunDetail:
    run_id = call.run_id()
    at = await call.site.states.view(run_id)
    return run_detail(at.view, await open_needs(call.site.home, run_id, at.view.state), at.position)


@get("/runs/{run}/events", "A page of the log, the newest by default")
async def get_events(call: Call[PageQuery, Nothing]) -> Page:
    run_id, query = call.run_id(), call.query
    if any(position is not None and position < 0 for position in (query.before, query.after)):
        raise BadInput("a position is not negative")
    types = tuple(part.strip() for part in query.types.split(",") if part.strip())
    request = PageRequest(query.before, query.after, query.limit, query.conversation, types)
    rewinds = () if query.abandoned else (await call.site.states.state(run_id))[0].rewinds
    end = await end_of_log(call.site.home, run_id)
    if max(query.before or 0, query.after or 0) > end:
        raise NotFound(f"the log of {run_id} ends at {end}")
    page = await event_page(call.site.home, run_id, request, rewinds)
    lines = [msgspec.Raw(encode_line(line)) for line in page.lines]
    return Page(page.start, page.end, page.has_older, page.has_newer, lines)


@get("/runs/{run}/events/stream", "The log as server-sent events, from a position on: each line once, with its id")
async def stream_events(call: Call[StreamQuery, Nothing]) -> Response:
    run_id = call.run_id()
    given = call.request.headers.get("last-event-id")
    if given is not None and not (given.isascii() and given.isdigit()):
        raise BadInput("Last-Event-ID is not a position")
    end = await end_of_log(call.site.home, run_id)
    after = int(given) if given else call.query.after
    position = end if after is None else after
    if not 0 <= position <= end:
        raise NotFound(f"the log of {run_id} ends at {end}")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(call, run_id, position), media_type="text/event-stream", headers=headers)


async def _stream(call: Call[StreamQuery, Nothing], run_id: str, position: int) -> AsyncIterator[bytes]:
    wake, gone = asyncio.Event(), asyncio.Event()

    def lose(_: str) -> None:
        gone.set()
        wake.set()

    viewer = Viewer(wake.set, lambda *_: None, lose)
    feed = call.site.feeds.open(run_id, viewer)
    try:
        yield b": holdfast\n\n"
        while not gone.is_set():
            wake.clear()
            if feed.end is None or position < feed.end:
                async for batch in call.site.home.store.log(run_id).read(position):
                    parts = [
                        _sse(line.cursor, line.raw, is_event=isinstance(line.line, Line)) for line in parse_batch(batch)
                    ]
                    position = batch.end
                    yield b"".join(parts)
                    if call.site.is_closing.is_set():
                        return
            try:
                await asyncio.wait_for(wake.wait(), _KEEP_ALIVE_S)
            except TimeoutError:
                yield b": still here\n\n"
        yield b"event: gone\ndata: {}\n\n"
    except (HoldfastError, OSError):
        return
    finally:
        call.site.feeds.close(run_id, viewer)


def _sse(position: int, raw: bytes, *, is_event: bool) -> bytes:
    data = raw.replace(b"\r", b"")
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (position, b"line" if is_event else b"malformed", data)


@get("/runs/{run}/conversations", "The conversations of a run, the oldest first")
async def list_conversations(call: Call[Nothing, Nothing]) -> ConversationList:
    view = (await call.site.states.view(call.run_id())).view
    return ConversationList([conversation_view(view.state, status) for status in conversations_of(view)])


@get("/runs/{run}/conversations/{conversation}/status", "Whether a conversation has an agent, or needs a resume")
async def get_conversation_status(call: Call[Nothing, Nothing]) -> ConversationView:
    return await conversation_of(call.site, call.run_id(), call.path["conversation"])


async def conversation_of(site: Site, run_id: str, conversation: str) -> ConversationView:
    view = (await site.states.view(run_id)).view
    for status in conversations_of(view):
        if status.id == conversation:
            return conversation_view(view.state, status)
    raise NotFound(f"run {run_id} has no conversation {conversation!r}")


@get("/runs/{run}/queued", "Messages that no prompt has delivered yet")
async def list_queued_messages(call: Call[Nothing, Nothing]) -> QueuedList:
    found = await list_queued(call.site.home, call.run_id())
    return QueuedList(
        [
            QueuedView(each.id, each.kind, each.text, each.sender, each.task, each.conversation, list(each.attachments))
            for each in found
        ]
    )


@get("/runs/{run}/documents", "A document of a phase")
async def get_document(call: Call[DocumentQuery, Nothing]) -> DocumentText:
    run_id, path = call.run_id(), call.query.path
    data = await read_document(call.site.home, run_id, path, _MAX_DOCUMENT_BYTES + 1)
    if data is None:
        raise NotFound(f"run {run_id} has no document {path!r}")
    text = data[:_MAX_DOCUMENT_BYTES].decode(errors="replace")
    return DocumentText(path, text, len(data) > _MAX_DOCUMENT_BYTES)
