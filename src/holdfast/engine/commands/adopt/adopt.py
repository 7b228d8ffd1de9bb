"""Adopt: make a run of ours from a session of another tool.

The run is written out of sight and appears complete, or not at all. Nothing of the other tool changes: its files are
only read, and its branches stay where they are.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.adoption import RunAdopted
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.phase import WorkflowChosen
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart, SettingsChosen
from holdfast.core.work.foreign_tools import TOOL_NAMES
from holdfast.core.work.names import worktree_names
from holdfast.core.work.tasks import TaskList
from holdfast.core.work.workflow import build_plan
from holdfast.engine.commands.adopt.abandoned import StageNote, delete_abandoned, undo
from holdfast.engine.commands.adopt.adopted import refuse_second_adoption
from holdfast.engine.commands.adopt.base import ForeignConversation, ForeignSession
from holdfast.engine.commands.adopt.branches import Branches, Source, locate, make_branches, read_plan
from holdfast.engine.commands.adopt.find import find_session, folders_of_repository, read_session
from holdfast.engine.commands.adopt.importing import HistoryImporter, in_batches
from holdfast.engine.commands.adopt.liveness import refuse_live_session
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.config.config import load_config
from holdfast.engine.config.flags import with_absolute_paths
from holdfast.engine.config.run_config import RunConfig, new_run_config
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import open_workspace
from holdfast.git.repository import ABSENT, Repository, find_repository
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.ids import new_run_id
from holdfast.store.run import OwnedRun, open_run

COMMAND = "adopt"
_FAILPOINT_LOG, _FAILPOINT_REFS = failpoint_pair("adopt.log"), failpoint_pair("adopt.refs")


class AdoptRequest(NamedTuple):
    """What a user asks for. `target` is a path or an id; `flags` are settings by dotted names."""

    target: str
    repo: str | None = None
    name: str | None = None
    flags: Mapping[str, Any] = {}
    again: bool = False  # also when a run was made of this session before


class Adoption(NamedTuple):
    """What is adopted. `run_id` is None when it was only tried."""

    session: ForeignSession
    tasks: TaskList
    source: Source
    repo: str
    agents: tuple[str, ...]
    run_id: str | None = None
    entries: int = 0

    @property
    def findings(self) -> list[str]:
        return [*self.session.findings, *self.source.findings]


async def adopt(home: Home, request: AdoptRequest, *, dry_run: bool = False) -> Adoption:
    """Make a run of the session. With `dry_run`, only say what would be done."""
    tops = await folders_of_repository(request.repo or os.getcwd())
    session = read_session(find_session(request.target, tops))
    refuse_live_session(session)
    if not request.again:
        await refuse_second_adoption(home, session)
    folder, missing = _repository_folder(session, request.repo)
    repository = await _find_repository(folder, missing)
    source = await locate(repository, folder, session)
    if missing is not None:
        source.findings.append(f"its repository {missing} is not there; {repository.common_dir} was taken instead")
    tasks = await read_plan(repository, folder, session, source)
    flags = {"workflow": session.workflow, **with_absolute_paths(request.flags)}
    _choose_native_agent(session, flags)
    config = _run_config(home, folder, flags)
    agents = tuple(_agent_for(each, config, tasks) for each in session.conversations)
    found = Adoption(session, tasks, source, repository.common_dir, tuple(dict.fromkeys(agents)))
    _note_native_sessions(session, agents)
    if dry_run:
        return found
    await delete_abandoned(home)
    run_id = new_run_id(request.name or session.goal)
    branches = await make_branches(repository, run_id, session, source)
    settings, importer = SettingsChosen(settings={"flags": flags, "folder": folder}), _importer(session, agents)
    new = _NewRun(run_id, found, branches, config, settings, importer, again=request.again)
    await _write_run(home, new, repository)
    async with open_workspace(home, run_id, COMMAND) as workspace:
        await workspace.open_worktree()
        for task in branches.tasks:
            await workspace.open_worktree(task)
    return found._replace(run_id=run_id, entries=importer.entries)


def _repository_folder(session: ForeignSession, given: str | None) -> tuple[str, str | None]:
    """Return a folder of the repository: the one that was given, the session's, or the current one.

    With the current one, return the session's own, too, when it is not there any more.
    """
    if given is not None:
        return os.path.abspath(given), None
    places = [place for place in (session.repo, session.cwd) if place is not None]
    found = next((place for place in places if os.path.isdir(place)), None)
    return (found, None) if found is not None else (os.getcwd(), next(iter(places), None))


async def _find_repository(folder: str, missing: str | None) -> Repository:
    try:
        return await find_repository(folder)
    except BadInput:
        if missing is None:
            raise
        raise BadInput(f"its repository {missing} is not there; pass where it is now: --repo DIR") from None


def _choose_native_agent(session: ForeignSession, flags: dict[str, Any]) -> None:
    """The agent that began the conversation continues it, unless the user names another."""
    native = next((each.native_agent for each in session.conversations if each.native_agent is not None), None)
    if native is not None and "agent" not in flags:
        flags["agent"] = native


def _run_config(home: Home, folder: str, flags: Mapping[str, Any]) -> RunConfig:
    config = load_config(folder, home=home, flags=flags)
    run_config = new_run_config(config.settings, agents_from_settings(config.settings))
    run_config.check_agents(must_be_installed=False)
    return run_config


def _agent_for(conversation: ForeignConversation, config: RunConfig, tasks: TaskList) -> str:
    named = next((task.agent for task in tasks.tasks if task.id == conversation.task), None)
    return config.agent_for(conversation.role or "worker", named)


def _note_native_sessions(session: ForeignSession, agents: Sequence[str]) -> None:
    for each, agent in zip(session.conversations, agents, strict=True):
        if each.native_id is not None and agent == each.native_agent:
            session.findings.append(
                f"{agent} continues its own session {each.native_id} if it can: in a copy (session/fork), else in the "
                f"session itself, which grows in {TOOL_NAMES[session.tool]}'s own file; else with the history as text"
            )


# The run


class _NewRun(NamedTuple):
    """Everything that the run's log is written from."""

    run_id: str
    found: Adoption
    branches: Branches
    config: RunConfig
    settings: SettingsChosen
    importer: HistoryImporter
    again: bool


async def _write_run(home: Home, new: _NewRun, repository: Repository) -> None:
    """Write the run out of sight, create its branches, and make it visible."""
    stage = await asyncio.to_thread(home.new_stage)
    try:
        staged = Home(stage.folder)
        await staged.store.create(new.run_id)
        async with open_run(staged.store, new.run_id, feature=new.run_id[:-7]) as run:
            _FAILPOINT_LOG.before()
            await _write_log(run, new)
            _FAILPOINT_LOG.after()
        note = StageNote(new.run_id, repository.common_dir, new.branches.refs)
        await asyncio.to_thread(stage.write_note, msgspec.json.encode(note))
        for name, commit in new.branches.refs.items():
            _FAILPOINT_REFS.before()
            await repository.set_ref(f"refs/heads/{name}", commit, ABSENT)
            _FAILPOINT_REFS.after()
        with home.publishing():
            if not new.again:
                await refuse_second_adoption(home, new.found.session)  # by an adopt at the same time
            await asyncio.to_thread(stage.publish, new.run_id)
    except Exception:
        if await undo(home, stage) is None:
            stage.delete()
        raise
    finally:
        stage.close()
    stage.delete()


def _importer(session: ForeignSession, agents: Sequence[str]) -> HistoryImporter:
    by_key = {each.key: agent for each, agent in zip(session.conversations, agents, strict=True)}
    return HistoryImporter(session.conversations, by_key)


async def _write_log(run: OwnedRun, new: _NewRun) -> None:
    found, session, workflow = new.found, new.found.session, new.config.workflow.name
    created = RunCreated(
        run_id=new.run_id,
        goal=run.redactor.redact_text(session.goal),
        workflow=workflow,
        repo=found.repo,
        base=found.source.base_name,
        branch=worktree_names(new.run_id).branch,
    )
    start = SessionStart(
        command=COMMAND, feature=new.run_id[:-7], branch=created.branch, mode=workflow, pid=os.getpid()
    )
    await run.begin_session(start, created, _adopted_event(found), new.settings)
    for batch in in_batches(_events(new)):
        await run.append(*batch)
    await run.append(SessionEnd(reason=session.end_reason, summary=f"adopted from {TOOL_NAMES[session.tool]}"))


def _adopted_event(found: Adoption) -> RunAdopted:
    session = found.session
    checkout = found.source.checkout
    return RunAdopted(
        tool=session.tool,
        version=session.version,
        path=session.path,
        session=session.id,
        branch=session.branch,
        commit=found.source.tip,
        worktree=session.cwd if checkout is not None and checkout.tree is not None else None,
        findings=found.findings,
    )


def _events(new: _NewRun) -> Iterator[Event]:
    found, session, workflow = new.found, new.found.session, new.config.workflow
    branches, importer = new.branches, new.importer
    if workflow.phases or workflow.chat:
        yield WorkflowChosen(workflow=msgspec.to_builtins(workflow), wanted=list(session.wanted_phases))
    if found.tasks.tasks:
        yield build_plan(found.tasks, workflow.shape)
    yield from branches.events
    yield Checkpoint(
        label="adopted",
        branch=worktree_names(new.run_id).branch,
        commit=branches.start,
        plan_step=session.next_step,
        resumable=session.has_checkpoint,
    )
    yield from session.before(found.tasks)
    yield from importer.opened()
    yield from importer.events(session.history())
    yield from session.after(found.tasks)
    spent = session.spent
    if spent != type(spent)():
        yield UsageRecorded(
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            dollars=spent.dollars or 0.0,
            priced=spent.dollars is not None,
        )
    for finding in found.findings:
        yield WarningLogged(message=finding)
