"""Resumes a run: gathers the facts, and carries out what `core.decide.resume` chooses."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import (
    ResumeAction,
    ResumeCase,
    ResumeChoice,
    ResumeOutcome,
    ResumeStep,
    chosen_tasks,
    is_finished,
    resolve_choice,
    resume_events,
    task_actions,
    tasks_for_choice,
    workspace_actions,
)
from holdfast.core.end_reason import TaskFailure
from holdfast.core.events.session import ResumeChosen
from holdfast.core.work.reconciliation import Remedy
from holdfast.engine.config.of_run import workflow_of
from holdfast.engine.session.artifacts import describe_difference, find_differences
from holdfast.engine.session.plan_source import reread_plan
from holdfast.engine.session.projections import write_pages
from holdfast.engine.session.resume_choice import Chooser
from holdfast.engine.workspace.reconcile import reconcile_workspace, restore_run_branch
from holdfast.engine.workspace.task_tree import fail_task
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import ProbeOutcome
from holdfast.leaf.errors import Denied, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.store.run import OwnedRun

_FAILPOINT_CHOICE = failpoint_pair("resume.choice")
_OUTCOME_TEXTS = {
    ProbeOutcome.YES: "it had happened",
    ProbeOutcome.NO: "it had not happened",
    ProbeOutcome.UNKNOWN: "unknown",
}


async def choose_resume(run: OwnedRun, folder: str, analysis: Analysis, choose: Chooser) -> ResumeChoice:
    """Return how to continue. Changes nothing before that is decided."""
    decision = analysis.decision
    if decision.case is ResumeCase.COMPLETE and is_finished(decision, has_news=await _has_news(run)):
        write_pages(folder, run.state)
        run_id = run.state.run.run_id if run.state.run is not None else "RUN"
        advice = f"Give its agent more work with: holdfast send {run_id} MESSAGE"
        raise NothingToDo(f"this run is done; there is nothing to resume. {advice}")
    return resolve_choice(decision, choose(analysis))


async def _has_news(run: OwnedRun) -> bool:
    """Whether there is something to do although the run is done. An unfinished rewind is: its files have to follow."""
    if run.state.rewinding is not None:
        return True
    return bool(run.state.messages) or await run.has_unread() or reread_plan(run.state) is not None


async def apply_resume(workspace: Workspace, analysis: Analysis, given: ResumeChoice) -> None:
    """Bring git in line with the log, carry out the choice, and record everything in one commit."""
    run = workspace.effects.run
    await _record_choice(run, analysis, given)
    chosen = chosen_tasks(run.state)
    findings = await restore_run_branch(workspace)
    removed = await _carry_out(workspace, workspace_actions(run.state, chosen))
    findings += await reconcile_workspace(workspace)
    worktrees = [name for name in chosen.tasks if os.path.isdir(workspace.worktree(name).path)]
    done = await _carry_out(workspace, task_actions(run.state, chosen, worktrees))
    outcome = ResumeOutcome(
        instructions=given.instructions,
        last_sid=analysis.sid,
        salvaged=removed.salvaged,
        unwound=done.unwound,
        settled=[
            f"{finding.kind} {finding.task or ''}: {_OUTCOME_TEXTS[finding.probe.outcome]}"
            for finding in workspace.settled_effects
        ],
        reconciled=[finding.message for finding in findings if finding.remedy is not Remedy.NONE],
        warnings=_artifact_warnings(workspace),
        plan=reread_plan(run.state),
    )
    await run.append(*resume_events(run.state, chosen, outcome))


async def _record_choice(run: OwnedRun, analysis: Analysis, given: ResumeChoice) -> None:
    """Record the choice before acting on it. After a crash, the log may already have one."""
    if given.choice is not None:
        tasks = tasks_for_choice(given.choice, run.state, analysis.decision.affected)
        _FAILPOINT_CHOICE.before()
        await run.append(ResumeChosen(choice=given.choice, tasks=tasks, instructions=given.instructions))
        _FAILPOINT_CHOICE.after()


class _Done(NamedTuple):
    salvaged: dict[str, list[str]]  # by task
    unwound: list[str]


async def _carry_out(workspace: Workspace, actions: Sequence[ResumeAction]) -> _Done:
    done = _Done({}, [])
    for step, task_id in actions:
        match step:
            case ResumeStep.DISCARD:
                done.salvaged[task_id] = await workspace.discard(task_id)
            case ResumeStep.DELETE:
                with suppress(Denied):  # reconciling checks it again and reports what blocks it
                    await workspace.delete_worktree_and_branch(task_id)
            case ResumeStep.FAIL:
                with suppress(Denied):  # something blocks it: it stays
                    await fail_task(workspace, task_id, TaskFailure.BLOCKED)
            case ResumeStep.UNWIND:
                commit = await workspace.unwind_failed(task_id)
                done.unwound.extend([commit] if commit is not None else [])
    return done


def _artifact_warnings(workspace: Workspace) -> list[str]:
    """Return how the documents beside the log differ from it. They are written again as the run continues."""
    state = workspace.effects.run.state
    has_planner = workflow_of(state).planner is not None
    return [
        describe_difference(workspace.run_id, difference, has_planner=has_planner)
        for difference in find_differences(workspace.effects.folder, state)
    ]
