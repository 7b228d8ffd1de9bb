"""What a run did: its changes, its timeline, the proof of its log, and all of it as one file."""

import os
import tempfile

import msgspec
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from holdfast.app.html.page import write_page
from holdfast.app.text.verification import problem_lines, proof_text
from holdfast.app.web.endpoint import Call, Nothing, get
from holdfast.app.web.live.terminals import SHELL, TMUX
from holdfast.engine.queries.changes import ChangedBlob
from holdfast.engine.queries.timeline import Timeline
from holdfast.engine.queries.verify import verify_run

_IMMUTABLE = "private, max-age=31536000, immutable"


class DiffQuery(msgspec.Struct, frozen=True):
    """`task`: only of this task."""

    task: str | None = None


class DiffList(msgspec.Struct, frozen=True):
    """`old` and `new` are commits. `as_of`: worktree, with what is not committed; or branch."""

    old: str
    new: str
    files: list[ChangedBlob]
    added: int
    removed: int
    as_of: str


class PatchQuery(msgspec.Struct, frozen=True):
    path: str


class Proof(msgspec.Struct, frozen=True):
    """Whether the log is intact. `summary` says what proves it."""

    ok: bool
    lines: int
    summary: str
    problems: list[str]


class TerminalView(msgspec.Struct, frozen=True):
    """`kind`: shell, in the worktree of the run or of a task; or tmux. Not `available`: the `reason` says why."""

    kind: str
    id: str | None
    title: str
    conversation: str | None
    task: str | None
    writable: bool
    available: bool
    reason: str | None


class TerminalList(msgspec.Struct, frozen=True):
    terminals: list[TerminalView]


@get("/runs/{run}/terminals", "The terminals of a run: `/terminal/RUN` opens one")
async def list_terminals(call: Call[Nothing, Nothing]) -> TerminalList:
    site, run_id = call.site, call.run_id()
    state, _ = await site.states.state(run_id)
    off = None if site.options.terminal else "terminals are off; serve with --terminal"
    found: list[TerminalView] = []
    if site.terminals.has_tmux(run_id):
        reason = off or await site.terminals.why_no_tmux(run_id)
        found.append(TerminalView(TMUX, None, "tmux of the agents", None, None, True, reason is None, reason))
    for task in (None, *state.tasks):
        if os.path.isdir(site.terminals.folder(run_id, task)):
            title = f"shell in the worktree of {task}" if task is not None else "shell in the run's worktree"
            found.append(TerminalView(SHELL, None, title, None, task, True, off is None, off))
    return TerminalList(found)


@get("/runs/{run}/diff", "The files that a run, or one of its tasks, changed since it began")
async def get_diff(call: Call[DiffQuery, Nothing]) -> DiffList:
    site, run_id, task = call.site, call.run_id(), call.query.task
    view = (await site.states.view(run_id)).view
    found = await site.shared_work.do(("diff", run_id, task), lambda: site.changes.list_files(view, task))
    return DiffList(
        found.old,
        found.new,
        found.files,
        sum(file.added or 0 for file in found.files),
        sum(file.removed or 0 for file in found.files),
        "worktree" if found.is_worktree else "branch",
    )


@get("/runs/{run}/diff/{old}/{new}/file", "The change of one file between two commits, as a patch")
async def get_patch(call: Call[PatchQuery, Nothing]) -> Response:
    """The answer never changes, so a browser keeps it. `X-Holdfast-Truncated: 1`: the patch is longer."""
    run_id, old, new = call.run_id(), call.path["old"], call.path["new"]
    tag = f'"{old[:40]}-{new[:40]}"'
    headers = {"ETag": tag, "Cache-Control": _IMMUTABLE}
    view = (await call.site.states.view(run_id)).view
    if call.request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    patch = await call.site.changes.file_patch(view, old, new, call.query.path)
    if patch.is_truncated:
        headers["X-Holdfast-Truncated"] = "1"
    return Response(patch.data.decode(errors="replace"), headers=headers, media_type="text/plain")


@get("/runs/{run}/timeline", "What ran when, what died, what came back, and what it cost")
async def get_timeline(call: Call[Nothing, Nothing]) -> Timeline:
    view = (await call.site.states.view(call.run_id())).view
    return await call.site.timelines.picture(view)


@get("/runs/{run}/verify", "Check the whole log strictly, and against its anchors in the repository")
async def get_proof(call: Call[Nothing, Nothing]) -> Proof:
    run_id = call.run_id()
    verdict = await call.site.shared_work.do(("verify", run_id), lambda: verify_run(call.site.home, run_id))
    return Proof(verdict.is_intact, verdict.lines, proof_text(verdict), problem_lines(verdict))


@get("/runs/{run}/export", "The run as one HTML file, as `holdfast export` writes it")
async def export_run(call: Call[Nothing, Nothing]) -> Response:
    run_id = call.run_id()
    descriptor, file = tempfile.mkstemp(prefix="holdfast-export-", suffix=".html")
    try:
        with os.fdopen(descriptor, "wb") as out:
            await write_page(call.site.home, run_id, out)
    except BaseException:
        os.unlink(file)
        raise
    return FileResponse(
        file,
        media_type="text/html",
        filename=f"{run_id}.html",
        headers={"Cache-Control": "no-store"},
        background=BackgroundTask(os.unlink, file),
    )
