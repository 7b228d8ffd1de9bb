"""One sitting on a run, from its start or resume to its end: own → repair → fold → settle → decide → the loop.

There is one way for both. What a resume finds and what was decided is one event; after it, the loop is as ever.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.agents.process.tree import seen_through
from holdfast.core.decide.analysis import Analysis, analyze
from holdfast.core.decide.attribution import WORKER
from holdfast.core.decide.resume import Case, Choice, ResumeChoice, tasks_of
from holdfast.core.events import Event
from holdfast.core.events.issue import ErrorEncountered, WarningLogged
from holdfast.core.events.phase import PhaseReopened
from holdfast.core.events.session import ResumeChosen, RunResumed, SessionEnd, SessionStart
from holdfast.core.events.task import TaskSkipped
from holdfast.core.events.work import TaskReopened, TaskRestarted
from holdfast.core.state import BranchStatus, Conversation, PendingChoice, PhaseStatus, RunState, TaskStatus
from holdfast.core.work.reconciliation import Remedy
from holdfast.engine.agents.conversations import Conversations, Ground
from holdfast.engine.agents.matrix import matrix, proven
from holdfast.engine.agents.permissions import Desk
from holdfast.engine.checks.validators import CheckPlace
from holdfast.engine.config.of_run import terms_for, workflow_of
from holdfast.engine.config.run_config import Terms
from holdfast.engine.hooks.hooks import Hooks
from holdfast.engine.hooks.observer import Observer
from holdfast.engine.inbox.handle import Receiver
from holdfast.engine.session.artifacts import differences, told
from holdfast.engine.session.cost_cap import CostCap
from holdfast.engine.session.plan_source import plan_again
from holdfast.engine.session.projections import write_pages, write_projections
from holdfast.engine.session.resume_choice import Chooser, Ended
from holdfast.engine.session.runner import Runner
from holdfast.engine.session.task_steps import Ears, Steps
from holdfast.engine.workspace.confinement import confine, runtime_for_hooks
from holdfast.engine.workspace.effects import Hands
from holdfast.engine.workspace.reconcile import must_be_left_by_others, own_branch_again, reconciled
from holdfast.engine.workspace.task_tree import give_up
from holdfast.engine.workspace.workspace import Workspace, repository_of
from holdfast.git.effects import Happened
from holdfast.leaf.errors import DecisionNeeded, Denied, HoldfastError, NothingToDo, StorageFailed
from holdfast.leaf.failpoints import around
from holdfast.leaf.process.env_markers import drop_marks
from holdfast.leaf.process.own_program import own_program
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run

_CRASH_CHOICE = around("resume.choice")
_ANSWERS = ("retry", "restart", "skip")
_DOING: Mapping[str, str] = {Choice.SKIP: "skipping", Choice.RESTART: "restarting from scratch"}


class Handle:
    """By which a sitting is reached from outside, as by a signal."""

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """Why it was asked to stop; None while nobody has."""
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


async def sit(
    home: str,
    run_id: str,
    choose: Chooser,
    *,
    handle: Handle | None = None,
    flags: dict[str, object] | None = None,
) -> Ended:
    """Move a run until it is done, stuck, or stopped."""
    handle = handle or Handle()
    drop_marks()  # those of an agent of the run, where one called us
    store = FileStore(home)
    async with open_run(store, run_id) as run:
        if not run.state.has_plan:
            raise NothingToDo(
                f"run {run_id} was killed before its plan was recorded, so there is nothing to continue; "
                f"delete it with: holdfast reset {run_id}"
            )
        analysis = analyze(run.state)
        resumed, unfinished = not _is_prepared(run.state), _was_killed_in_planning(run.state)
        folder = run_folder(store.home, run_id)
        chosen = await _choice(run, folder, analysis, choose) if resumed else ResumeChoice()
        repository = repository_of(run.state.run, run_id, folder)
        terms = terms_for(home, run.state, flags)
        terms.must_have_agents(task.wants for task in run.state.tasks.values())
        confine(repository, run_id, folder, lambda: run.state, terms)
        start = SessionStart(command="resume" if resumed else "run", pid=os.getpid())
        hands = Hands(run, run_id, repository, folder)
        must_be_left_by_others(Workspace(hands))
        await run.begin(start)
        workspace = Workspace(hands, await hands.settle())
        try:
            if unfinished or workspace.place().branch not in run.state.branches:
                await workspace.open(base=run.state.checkpoints[0].commit if run.state.checkpoints else None)
            if resumed:
                await _resumed(workspace, analysis, chosen)
            return await _moved(store, workspace, terms, handle)
        except asyncio.CancelledError:  # the second Ctrl-C: no crash, so the log says who stopped it
            with suppress(HoldfastError):
                await seen_through(run.append(SessionEnd(reason=handle.reason or "interrupted")))
            raise
        except (HoldfastError, OSError) as error:
            told = error if isinstance(error, HoldfastError) else StorageFailed.by(error)
            encountered = ErrorEncountered(error=str(told), retried=True)
            await run.append(encountered, SessionEnd(reason="error", summary=str(told)))
            repository_of(run.state.run, run_id)  # without it, all else is only what follows from that
            raise told from error
        finally:
            await hands.write_anchor()


def _is_prepared(state: RunState) -> bool:
    """Made, and never worked on."""
    newest = state.newest_sitting()
    return newest is not None and newest.command == "plan" and newest.ended


def _was_killed_in_planning(state: RunState) -> bool:
    """Its branch may be there, and its worktree may not."""
    newest = state.newest_sitting()
    return newest is not None and newest.command == "plan" and not newest.ended


async def _choice(run: OwnedRun, folder: str, analysis: Analysis, choose: Chooser) -> ResumeChoice:
    """How to go on; nothing of the work is touched before that is known."""
    case = analysis.decision.case
    if case is Case.COMPLETE and not (run.state.messages or await run.has_mail() or plan_again(run.state)):
        write_pages(folder, run.state)
        raise NothingToDo("this run is done; there is nothing to resume. `holdfast send` gives its agent more to do")
    chosen = choose(analysis)
    if case in (Case.AUTO, Case.WAITING, Case.COMPLETE):  # a choice only in the place of one that was recorded before
        given = chosen or ResumeChoice()
        return given if analysis.decision.chosen is not None else ResumeChoice(None, given.instructions)
    if chosen is None or chosen.choice is None:
        options = "; ".join(f"{option.key}: {option.label}" for option in analysis.decision.options)
        raise DecisionNeeded(
            f"a decision is needed ({options}); choose with --on-issue {'|'.join(_ANSWERS)}, or --instructions TEXT"
        )
    return chosen


async def _recorded(run: OwnedRun, analysis: Analysis, chosen: ResumeChoice) -> PendingChoice | None:
    """The choice that this resume acts on: one made now is in the log first, else one that a crash left there."""
    if chosen.choice is not None:
        affected = tasks_of(chosen.choice, run.state, analysis.decision.affected)
        _CRASH_CHOICE.before()
        await run.append(ResumeChosen(choice=chosen.choice, tasks=affected, instructions=chosen.instructions))
        _CRASH_CHOICE.after()
    pending = run.state.choice
    return pending if pending is not None and pending.choice in list(Choice) else None  # a newer version's is not ours


async def _resumed(workspace: Workspace, analysis: Analysis, chosen: ResumeChoice) -> None:
    """Bring git in line with the log, act on the choice, and write down all of it as one."""
    run = workspace.hands.run
    pending = await _recorded(run, analysis, chosen)
    choice = pending.choice if pending is not None else None
    concerned = _still_concerned(run.state, pending)
    lost = await own_branch_again(workspace)
    salvaged = {name: await workspace.discard(name) for name in concerned if choice == Choice.RESTART}
    for name in _done_and_there(run.state):
        with suppress(Denied):  # it is looked at again below, and whoever is in the way is told
            await workspace.take_away(name)
    findings = lost + await reconciled(workspace)
    if choice == Choice.SKIP:
        await _give_up(workspace, [name for name in concerned if _is_in_progress(run.state, name)])
    unwinding = [] if choice in (Choice.SKIP, Choice.RESTART) else concerned
    unwound = [await workspace.unwind_failed(name) for name in unwinding if _has_branch(workspace, name)]
    changes = [*_changes(choice, concerned, salvaged), *_phases_again(run.state)]
    plan = plan_again(run.state)
    last = run.state.sessions.get(analysis.sid or "")
    found = RunResumed(
        summary=_summary(run.state, concerned, choice, changed=plan is not None),
        last_stop=last.stop if last is not None else None,
        decision=choice,
        retried=concerned if unwinding else [],
        skipped=concerned if choice == Choice.SKIP else [],
        restarted=concerned if choice == Choice.RESTART else [],
        salvaged=[ref for refs in salvaged.values() for ref in refs],
        pending=[name for name, task in run.state.tasks.items() if task.status is TaskStatus.PENDING],
        unwound=[commit for commit in unwound if commit is not None],
        settled=[f"{one.kind} {one.task or ''}: {_told(one.probe.happened)}" for one in workspace.settled],
        reconciled=[one.told for one in findings if one.remedy is not Remedy.NONE],
        instructions=pending.instructions if pending is not None else chosen.instructions,
    )
    warned = [WarningLogged(message=text) for text in _evidence(workspace)]
    planned = [plan] if plan is not None else []
    after = [*planned, *changes] if choice == Choice.SKIP else [*changes, *planned]  # skipped, whatever the plan says
    await run.append(*warned, *after, found)  # last: torn off, the choice stands, and all of it is done again


def _still_concerned(state: RunState, pending: PendingChoice | None) -> list[str]:
    """The tasks of a choice, but for those that are not there any more."""
    return [name for name in pending.tasks if name in state.tasks] if pending is not None else []


def _is_in_progress(state: RunState, name: str) -> bool:
    return state.tasks[name].status is TaskStatus.IN_PROGRESS


def _has_branch(workspace: Workspace, name: str) -> bool:
    """False of a task that a restart was begun for, before another choice was made."""
    known = workspace.hands.run.state.branches.get(workspace.place(name).branch)
    return known is not None and known.status is BranchStatus.IN_PROGRESS


def _changes(choice: str | None, names: Sequence[str], salvaged: Mapping[str, list[str]]) -> list[Event]:
    """What a choice means for its tasks."""
    match choice:
        case None:
            return []
        case Choice.SKIP:
            return [TaskSkipped(task_id=name, reason="chosen when the run was resumed") for name in names]
        case Choice.RESTART:
            why = "chosen when the run was resumed"
            return [TaskRestarted(task_id=name, reason=why, salvaged=salvaged[name]) for name in names]
        case _:
            return [TaskReopened(task_id=name, reason="tried again when the run was resumed") for name in names]


async def _give_up(workspace: Workspace, names: Sequence[str]) -> None:
    """Those that are skipped and had not failed yet: what they did is kept, as if they had."""
    for name in names:
        if os.path.isdir(workspace.worktree(name).path):
            with suppress(Denied):  # somebody is in the way: it stays where it is
                await give_up(workspace, name, "blocked")


def _evidence(workspace: Workspace) -> list[str]:
    """Of the documents that lie beside the log, what is not as it has them; they are written again as it goes on."""
    state = workspace.hands.run.state
    plans = workflow_of(state).planner is not None
    return [told(workspace.run_id, one, plans=plans) for one in differences(workspace.hands.folder, state)]


def _done_and_there(state: RunState) -> list[str]:
    """Tasks that are done and whose branch never had anything to be merged: by that, it looks as if they went on."""
    begun = {one.task for one in state.branches.values() if one.status is BranchStatus.IN_PROGRESS}
    return [name for name, task in state.tasks.items() if task.status is TaskStatus.COMPLETE and name in begun]


def _phases_again(state: RunState) -> list[Event]:
    """A phase that failed is tried again, whatever was chosen for the tasks: there is no way around one.

    A review that did not pass leads to what it found, never past it.
    """
    failed = [name for name, phase in state.phases.items() if phase.status is PhaseStatus.FAILED]
    return [PhaseReopened(phase=name, reason="tried again when the run was resumed") for name in failed]


def _told(happened: Happened) -> str:
    return {Happened.YES: "it had happened", Happened.NO: "it had not happened", Happened.UNKNOWN: "unknown"}[happened]


def _summary(state: RunState, concerned: Sequence[str], choice: str | None, *, changed: bool) -> str:
    done = sum(task.status in (TaskStatus.COMPLETE, TaskStatus.SKIPPED) for task in state.tasks.values())
    continuing = [name for name in state.tasks if _is_in_progress(state, name) and name not in concerned]
    parts = [
        f"in phase {state.phase}" if state.phase is not None else "",
        f"{done} of {len(state.tasks)} tasks done",
        f"continuing {', '.join(continuing)}" if continuing else "",
        f"{_DOING.get(choice or '', 'retrying')} {', '.join(concerned)}" if concerned else "",
        "the plan was changed meanwhile" if changed else "",
    ]
    return "; ".join(part for part in parts if part)


async def _moved(store: FileStore, workspace: Workspace, terms: Terms, handle: Handle) -> Ended:
    """The loop, with all that it needs around it."""
    hands = workspace.hands
    run, run_id = hands.run, hands.run_id

    def hook_place(task_id: str | None, conversation_id: str | None) -> CheckPlace:
        return CheckPlace.of(workspace, task_id, runtime_for_hooks(run.state, terms, task_id, conversation_id))

    def untrusted(conversation_id: str) -> str | None:
        place = hook_place(run.state.conversations[conversation_id].task, conversation_id)
        return hands.folder if place.role.runtime.is_confined else None

    desk = Desk(run, terms.consent, untrusted)
    hooks = Hooks(run, hands.folder, terms.settings.hooks, hook_place)
    cost_cap = CostCap(run, terms, matrix(store.home))
    observer = Observer(
        hooks,
        lambda name: workspace.worktree(run.state.conversations[name].task),
        handle.wake,
        cost_cap.warn_after_turn,
    )
    ground = Ground(
        run_id,
        hands.folder,
        store.log(run_id),
        terms.agents,
        proven(store.home),
        tools=lambda name, talk: _tools(store.home, run_id, name, talk),
        must_report=lambda conversation: conversation.role != WORKER or terms.workflow.case,
        heard=observer.hear,
        turn_begins=observer.turn_begins,
        turn_ended=observer.turn_ended,
        models=terms.models,
        runtimes=terms.runtimes,
    )
    write_projections(hands.folder, run.state)
    await cost_cap.warn_at_start()
    await hooks.run("session_start")
    async with Conversations(run, ground, desk) as conversations:
        receiver = Receiver(run, desk, terms.workflow, handle.stop)
        steps = Steps(workspace, conversations, terms, hooks, Ears(receiver.receive, handle.wake))
        runner = Runner(run, store.inbox(run_id), steps, conversations, terms)
        handle.attach(runner)
        reason = await runner.run(receiver)
        await observer.settled()
        stuck = run.redactor.text("; ".join(f"{name}: {why}" for name, why in runner.stuck.items())) or None
    hands.tidy()
    write_projections(hands.folder, run.state)  # before its end: nobody need open again what is done
    await run.append(SessionEnd(reason=reason, summary=stuck))
    await hooks.run("session_end", reason=reason)
    await hooks.run("notify", reason=reason)
    return Ended(reason, stuck)


def _tools(home: str, run_id: str, name: str, talk: Conversation) -> tuple[str, ...]:
    about = ("--home", os.path.abspath(home), "--run", run_id, "--role", talk.role or "agent", "--conversation", name)
    return own_program("mcp", *about)
