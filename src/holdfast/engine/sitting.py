"""One sitting on a run, from its start or resume to its end: own → repair → fold → settle → decide → the loop.

There is one way for both. What a resume finds and what was decided is one event; after it, the loop is as ever.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from holdfast.core.analysis import Analysis, analyze
from holdfast.core.decision import Case, Choice
from holdfast.core.events import Event
from holdfast.core.events.issue import BlockerReported, WarningLogged
from holdfast.core.events.phase import PhaseReopened
from holdfast.core.events.session import RunResumed, SessionEnd, SessionStart
from holdfast.core.events.task import TaskSkipped
from holdfast.core.events.work import TaskReopened
from holdfast.core.reconciliation import Remedy
from holdfast.core.state import BranchStatus, Conversation, PhaseStatus, RunState, TaskStatus
from holdfast.engine.conversations import Conversations, Ground
from holdfast.engine.effects import Hands
from holdfast.engine.evidence import differences, told
from holdfast.engine.hooking import Hooks
from holdfast.engine.matrix import proven
from holdfast.engine.observing import Observer
from holdfast.engine.permissions import Desk
from holdfast.engine.planning import plan_again, terms_for, workflow_of
from holdfast.engine.projecting import write_pages, write_projections
from holdfast.engine.receiving import Receiver
from holdfast.engine.reconciling import must_be_left_by_others, own_branch_again, reconciled
from holdfast.engine.runner import Runner
from holdfast.engine.steps import Ears, Steps, at_work
from holdfast.engine.terms import Terms
from holdfast.engine.ways import Chooser, Ended, Way
from holdfast.engine.workspace import Workspace, repository_of
from holdfast.git.effects import Happened
from holdfast.leaf.errors import DecisionNeeded, Denied, HoldfastError, NothingToDo, StorageFailed
from holdfast.leaf.marks import drop_marks
from holdfast.store.files import FileStore
from holdfast.store.layout import run_folder
from holdfast.store.run import OwnedRun, open_run


class Handle:
    """By which a sitting is reached from outside, as by a signal."""

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._reason: str | None = None

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
    drop_marks()  # those of an agent of the run, where one called us
    store = FileStore(home)
    async with open_run(store, run_id) as run:
        if run.state.plan is None and run.state.workflow is None:
            raise NothingToDo(f"this run was cut off before its plan was made; `holdfast reset {run_id}` takes it away")
        analysis = analyze(run.state)
        resumed = not _is_prepared(run.state)
        folder = run_folder(store.home, run_id)
        way = await _way(run, folder, analysis, choose) if resumed else None
        repository = repository_of(run.state.run, run_id, folder)
        terms = terms_for(home, run.state, flags)
        terms.must_have_agents(task.wants for task in run.state.tasks.values())
        start = SessionStart(
            command="resume" if resumed else "run",
            branch=run.state.run.branch if run.state.run else None,
            pid=os.getpid(),
        )
        hands = Hands(run, run_id, repository, folder)
        must_be_left_by_others(Workspace(hands))
        await run.begin(start)
        workspace = Workspace(hands, await hands.settle())
        try:
            if workspace.place().branch not in run.state.branches:  # it was cut off while it was made
                await workspace.open(base=run.state.checkpoints[0].commit if run.state.checkpoints else None)
            if resumed:
                await _resumed(workspace, analysis, way)
            return await _moved(store, workspace, terms, handle or Handle())
        except (HoldfastError, OSError) as error:
            told = error if isinstance(error, HoldfastError) else StorageFailed.by(error)
            await run.append(SessionEnd(reason="error", summary=str(told)))
            repository_of(run.state.run, run_id)  # without it, all else is only what follows from that
            raise told from error


def _is_prepared(state: RunState) -> bool:
    """Made, and never worked on."""
    newest = state.newest_sitting()
    return newest is not None and newest.command == "plan" and newest.ended


async def _way(run: OwnedRun, folder: str, analysis: Analysis, choose: Chooser) -> Way | None:
    """How to go on; nothing of the work is touched before that is known."""
    case = analysis.decision.case
    if case is Case.COMPLETE and not (run.state.messages or await run.has_mail() or plan_again(run.state)):
        write_pages(folder, run.state)
        raise NothingToDo("this run is done; there is nothing to resume. `holdfast send` gives its agent more to do")
    if case in (Case.AUTO, Case.COMPLETE):
        return None
    way = choose(analysis)
    if way is None:
        options = "; ".join(f"{option.key}: {option.label}" for option in analysis.decision.options)
        raise DecisionNeeded(f"it is for you to say how to go on ({options}); use --on-issue fix, skip, or your words")
    return way


async def _resumed(workspace: Workspace, analysis: Analysis, way: Way | None) -> None:
    """Bring git in line with the log, act on the decision, and write down all of it as one."""
    run = workspace.hands.run
    lost = await own_branch_again(workspace)
    for name in _done_and_there(run.state):
        with suppress(Denied):  # it is looked at again below, and whoever is in the way is told
            await workspace.take_away(name)
    findings = lost + await reconciled(workspace)
    failed = _in_trouble(run.state) if way is not None else []  # not those of which nobody was asked
    skipping = way is not None and way.choice is Choice.SKIP
    going_on = [name for name, task in run.state.tasks.items() if task.status is TaskStatus.IN_PROGRESS]
    if skipping:  # also what was blocked and had not failed yet
        failed += [name for name in going_on if name in analysis.decision.affected and name not in failed]
        await _give_up(workspace, [name for name in going_on if name in failed])
        going_on = [name for name in going_on if name not in failed]
    unwound = [] if skipping else [await workspace.unwind_failed(name) for name in failed]
    changes: list[Event] = (
        [TaskSkipped(task_id=name, reason="chosen when the run was resumed") for name in failed]
        if skipping
        else [TaskReopened(task_id=name, reason="tried again when the run was resumed") for name in failed]
    )
    changes += _phases_again(run.state)
    plan = plan_again(run.state)
    last = run.state.sessions.get(analysis.sid or "")
    found = RunResumed(
        summary=_summary(run.state, failed, going_on, skipping=skipping, changed=plan is not None),
        last_stop=(last.end_reason or "ended") if last is not None and last.ended else "interrupted",
        decision=way.choice if way is not None else None,
        retried=[] if skipping else failed,
        skipped=failed if skipping else [],
        pending=[name for name, task in run.state.tasks.items() if task.status is TaskStatus.PENDING],
        unwound=[commit for commit in unwound if commit is not None],
        settled=[f"{one.kind} {one.task or ''}: {_told(one.probe.happened)}" for one in workspace.settled],
        reconciled=[one.told for one in findings if one.remedy is not Remedy.NONE],
        instructions=way.words if way is not None else None,
    )
    warned = [WarningLogged(message=text) for text in _evidence(workspace)]
    roster = [at_work(name, workspace.place(name).branch) for name in going_on]
    planned = [plan] if plan is not None else []
    chosen = [*planned, *changes] if skipping else [*changes, *planned]  # skipped, be it planned otherwise
    await run.append(found, *warned, *chosen, *roster)


async def _give_up(workspace: Workspace, names: Sequence[str]) -> None:
    """Those that are skipped and had not failed yet: what they did is kept, as if they had."""
    for name in names:
        if os.path.isdir(workspace.worktree(name).path):
            with suppress(Denied):  # somebody is in the way: it stays where it is
                await workspace.give_up(name, "blocked")


def _evidence(workspace: Workspace) -> list[str]:
    """Of the documents that lie beside the log, what is not as it has them; they are written again as it goes on."""
    state = workspace.hands.run.state
    plans = workflow_of(state).planner is not None
    return [told(workspace.run_id, one, plans=plans) for one in differences(workspace.hands.folder, state)]


def _done_and_there(state: RunState) -> list[str]:
    """Tasks that are done and whose branch never had anything to be merged: by that, it looks as if they went on."""
    begun = {one.task for one in state.branches.values() if one.status is BranchStatus.IN_PROGRESS}
    return [name for name, task in state.tasks.items() if task.status is TaskStatus.COMPLETE and name in begun]


def _in_trouble(state: RunState) -> list[str]:
    """The tasks that failed, and those that were about to: their agents cannot go on."""
    blocked = {issue.task for issue in state.issues if issue.type == BlockerReported.type}
    stuck = {name for name, task in state.tasks.items() if task.status is TaskStatus.IN_PROGRESS} & blocked
    return [name for name, task in state.tasks.items() if task.status is TaskStatus.FAILED or name in stuck]


def _phases_again(state: RunState) -> list[Event]:
    """A phase that failed is tried again, whatever was chosen for the tasks: there is no way around one.

    A review that did not pass leads to what it found, never past it.
    """
    failed = [name for name, phase in state.phases.items() if phase.status is PhaseStatus.FAILED]
    return [PhaseReopened(phase=name, reason="tried again when the run was resumed") for name in failed]


def _told(happened: Happened) -> str:
    return {Happened.YES: "it had happened", Happened.NO: "it had not happened", Happened.UNKNOWN: "unknown"}[happened]


def _summary(state: RunState, failed: Sequence[str], going_on: Sequence[str], *, skipping: bool, changed: bool) -> str:
    done = sum(task.status in (TaskStatus.COMPLETE, TaskStatus.SKIPPED) for task in state.tasks.values())
    where = f"it stands in {state.phase}" if state.phase is not None else ""
    parts = [
        where,
        f"{done} of {len(state.tasks)} tasks are done",
        f"{', '.join(going_on)} go on where they stood" if going_on else "",
        f"{', '.join(failed)} {'are skipped' if skipping else 'are tried again'}" if failed else "",
        "the plan was changed meanwhile" if changed else "",
    ]
    return "; ".join(part for part in parts if part)


async def _moved(store: FileStore, workspace: Workspace, terms: Terms, handle: Handle) -> Ended:
    """The loop, with all that it needs around it."""
    hands = workspace.hands
    run, run_id = hands.run, hands.run_id
    desk = Desk(run, terms.consent)
    hooks = Hooks(run, run_id, hands.folder, terms.settings.hooks)
    observer = Observer(hooks, handle.wake)
    ground = Ground(
        run_id,
        hands.folder,
        store.log(run_id),
        terms.agents,
        proven(store.home),
        tools=lambda name, talk: _tools(store.home, run_id, name, talk),
        heard=observer.hear,
        models=terms.models,
        runtimes=terms.runtimes,
    )
    write_projections(hands.folder, run.state)
    await hooks.run("session_start")
    async with Conversations(run, ground, desk) as conversations:
        receiver = Receiver(run, desk, terms.workflow, handle.stop)
        steps = Steps(workspace, conversations, terms, hooks, Ears(receiver.receive, handle.wake))
        runner = Runner(run, store.inbox(run_id), steps, conversations, terms)
        handle.attach(runner)
        reason = await runner.run(receiver)
        await observer.settled()
        stuck = "; ".join(f"{name}: {why}" for name, why in runner.stuck.items()) or None
    hands.tidy()
    write_projections(hands.folder, run.state)  # before its end: nobody need open again what is done
    await run.append(SessionEnd(reason=reason, summary=stuck))
    await hooks.run("session_end", reason=reason)
    await hooks.run("notify", reason=reason)
    return Ended(reason, stuck)


def _tools(home: str, run_id: str, name: str, talk: Conversation) -> list[str]:
    about = ("--home", os.path.abspath(home), "--run", run_id, "--role", talk.role or "agent", "--conversation", name)
    return [sys.executable, "-m", "holdfast", "mcp", *about]
