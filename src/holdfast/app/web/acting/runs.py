"""What a person does with a run: create, resume, stop, go back, publish, delete."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.app.web.endpoint import Call, Nothing, get, post
from holdfast.app.web.problems import NotFound
from holdfast.core.decide.resume import Choice, ResumeCase, ResumeChoice
from holdfast.core.events.rewind import RewindAxis
from holdfast.core.run_status import RunStatus
from holdfast.engine.commands.archive import archive, reset, run_resources
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.commands.create_once import create_once, fork_once
from holdfast.engine.commands.detach import resume_options, start_detached
from holdfast.engine.commands.fork import fork_run
from holdfast.engine.commands.publish import (
    PublishedBranch,
    PullRequestOptions,
    merge_run,
    open_pull_request_for_run,
    push_run,
)
from holdfast.engine.commands.rewind import RewindRequest, plan_rewind, rewind_run
from holdfast.engine.commands.stop import request_stop
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.points import list_points
from holdfast.engine.queries.setup.settings import (
    load_config,
    mistakes_in_roles,
    roles_of_flag,
    with_absolute_paths,
)
from holdfast.leaf.errors import BadInput, DecisionNeeded, PositionMismatch, RunOwned

_MAX_INSTRUCTIONS_BYTES = 100_000  # they are an argument of the runner
_RELEASE_S = 5.0


class NewRunRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`goal`: words, or the path of a task list. `settings`: by their dotted names, for this run only."""

    goal: str
    repo: str
    workflow: str | None = None
    agent: str | None = None
    model: str | None = None
    base: str | None = None
    name: str | None = None
    phases: list[str] = []
    include_changes: bool = False
    parallel: int | None = None
    permissions: str | None = None
    iterations: int | None = None
    dollars: float | None = None
    tokens: int | None = None
    settings: dict[str, Any] = {}
    start: bool = True


class CreatedRun(msgspec.Struct, frozen=True):
    """`pid` is that of its runner; null when it was not started, or has ended already."""

    id: str
    pid: int | None
    warnings: list[str]


class ResumeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`choice`: of an option of the decision. `expect`: the end of the log that the choice was made from.

    `now`: send prompts now, even if the provider's usage limit has not reset.
    """

    choice: str | None = None
    instructions: str | None = None
    expect: int | None = None
    now: bool = False


class StartedRunner(msgspec.Struct, frozen=True):
    pid: int


class StopSent(msgspec.Struct, frozen=True):
    """`message` is null if the run waited for a worker: then it is stopped already."""

    message: str | None


class RewindQuery(msgspec.Struct, frozen=True):
    """`to`: the name of a point. `only`: conversation or files. `undo`: take back the last rewind."""

    to: str = "-1"
    task: str | None = None
    only: str = "both"
    undo: bool = False


class RewindBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As for the plan, with `expect`, the end of the log that the plan was made from."""

    to: str = "-1"
    task: str | None = None
    only: str = "both"
    undo: bool = False
    expect: int | None = None


class FileChange(msgspec.Struct, frozen=True):
    """Added and removed lines; null for a binary file."""

    path: str
    added: int | None
    removed: int | None


class WorktreeChangeView(msgspec.Struct, frozen=True):
    task: str | None
    branch: str
    exists: bool
    files: list[FileChange]


class RewindPlanView(msgspec.Struct, frozen=True):
    """What a rewind would do. `published` and `calls` cannot be taken back; a `running` run is stopped first."""

    point: str
    position: int
    only: str
    worktrees: list[WorktreeChangeView]
    events: int
    turns: int
    published: list[str]
    calls: list[str]
    running: bool


class Rewound(msgspec.Struct, frozen=True):
    point: str
    position: int
    salvaged: list[str]


class PointView(msgspec.Struct, frozen=True):
    """A point to go back to. `name` never changes; `label` is shorter. `files` differ from the task's point before."""

    name: str
    label: str
    kind: str
    time: str | None
    task: str | None
    turn: str | None
    conversation: str | None
    position: int
    files: list[str]


class PointList(msgspec.Struct, frozen=True):
    points: list[PointView]


class ForkBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`at`: the name of a point; by default the newest."""

    at: str | None = None
    name: str | None = None
    start: bool = False


class Forked(msgspec.Struct, frozen=True):
    id: str
    point: str


class MergeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    into: str | None = None


class PushBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    remote: str | None = None


class PullRequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str | None = None
    body: str | None = None
    base: str | None = None
    draft: bool = False
    remote: str | None = None


class Published(msgspec.Struct, frozen=True):
    """`already`: there was nothing left to do. `uncommitted` files of the worktree are not included."""

    branch: str
    target: str
    commit: str
    already: bool
    uncommitted: int
    hook_not_run: str | None
    text: str


class OpenedPullRequest(msgspec.Struct, frozen=True):
    """Not `opened`: the URL is a page on which a person opens it."""

    url: str
    opened: bool
    text: str


class ResetBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`confirm`: the id of the run."""

    confirm: str


class Removed(msgspec.Struct, frozen=True):
    """`salvaged`: the refs of what was saved."""

    salvaged: list[str]


class Resources(msgspec.Struct, frozen=True):
    """What a reset deletes. `unmerged`: commits that no branch of yours has."""

    branches: list[str]
    worktrees: list[str]
    unmerged: int


@post("/runs", "Create a run, and start it")
async def create_run(call: Call[Nothing, NewRunRequest]) -> CreatedRun:
    body, home = call.body, call.site.home
    if not body.repo.startswith("/") or "\0" in body.repo + body.goal:
        raise BadInput(f"repo: {body.repo!r} is not an absolute path")
    flags = _flags(body)
    config = load_config(body.repo, home=home, flags=flags)
    request = RunRequest(
        body.goal,
        body.repo,
        body.name,
        body.base,
        flags,
        must_start_now=body.start,
        phases=tuple(body.phases),
        include_changes=body.include_changes,
    )
    run_id = await prepare_run(home, request) if call.key is None else await create_once(home, request, call.key)
    pid = await _start_if_planned(call, run_id) if body.start else None
    return CreatedRun(run_id, pid, list(config.warnings))


def _flags(body: NewRunRequest) -> dict[str, Any]:
    named = {
        "workflow": body.workflow,
        "agent": body.agent,
        "model": body.model,
        "parallel": body.parallel,
        "permissions.policy": body.permissions,
        "caps.iterations": body.iterations,
        "caps.dollars": body.dollars,
        "caps.tokens": body.tokens,
    }
    flags = {**{name: value for name, value in named.items() if value is not None}, **body.settings}
    for name, value in flags.items():
        for role, mistake in mistakes_in_roles(roles_of_flag(name, value)):
            raise BadInput(f"settings.{name}: {role}: {mistake}")
    return with_absolute_paths(flags)


async def _start_if_planned(call: Call[Any, Any], run_id: str) -> int | None:
    """Start a run that was never started: a retried request may come after the start."""
    home = call.site.home
    holder = await home.store.holder(run_id)
    if holder is not None:
        return holder.pid
    view = (await call.site.states.view(run_id)).view
    if any(session.command not in ("plan", "fork") and not session.upkeep for session in view.state.sessions.values()):
        return None
    return await start_detached(home, run_id)


@post("/runs/{run}/resume", "Resume a run; with a choice when a person has to decide")
async def resume_run(call: Call[Nothing, ResumeBody]) -> StartedRunner:
    run_id, body = call.run_id(), call.body
    await _check_position(call, run_id, body.expect)
    view = (await call.site.states.view(run_id)).view
    if view.status == RunStatus.RUNNING:
        raise RunOwned(f"run {run_id} is running already")
    choice = _choice(body.choice)
    decision = view.analysis.decision
    if choice is not None and choice not in decision.offered_choices:
        offered = ", ".join(decision.offered_choices) or "none"
        raise BadInput(f"choice {choice} is not offered; the choices are: {offered}")
    if "\0" in (body.instructions or "") or len((body.instructions or "").encode()) > _MAX_INSTRUCTIONS_BYTES:
        raise BadInput(f"instructions: give text of at most {_MAX_INSTRUCTIONS_BYTES:,} bytes")
    if choice is Choice.CUSTOM and not (body.instructions or "").strip():
        raise BadInput("instructions are missing; write what the agents should do")
    must_choose = decision.case in (ResumeCase.ISSUES, ResumeCase.NO_CHECKPOINT)
    if must_choose and choice is None and body.instructions is None:
        raise DecisionNeeded(f"run {run_id} needs a decision; send one of: {', '.join(decision.offered_choices)}")
    return StartedRunner(
        await start_detached(
            call.site.home,
            run_id,
            *resume_options(ResumeChoice(choice, body.instructions)),
            *([f"--expect={body.expect}"] if body.expect is not None else []),
            *(["--now"] if body.now else []),
        )
    )


def _choice(text: str | None) -> Choice | None:
    if text is None:
        return None
    try:
        return Choice(text)
    except ValueError:
        raise BadInput(f"choice {text!r} is none of {', '.join(Choice)}") from None


async def _check_position(call: Call[Any, Any], run_id: str, expect: int | None) -> None:
    if expect is None:
        return
    _, position = await call.site.states.state(run_id)
    if position != expect:
        raise PositionMismatch(f"run {run_id} went on since you looked; look again, then choose")


@post("/runs/{run}/stop", "Ask a run to stop cleanly")
async def stop_run(call: Call[Nothing, Nothing]) -> StopSent:
    return StopSent(await request_stop(call.site.home, call.run_id()))


@get("/runs/{run}/points", "The points to rewind to or fork from, the newest first")
async def get_points(call: Call[Nothing, Nothing]) -> PointList:
    return PointList(
        [
            PointView(
                point.name,
                point.label,
                str(point.kind),
                point.time,
                point.task,
                point.turn,
                point.conversation,
                point.position,
                list(point.files),
            )
            for point in await list_points(call.site.home, call.run_id())
        ]
    )


@get("/runs/{run}/rewind", "What a rewind would do; changes nothing")
async def get_rewind_plan(call: Call[RewindQuery, Nothing]) -> RewindPlanView:
    query = call.query
    request = RewindRequest(query.to, query.task, _axis(query.only), query.undo)
    plan = await plan_rewind(call.site.home, call.run_id(), request)
    return RewindPlanView(
        plan.point,
        plan.position,
        str(plan.only),
        [
            WorktreeChangeView(
                each.task,
                each.branch,
                each.exists,
                [FileChange(file.path, file.added, file.removed) for file in each.files],
            )
            for each in plan.worktrees
        ],
        plan.abandoned.events,
        plan.abandoned.turns,
        list(plan.abandoned.published),
        list(plan.abandoned.calls),
        plan.running,
    )


@post("/runs/{run}/rewind", "Take a run back to an earlier point; a run at work is stopped first", 200)
async def rewind_to_point(call: Call[Nothing, RewindBody]) -> Rewound:
    run_id, body = call.run_id(), call.body
    await _check_position(call, run_id, body.expect)
    request = RewindRequest(body.to, body.task, _axis(body.only), body.undo, body.expect)
    result = await rewind_run(call.site.home, run_id, request)
    return Rewound(result.point, result.position, list(result.salvaged))


def _axis(text: str) -> RewindAxis:
    try:
        return RewindAxis(text)
    except ValueError:
        raise BadInput(f"only: {text!r} is none of {', '.join(RewindAxis)}") from None


@post("/runs/{run}/fork", "Create a run with the past of this one, up to a point")
async def fork_one_run(call: Call[Nothing, ForkBody]) -> Forked:
    home, body = call.site.home, call.body
    parent = call.run_id()
    if call.key is None:
        forked = await fork_run(home, parent, body.at, body.name)
    else:
        forked = await fork_once(home, parent, body.at, body.name, call.key)
    if body.start:
        await _start_if_planned(call, forked.run_id)
    return Forked(forked.run_id, forked.point)


async def _released_run(call: Call[Any, Any]) -> str:
    """Return the run of a request. A session that has ended may own it for a moment longer, which is waited for."""
    home, run_id = call.site.home, call.run_id()
    if (await view_run(home, run_id)).status != RunStatus.RUNNING:
        with suppress(TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                await home.store.wait_until_released(run_id)
    return run_id


@post("/runs/{run}/merge", "Merge a run's work into a branch; by default the one it started from", 200)
async def merge_one_run(call: Call[Nothing, MergeBody]) -> Published:
    return _published("merged into", await merge_run(call.site.home, await _released_run(call), call.body.into))


@post("/runs/{run}/push", "Push a run's branch, never by force", 200)
async def push_one_run(call: Call[Nothing, PushBody]) -> Published:
    return _published("pushed to", await push_run(call.site.home, await _released_run(call), call.body.remote))


def _published(verb: str, result: PublishedBranch) -> Published:
    done = f"{'already ' if result.already else ''}{verb}"
    text = f"{result.branch} {done} {result.target} at {result.commit[:12]}"
    return Published(**result._asdict(), text=text)


@post("/runs/{run}/pr", "Push, then open a pull request; called again, find it", 200)
async def open_pull_request(call: Call[Nothing, PullRequestBody]) -> OpenedPullRequest:
    body = call.body
    options = PullRequestOptions(body.base, body.title, body.body, body.draft)
    result = await open_pull_request_for_run(call.site.home, await _released_run(call), body.remote, options)
    text = "opened the pull request" if result.opened else "pushed; open the pull request on this page"
    return OpenedPullRequest(result.url, result.opened, text)


@post("/runs/{run}/archive", "Delete a run's worktrees and branches, keep its log", 200)
async def archive_one_run(call: Call[Nothing, Nothing]) -> Removed:
    return Removed(await archive(call.site.home, await _released_run(call)))


@get("/runs/{run}/resources", "What a reset would delete")
async def get_resources(call: Call[Nothing, Nothing]) -> Resources:
    found = await run_resources(call.site.home, call.run_id())
    if found is None:
        return Resources([], [], 0)
    return Resources(list(found.branches), list(found.worktrees), found.unmerged)


@post("/runs/{run}/reset", "Delete a run: its worktrees, branches and folder", 200)
async def reset_one_run(call: Call[Nothing, ResetBody]) -> Removed:
    run_id = call.path["run"]
    if not call.site.home.index.has_run(run_id):
        raise NotFound(f"there is no run {run_id!r}; name it by its whole id")
    if call.body.confirm != run_id:
        raise BadInput(f"confirm: repeat the id of the run, {run_id}")
    return Removed(await reset(call.site.home, run_id))
