"""Runs one session of a run, from its start or resume to its end: own → repair → fold → settle → decide → the loop.

Start and resume share this path. A resume records what it found and decided as one event; then the loop is the same.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import NamedTuple

from holdfast.agents.process.tree import finish_uncancelled
from holdfast.agents.registry import find_agent
from holdfast.core.config.settings import Settings
from holdfast.core.decide.analysis import analyze
from holdfast.core.decide.attribution import WORKER
from holdfast.core.decide.resume import Opening, ResumeChoice, opening_of
from holdfast.core.end_reason import EndReason
from holdfast.core.events.issue import ErrorEncountered, WarningLogged
from holdfast.core.events.provider import LimitLifted
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.messages.signals import CHAT_ROLE, INTERVIEWER_ROLE
from holdfast.core.summary.limits import limit_lines
from holdfast.engine.agents.conversations import ConversationContext, Conversations
from holdfast.engine.agents.limits import LimitContext
from holdfast.engine.agents.matrix import proven_abilities, read_matrix
from holdfast.engine.agents.options import LiveChanges
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.agents.shared_limits import SharedLimits
from holdfast.engine.attachments import has_attachment
from holdfast.engine.checks.validators import CheckPlace
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.handover import prepare_interviewed
from holdfast.engine.home import Home
from holdfast.engine.hooks.hooks import HookRunner
from holdfast.engine.hooks.observer import Observer
from holdfast.engine.inbox.deliver import user_name
from holdfast.engine.inbox.handle import InboxHandler
from holdfast.engine.inbox.handle_chat import ChatCallbacks
from holdfast.engine.reports.server import ReportServer
from holdfast.engine.reports.submit import Reporter
from holdfast.engine.session.budget_guard import BudgetGuard, budget_name
from holdfast.engine.session.cost_cap import CostCap
from holdfast.engine.session.disk_guard import DiskGuard
from holdfast.engine.session.guards import Guards
from holdfast.engine.session.live_text import LiveTextServer
from holdfast.engine.session.lost_lease import ended_when_lost
from holdfast.engine.session.projections import write_projections
from holdfast.engine.session.resume import apply_resume, choose_resume
from holdfast.engine.session.resume_choice import Chooser, SessionResult
from holdfast.engine.session.runner import Runner
from holdfast.engine.session.task_steps import StepCallbacks, TaskSteps
from holdfast.engine.session.turn_snapshots import snapshotting_turns
from holdfast.engine.workspace.confinement import confine, runtime_for_hooks
from holdfast.engine.workspace.effects import EffectRunner
from holdfast.engine.workspace.machine import machine_id
from holdfast.engine.workspace.reconcile import require_no_user_operation
from holdfast.engine.workspace.repository import open_owned_repository, require_repository
from holdfast.engine.workspace.rewind import finish_rewind
from holdfast.engine.workspace.workspace import Workspace
from holdfast.leaf.errors import HoldfastError, NothingToDo, PositionMismatch, StorageFailed
from holdfast.leaf.process.env_markers import remove_own_marks
from holdfast.leaf.process.own_program import holdfast_command
from holdfast.leaf.wall_clock import WallClock
from holdfast.store.base import Position
from holdfast.store.live_log import LiveLog
from holdfast.store.run import open_run


class SessionHandle:
    """Stops or wakes a session from outside it, for example on a signal."""

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._reason: str | None = None
        self.lost = asyncio.Event()  # the run is another process's now; everything that the session started is dead

    @property
    def reason(self) -> str | None:
        """Return why it was asked to stop; None if it was not."""
        return self._reason

    def stop(self, reason: str) -> None:
        self._reason = reason
        if self._runner is not None:
            self._runner.stop(reason)

    def wake(self) -> None:
        if self._runner is not None:
            self._runner.wake()

    def attach(self, runner: Runner) -> None:
        self._runner = runner
        if self._reason is not None:
            runner.stop(self._reason)


class SessionOptions(NamedTuple):
    """How a session differs from others of its run.

    `flags` are settings for this session. With `lift_limits` prompts are sent although a provider's limit has not
    reset. `expect` is the end of the log from which the resume was decided.
    """

    flags: dict[str, object] | None = None
    lift_limits: bool = False
    expect: Position | None = None


async def run_session(
    home: Home,
    run_id: str,
    choose: Chooser,
    *,
    handle: SessionHandle | None = None,
    options: SessionOptions | None = None,
) -> SessionResult:
    """Run a run until it is done, stuck or stopped."""
    handle, options = handle or SessionHandle(), options or SessionOptions()
    remove_own_marks()  # the markers of an agent, if an agent of the run called us
    async with (
        AsyncExitStack() as beside,
        open_run(home.store, run_id) as run,
        ended_when_lost(run, run_id, home.folder(run_id), handle.lost),
    ):
        if not run.state.has_plan:
            raise NothingToDo(
                f"run {run_id} was killed before its plan was recorded, so there is nothing to continue; "
                f"delete it with: holdfast reset {run_id}"
            )
        if options.expect not in (None, run.head.position):
            raise PositionMismatch(f"run {run_id} went on since you looked; look again, then choose")
        analysis = analyze(run.state)
        opening = opening_of(run.state)
        folder = home.folder(run_id)
        chosen = await choose_resume(run, folder, analysis, choose) if opening is not Opening.START else ResumeChoice()
        repository = await open_owned_repository(home, run.state.run, run_id)
        config = run_config_for(home, run.state, options.flags)
        config.check_agents((task.wants for task in run.state.tasks.values()), reads_playbooks=False)
        confine(repository, run_id, folder, lambda: run.state, config)
        machine = machine_id(home) if run.state.run is not None and run.state.run.remote is not None else None
        start = SessionStart(command="run" if opening is Opening.START else "resume", pid=os.getpid(), machine=machine)
        effects = EffectRunner(run, run_id, repository, folder)
        require_no_user_operation(Workspace(effects))
        unexported = await _export_and_notify(home, run_id, config.settings, beside)
        await run.begin_session(start, *([WarningLogged(message=unexported)] if unexported is not None else []))
        workspace = Workspace(effects, await effects.settle())
        try:
            await finish_rewind(workspace)
            if opening is Opening.FINISH_PLANNING or not _has_worktree(workspace, opening):
                await workspace.open_worktree(base=run.state.checkpoints[0].commit if run.state.checkpoints else None)
            if options.lift_limits:
                await run.append(*(LimitLifted(agent=agent, by=user_name()) for agent in run.state.limits))
            if opening is not Opening.START:
                await apply_resume(workspace, analysis, chosen)
            shared = SharedLimits(home.store.limits, run_id, clock=time.time, ignores_known=options.lift_limits)
            limits = LimitContext(config.limits, shared=shared, stand_ins=config.choice.stand_ins)
            return await _run_loop(home, workspace, config, handle, limits)
        except asyncio.CancelledError:  # the second Ctrl-C: not a crash, so the log records the reason
            with suppress(HoldfastError):
                await finish_uncancelled(run.append(SessionEnd(reason=handle.reason or EndReason.INTERRUPTED)))
            raise
        except (HoldfastError, OSError) as error:
            reported = error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)
            encountered = ErrorEncountered(error=str(reported), retried=True)
            await run.append(encountered, SessionEnd(reason=EndReason.ERROR, summary=str(reported)))
            require_repository(run.state.run, run_id)  # without one every other error is only a consequence
            raise reported from error
        finally:
            await effects.write_anchor()


async def _export_and_notify(home: Home, run_id: str, settings: Settings, beside: AsyncExitStack) -> str | None:
    """Export and notify what is recorded, as the settings say. Returns a warning if nothing can be exported."""
    warning = None
    if settings.telemetry.enabled:
        from holdfast.engine.telemetry.live import exporting, missing_packages  # noqa: PLC0415 - few homes export

        warning = missing_packages(settings.telemetry)
        await beside.enter_async_context(exporting(home, run_id, settings.telemetry))
    if settings.notify:
        from holdfast.engine.notify.notifier import notifying  # noqa: PLC0415 - slow to import; few homes notify

        await beside.enter_async_context(notifying(home, run_id, settings.notify))
    return warning


def _has_worktree(workspace: Workspace, opening: Opening) -> bool:
    """Whether the run's worktree was made. A new cluster run may have its branch, with seeds, and no worktree yet."""
    state = workspace.effects.run.state
    is_new_in_cluster = opening is Opening.START and state.run is not None and state.run.remote is not None
    is_known = workspace.place().branch in state.branches
    return is_known and (not is_new_in_cluster or os.path.isdir(workspace.worktree().path))


async def _run_loop(
    home: Home, workspace: Workspace, config: RunConfig, handle: SessionHandle, limits: LimitContext
) -> SessionResult:
    """Run the loop with everything that it needs."""
    effects = workspace.effects
    run, run_id = effects.run, effects.run_id

    def hook_place(task_id: str | None, conversation_id: str | None) -> CheckPlace:
        return CheckPlace.of(workspace, task_id, runtime_for_hooks(run.state, config, task_id, conversation_id))

    def untrusted(conversation_id: str) -> str | None:
        place = hook_place(run.state.conversations[conversation_id].task, conversation_id)
        return effects.folder if place.role.runtime.is_confined else None

    broker = PermissionBroker(run, config.consent, untrusted)
    hooks = HookRunner(run, effects.folder, config.settings.hooks, hook_place)
    cost_cap = CostCap(run, config, read_matrix(home))
    repository = budget_name(home, workspace)
    budget_guard = BudgetGuard(home.store, run_id, repository, config.settings.budgets, WallClock())

    def on_usage() -> None:
        handle.wake()
        budget_guard.usage_recorded()

    observer = Observer(
        hooks,
        lambda name: workspace.worktree(run.state.conversations[name].task),
        on_usage,
        cost_cap.warn_after_turn,
    )

    def role_of(conversation_id: str) -> str:
        state = run.state.conversations.get(conversation_id)
        if config.workflow.chat:
            return INTERVIEWER_ROLE if config.workflow.interview else CHAT_ROLE
        return (state.role if state is not None else None) or "agent"

    reports = ReportServer(
        effects.folder,
        lambda name: Reporter(home, run_id, role_of(name), name, state=run.state),
    )
    context = ConversationContext(
        run_id,
        effects.folder,
        LiveLog(home.store.log(run_id), run.state.rewinds),
        config.agents,
        proven_abilities(home),
        tools=lambda name, _: _mcp_command(home, run_id, name, role_of(name)),
        fetch=lambda attachment: has_attachment(home, run_id, attachment),
        spools_reports=home.store_url is not None,
        relay=reports.relay_command,
        must_report=lambda conversation: (
            not config.workflow.chat and (conversation.role != WORKER or config.workflow.case)
        ),
        on_event=observer.handle_event,
        on_turn_start=observer.on_turn_start,
        on_turn_end=observer.on_turn_end,
        prices=config.prices,
        models=config.models,
        runtimes=config.runtimes,
        limits=limits,
    )
    write_projections(effects.folder, run.state)
    await cost_cap.warn_at_start()
    await hooks.run("session_start")
    live_text = LiveTextServer(effects.folder, run.redactor)
    async with (
        live_text,
        reports,
        Conversations(run, context, broker, live_text) as conversations,
        LiveChanges(conversations) as changes,
    ):
        chat = ChatCallbacks(
            changes.cancel_turn,
            changes.apply_option,
            lambda agent: find_agent(agent, config.agents),
            conversations.delivery_lock,
        )
        receiver = InboxHandler(run, broker, config.workflow, handle.stop, chat)
        callbacks = StepCallbacks(receiver.receive, handle.wake, partial(prepare_interviewed, home))
        steps = TaskSteps(workspace, conversations, config, hooks, callbacks)
        runner = Runner(run, home.store.inbox(run_id), steps, conversations, config)
        handle.attach(runner)
        disk_guard = DiskGuard([effects.folder, workspace.repository.common_dir], config.settings.disk.reserve)
        guards = Guards(disk_guard, budget_guard)
        async with guards.watching(runner.stop), snapshotting_turns(workspace, config.settings.cluster.snapshots):
            reason = await runner.run(receiver)
        await observer.wait_until_idle()
        problems = [f"{key}: {why}" for key, why in runner.stuck.items()]
        problems += [f"{task_id}: {words}" for task_id, words in steps.declined.items()]
        if reason in (EndReason.QUOTA, EndReason.OUTAGE):
            problems += [f"{agent}: {text}" for agent, text in limit_lines(run.state, context.limits.clock())]
        problems += filter(None, [guards.problem(reason)])
        stuck = run.redactor.redact_text("; ".join(problems)) or None
    effects.delete_trash()
    write_projections(effects.folder, run.state)  # before the end is recorded: a finished run need not be opened again
    await run.append(SessionEnd(reason=reason, summary=stuck))
    await hooks.run("session_end", reason=reason)
    await hooks.run("notify", reason=reason)
    return SessionResult(reason, stuck)


def _mcp_command(home: Home, run_id: str, conversation_id: str, role: str) -> tuple[str, ...]:
    about = (
        "--home",
        home.path,
        "--run",
        run_id,
        "--role",
        role,
        "--conversation",
        conversation_id,
    )
    return holdfast_command("mcp", *about)
