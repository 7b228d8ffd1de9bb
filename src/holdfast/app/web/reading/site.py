"""About the server, and over all runs: the digest, search, jobs."""

import os

import msgspec

from holdfast import __version__
from holdfast.app.tui.attention import filter_runs
from holdfast.app.web.endpoint import Call, Nothing, get, post
from holdfast.app.web.live.jobs import Job
from holdfast.app.web.problems import NotFound
from holdfast.app.web.shapes.board import RunRow
from holdfast.app.web.shapes.digest import DigestView, digest_view
from holdfast.engine.commands.last_seen import remember_visit, visited
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.runs import search_messages
from holdfast.engine.queries.setup.settings import load_config_here
from holdfast.leaf.clock import now
from holdfast.leaf.errors import HoldfastError

_MAX_DIGESTS = 50


class ServerInfo(msgspec.Struct, frozen=True):
    """`remote`: others than this machine may reach it. `supervising`: it resumes interrupted runs."""

    version: str
    server: str
    started: str
    home: str
    port: int
    remote: bool
    terminal: bool
    supervising: bool
    resume_on_open: bool
    editor: str | None


class SinceQuery(msgspec.Struct, frozen=True):
    """`since`: a moment, a position of the run, or `last` for this user's last visit (of all runs)."""

    since: str | None = None


class RunDigest(msgspec.Struct, frozen=True):
    id: str
    status: str
    goal: str | None
    digest: DigestView


class AllDigests(msgspec.Struct, frozen=True):
    """What happened while you were away. `since` is null on the first visit."""

    since: str | None
    runs: list[RunDigest]


class SearchQuery(msgspec.Struct, frozen=True):
    q: str


class Hit(msgspec.Struct, frozen=True):
    """A message of a run. `position` is after it."""

    run: str
    position: int
    speaker: str
    excerpt: str


class SearchResult(msgspec.Struct, frozen=True):
    hits: list[Hit]
    runs: list[RunRow]


class Seen(msgspec.Struct, frozen=True):
    since: str


@get("/server", "The server: version, and what it allows")
async def get_server(call: Call[Nothing, Nothing]) -> ServerInfo:
    site = call.site
    settings = load_config_here(site.home).settings.serve
    return ServerInfo(
        __version__,
        site.id,
        site.started,
        site.home.path,
        site.options.port,
        site.options.is_remote,
        site.options.terminal,
        site.is_supervising,
        settings.resume_on_open,
        settings.editor or os.environ.get("VISUAL") or None,
    )


@get("/runs/{run}/digest", "What happened in one run; by default since its newest session began")
async def get_run_digest(call: Call[SinceQuery, Nothing]) -> DigestView:
    run_id, since = call.run_id(), call.query.since
    view = (await call.site.states.view(run_id)).view
    start = int(since) if since is not None and since.isascii() and since.isdigit() else since
    return digest_view(await digest_of(call.site.home, run_id, start, view=view), view.state)


@get("/digest", "What happened in all runs since a moment, or since this user's last visit")
async def get_digest(call: Call[SinceQuery, Nothing]) -> AllDigests:
    home, since = call.site.home, call.query.since
    if since in (None, "last"):
        since = visited(home)
    found: list[RunDigest] = []
    if since is None:
        return AllDigests(None, found)
    for row in (await call.site.board.listing()).runs:
        if (row.updated or "") <= since or len(found) >= _MAX_DIGESTS:
            continue
        try:
            view = (await call.site.states.view(row.id)).view
            digest = await digest_of(home, row.id, since, view=view)
        except (HoldfastError, OSError):
            continue  # deleted or unreadable: the board says so
        found.append(RunDigest(row.id, row.status, row.goal, digest_view(digest, view.state)))
    return AllDigests(since, found)


@post("/digest/seen", "Remember that this user has seen everything up to now", 200)
async def mark_digest_seen(call: Call[Nothing, Nothing]) -> Seen:
    moment = now()
    remember_visit(call.site.home, moment)
    return Seen(moment)


@get("/search", "Messages and runs that contain all words")
async def search(call: Call[SearchQuery, Nothing]) -> SearchResult:
    hits = [Hit(**hit._asdict()) for hit in await search_messages(call.site.home, call.query.q)]
    await call.site.board.listing()
    found = filter_runs(call.site.board.known, call.query.q)
    rows = call.site.board.rows
    return SearchResult(hits, [rows[run.id] for run in found if run.id in rows])


@get("/jobs/{job}", "What a job said so far, and how it ended")
async def get_job(call: Call[Nothing, Nothing]) -> Job:
    job = call.site.jobs.find(call.path["job"])
    if job is None:
        raise NotFound(f"there is no job {call.path['job']!r}")
    return job
