"""Runs one session of a run, from its start or resume to its end: own → repair → fold → settle → decide → the loop.

Start and resume share this path. A resume records what it found and decided as one event; then the loop is the same.
"""

import asyncio
import os
from contextlib import suppress

from holdfast.agents.process.tree import finish_uncancelled
from holdfast.agents.registry import find_agent
from holdfast.core.decide.analysis import analyze
from holdfast.core.decide.attribution import WORKER
from holdfast.core.decide.resume import Opening, ResumeChoice, opening_of
from holdfast.core.end_reason import EndReason
from holdfast.core.events.issue import ErrorEncountered
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.messages.signals import CHAT_ROLE
from holdfast.engine.agents.conversations import ConversationContext, Conversations
from holdfast.engine.agents.matrix import proven_abilities, read_matrix
from holdfast.engine.agents.options import LiveChanges
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.checks.validators import CheckPlace
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.home import Home
from holdfast.engine.hooks.hooks import HookRunner
from holdfast.engine.hooks.observer import Observer
from holdfast.engine.inbox.handle import InboxHandler
from holdfast.engine.inbox.handle_chat import ChatCallbacks
from holdfast.engine.session.cost_cap import CostCap
from holdfast.engine.session.live_text import LiveTextServer
from holdfast.engine.session.projections import write_projections
from holdfast.engine.session.resume import apply_resume, choose_resume
from holdfast.engine.session.resume_choice import Chooser, SessionResult
from holdfast.engine.session.runner import Runner
from holdfast.engine.session.task_steps import StepCallbacks, TaskSteps
from holdfast.engine.workspace.confinement import confine, runtime_for_hooks
from holdfast.engine.workspace.effects import EffectRunner
from holdfast.engine.workspace.reconcile import require_no_user_operation
from holdfast.engine.workspace.rewind import finish_rewind
from holdfast.engine.workspace.workspace import Workspace, repository_of
from holdfast.leaf.errors import HoldfastError, NothingToDo, StorageFailed
from holdfast.leaf.process.env_markers import remove_own_marks
from holdfast.leaf.process.own_program import holdfast_command
from holdfast.store.live_log import LiveLog
from holdfast.store.run import open_run


class SessionHandle:
    """Stops or wakes a session from outside it, for example on a signal."""

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._reason: str | None = None

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


async def run_session(
    home: Home,
    run_id: str,
    choose: Chooser,
    *,
    handle: SessionHandle | None = None,
    flags: dict[str, object] | None = None,
) -> SessionResult:
    """Run a run until it is done, stuck or stopped."""
    handle = handle or SessionHandle()
    remove_own_marks()  # the markers of an agent, if an agent of the run called us
    async with open_run(home.store, run_id) as run:
        if not run.state.has_plan:
            raise NothingToDo(
                f"run {run_id} was killed before its plan was recorded, so there is nothing to continue; "
                f"delete it with: holdfast reset {run_id}"
            )
        analysis = analyze(run.state)
        opening = opening_of(run.state)
        folder = home.folder(run_id)
        chosen = await choose_resume(run, folder, analysis, choose) if opening is not Opening.START else ResumeChoice()
        repository = repository_of(run.state.run, run_id, folder)
        config = run_config_for(home, run.state, flags)
        config.check_agents(task.wants for task in run.state.tasks.values())
        confine(repository, run_id, folder, lambda: run.state, config)
        start = SessionStart(command="run" if opening is Opening.START else "resume", pid=os.getpid())
        effects = EffectRunner(run, run_id, repository, folder)
        require_no_user_operation(Workspace(effects))
        await run.begin_session(start)
        workspace = Workspace(effects, await effects.settle())
        try:
            await finish_rewind(workspace)
            if opening is Opening.FINISH_PLANNING or workspace.place().branch not in run.state.branches:
                await workspace.open_worktree(base=run.state.checkpoints[0].commit if run.state.checkpoints else None)
            if opening is not Opening.START:
                await apply_resume(workspace, analysis, chosen)
            return await _run_loop(home, workspace, config, handle)
        except asyncio.CancelledError:  # the second Ctrl-C: not a crash, so the log records the reason
            with suppress(HoldfastError):
                await finish_uncancelled(run.append(SessionEnd(reason=handle.reason or EndReason.INTERRUPTED)))
            raise
        except (HoldfastError, OSError) as error:
            reported = error if isinstance(error, HoldfastError) else StorageFailed.from_os_error(error)
            encountered = ErrorEncountered(error=str(reported), retried=True)
            await run.append(encountered, SessionEnd(reason=EndReason.ERROR, summary=str(reported)))
            repository_of(run.state.run, run_id)  # without a repository every other error is only a consequence
            raise reported from error
        finally:
            await effects.write_anchor()


async def _run_loop(home: Home, workspace: Workspace, config: RunConfig, handle: SessionHandle) -> SessionResult:
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
    observer = Observer(
        hooks,
        lambda name: workspace.worktree(run.state.conversations[name].task),
        handle.wake,
        cost_cap.warn_after_turn,
    )
    context = ConversationContext(
        run_id,
        effects.folder,
        LiveLog(home.store.log(run_id), run.state.rewinds),
        config.agents,
        proven_abilities(home),
        tools=lambda name, state: _mcp_command(
            home, run_id, name, CHAT_ROLE if config.workflow.chat else state.role or "agent"
        ),
        must_report=lambda conversation: (
            not config.workflow.chat and (conversation.role != WORKER or config.workflow.case)
        ),
        on_event=observer.handle_event,
        on_turn_start=observer.on_turn_start,
        on_turn_end=observer.on_turn_end,
        models=config.models,
        runtimes=config.runtimes,
    )
    write_projections(effects.folder, run.state)
    await cost_cap.warn_at_start()
    await hooks.run("session_start")
    live_text = LiveTextServer(effects.folder, run.redactor)
    async with (
        live_text,
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
        steps = TaskSteps(workspace, conversations, config, hooks, StepCallbacks(receiver.receive, handle.wake))
        runner = Runner(run, home.store.inbox(run_id), steps, conversations, config)
        handle.attach(runner)
        reason = await runner.run(receiver)
        await observer.wait_until_idle()
        problems = [f"{key}: {why}" for key, why in runner.stuck.items()]
        problems += [f"{task_id}: {words}" for task_id, words in steps.declined.items()]
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
