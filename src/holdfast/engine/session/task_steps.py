"""The steps of a task: what each action does. A step that is interrupted is chosen again."""

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from holdfast.core.conversation.interruption import NO_UPDATES, PendingUpdates
from holdfast.core.conversation.states import ENDED_STATES, ConversationState
from holdfast.core.decide.actions import Action, ActionKind, PromptKind
from holdfast.core.decide.attribution import EVALUATOR, WORKER, agent_name
from holdfast.core.decide.superseded import superseded_conversations
from holdfast.core.decide.tasks import was_interrupted
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted
from holdfast.core.events.base import JSON_NULL
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.task import TaskCompleted, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import (
    CHANGED_BY_MERGE,
    CHANGED_BY_OTHERS,
    WORKTREE_LOST,
    CaseSubmitted,
    CommitChanged,
    CommitRefused,
    IterationEnded,
    LearningsProposed,
    MergeConflicted,
    TaskReopened,
    VerdictGiven,
)
from holdfast.core.messages.addressing import messages_for, shared_addresses
from holdfast.core.messages.schema import message_text
from holdfast.core.messages.signals import Category
from holdfast.core.state import BranchStatus, RunState
from holdfast.core.task_state import Task, TaskStage
from holdfast.core.text.cut import cut
from holdfast.core.work.names import turn_snapshot
from holdfast.engine.agents.conversations import Conversations, TurnResult
from holdfast.engine.checks.preparation import Preparation
from holdfast.engine.checks.task_checks import TaskChecks
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.hooks.hooks import HookRunner
from holdfast.engine.prompts.task import TaskPromptBuilder
from holdfast.engine.session.chat_steps import ChatSteps
from holdfast.engine.session.interview_steps import InterviewSteps
from holdfast.engine.session.projections import write_ledger
from holdfast.engine.workspace.restore import restore_worktree
from holdfast.engine.workspace.task_tree import fail_task
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.commit import HookRefused, UnresolvedConflicts
from holdfast.git.process import GitFailed
from holdfast.git.snapshot import changed_files
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.files.directories import path_exists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.session.phase_steps import PhaseSteps

TaskStep = Callable[[str, Action], Awaitable[None]]

_NO_WORKTREE_NEEDED = (ActionKind.COMPLETE, ActionKind.REOPEN, ActionKind.END_CONVERSATIONS)
_MAX_DECLINED_CHARS = 600  # of the reason that an agent gives


async def cannot_prepare(_: Workspace) -> str:
    raise BadInput("this session prepares no run")


class StepCallbacks(NamedTuple):
    """`receive` reads agents' reports; `wake` is called when something can start before a step is over.

    `prepare` creates the run of an interview's accepted plan.
    """

    receive: Callable[[], Awaitable[None]]
    wake: Callable[[], None]
    prepare: Callable[[Workspace], Awaitable[str]] = cannot_prepare


class TaskSteps:
    """Runs the actions of tasks. The result of each step is in the log before the next is chosen."""

    def __init__(
        self,
        workspace: Workspace,
        conversations: Conversations,
        config: RunConfig,
        hooks: HookRunner,
        callbacks: StepCallbacks,
    ) -> None:
        self._workspace = workspace
        self._conversations = conversations
        self._config = config
        self._hooks = hooks
        self._callbacks = callbacks
        self._prompts = TaskPromptBuilder(workspace, config)
        self._checks = TaskChecks(workspace, config)
        self._preparation = Preparation(workspace, config)
        self.declined: dict[str, str] = {}  # why agents declined tasks, in their words
        self._in_flight_messages: set[str] = set()  # messages in prompts that are not sent yet
        self._steps: dict[ActionKind, TaskStep] = {
            ActionKind.START: self._start,
            ActionKind.WORK: self._work,
            ActionKind.ACCEPT_WITHOUT_CASE: self._submit_empty_case,
            ActionKind.END_ITERATION: self._end_iteration,
            ActionKind.VALIDATE: self._validate,
            ActionKind.EVALUATE: self._evaluate,
            ActionKind.SYNTHESIZE_VERDICT: self._record_missing_verdict,
            ActionKind.COMMIT: self._commit,
            ActionKind.MERGE: self._merge,
            ActionKind.COMPLETE: self._complete,
            ActionKind.FAIL: self._fail,
            ActionKind.REOPEN: self._reopen,
            **ChatSteps(workspace, conversations, config, self._prepared_worktree, callbacks.receive).steps,
            **InterviewSteps(workspace, callbacks.prepare).steps,
        }

    async def close_superseded(self) -> None:
        """Close the conversations that will not continue.

        Those are of evaluators that gave their verdict, of workers whose task was restarted, and of agents that were
        replaced by another.
        """
        for name in superseded_conversations(self._state):
            conversation = self._conversations.state(name)
            has_judged = (
                conversation.role == EVALUATOR and conversation.state != ConversationState.CREATED
            )  # it was never prompted
            why = (
                "it gave its verdict, or was replaced"
                if conversation.role == EVALUATOR
                else "replaced by another agent"
            )
            await self._conversations.close(
                name, ConversationState.COMPLETED if has_judged else ConversationState.CANCELLED, why
            )

    async def run(self, action: Action) -> None:
        await self._preparation.before(action.kind)
        if action.task is not None:
            if action.kind in _NO_WORKTREE_NEEDED or await self._restore_worktree(
                action.task
            ):  # otherwise the next action is decided again
                await self._steps[action.kind](action.task, action)
        elif action.wave is not None:
            await self._complete_wave(action.wave)
        else:
            await self._phase_steps.run(action)

    @cached_property
    def _phase_steps(self) -> "PhaseSteps":
        from holdfast.engine.session.phase_steps import PhaseSteps  # noqa: PLC0415 - slow to import; tasks do without

        return PhaseSteps(self._workspace, self._conversations, self._config, self._callbacks.receive)

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    def _task(self, task_id: str) -> Task:
        return self._state.tasks[task_id]

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)

    # From the start to the case

    async def _start(self, task_id: str, action: Action) -> None:
        """Start a task. A failed task whose plan changed keeps its work, like a retried one."""
        if await self._workspace.has_placeholder(task_id):
            await self._workspace.unwind_failed(task_id)
        task = self._task(task_id)
        wave_events = [WaveStarted(wave=action.wave)] if action.wave is not None else []
        started = TaskStarted(
            task_id=task_id, summary=task.summary, agent=agent_name(WORKER, task_id), files=task.files
        )
        await self._append(*wave_events, started)

    async def _work(self, task_id: str, action: Action) -> None:
        tree = await self._prepared_worktree(task_id)
        task = self._task(task_id)
        worker = await self._open(task.worker, WORKER, task_id, task.wants)
        turn = await self._prompt_with_messages(task_id, worker, action.prompt_kind, tree)
        await self._callbacks.receive()  # read the report of this turn before the next step is decided
        await self._workspace.relink(task_id)
        if turn is not None:
            number = self._conversations.state(worker).turns
            await self._workspace.snapshot(task_id, turn_snapshot(number, worker, turn.turn_id))
        if turn is not None and self._task(task_id).stage is TaskStage.WORK:
            turn.raise_if_refused()

    async def _open(self, known: str | None, role: str, task_id: str, wanted: str | None = None) -> str:
        choice = self._config.choice
        agents = choice.for_task(role, wanted)
        agent = self._conversations.pauses.pick(choice, agents, known)
        has_fallback = len(agents) > 1
        return await self._conversations.open_or_reuse(known, agent, role=role, task=task_id, continues=has_fallback)

    async def _prompt_with_messages(
        self, task_id: str, worker: str, how: PromptKind | None, worktree: Worktree
    ) -> TurnResult | None:
        """Send one prompt with every message for it, except those that another prompt is about to deliver."""
        anyone = shared_addresses(self._state, self._config.workflow)
        waiting = messages_for(self._state.messages, task_id, anyone)
        messages = [key for key in waiting if key not in self._in_flight_messages]
        if how is PromptKind.MESSAGE and not messages:
            return None
        self._in_flight_messages.update(messages)
        try:
            return await self._prompt_worker(task_id, worker, how, worktree, messages)
        finally:
            self._in_flight_messages.difference_update(messages)

    async def _prompt_worker(
        self, task_id: str, worker: str, how: PromptKind | None, worktree: Worktree, messages: Sequence[str]
    ) -> TurnResult:
        new = {key: message_text(self._state.messages[key].body) for key in messages}
        notices = self._prompts.notices(task_id)
        if how is PromptKind.CONTINUE or (
            how is PromptKind.MESSAGE and was_interrupted(self._conversations.state(worker))
        ):
            turn = await self._continue_turn(worker, worktree, PendingUpdates(new, notices))
            if turn is not None:
                return turn
        message_texts = [*self._conversations.unheard_messages(worker), *new.values()]
        text, loaded = await self._prompts.for_worker(task_id, self._prompt_kind(task_id, worker, how), message_texts)
        await self._append(loaded)
        return await self._conversations.send_prompt(
            worker, text, worktree.path, messages=messages, notices=list(notices)
        )

    def _prompt_kind(self, task_id: str, worker: str, how: PromptKind | None) -> PromptKind:
        """Return the chosen kind of prompt, but the complete one for an agent that may not know its task yet."""
        task, conversation = self._task(task_id), self._conversations.state(worker)
        if task.reason != WORKTREE_LOST or conversation.turns == 0:  # only that prompt explains it
            how = self._conversations.prompt_kind(worker, how)
        if how in (None, PromptKind.BEGIN, PromptKind.CONTINUE):
            return PromptKind.RESOLVE_CONFLICTS if task.conflicts else PromptKind.BEGIN
        return how

    async def _continue_turn(
        self, conversation_id: str, worktree: Worktree, since: PendingUpdates = NO_UPDATES
    ) -> TurnResult | None:
        policy = self._config.settings.after_interruption
        return await self._conversations.continue_turn(conversation_id, worktree.path, policy, since)

    async def _submit_empty_case(self, task_id: str, _: Action) -> None:
        await self._append(CaseSubmitted(task_id=task_id, iteration=self._task(task_id).iteration))

    async def _end_iteration(self, task_id: str, action: Action) -> None:
        reason = action.reason or "it ended without a result"
        await self._append(IterationEnded(task_id=task_id, iteration=self._task(task_id).iteration, reason=reason))

    # From the case to the verdict

    async def _validate(self, task_id: str, _: Action) -> None:
        await self._prepared_worktree(task_id)
        await self._checks.run(task_id)

    async def _evaluate(self, task_id: str, action: Action) -> None:
        tree = await self._prepared_worktree(task_id)
        evaluator = await self._open(self._task(task_id).evaluator, EVALUATOR, task_id)
        turn = await self._continue_turn(evaluator, tree) if action.prompt_kind is PromptKind.CONTINUE else None
        if turn is None:
            how = self._conversations.prompt_kind(evaluator, action.prompt_kind)
            text, loaded = await self._prompts.for_evaluator(task_id, how, tree)
            await self._append(loaded)
            turn = await self._conversations.send_prompt(evaluator, text, tree.path)
        await self._callbacks.receive()
        if self._task(task_id).evaluator != evaluator:  # its verdict has arrived
            await self._close_evaluation(task_id, evaluator)
        else:
            turn.raise_if_refused()

    async def _record_missing_verdict(self, task_id: str, _: Action) -> None:
        """Record a rejection in place of a verdict that was not given."""
        task, evaluator = self._task(task_id), self._task(task_id).evaluator
        await self._append(
            VerdictGiven(
                task_id=task_id,
                iteration=task.iteration,
                accept=False,
                category=Category.ACCEPTANCE_GAP,
                concern="The evaluator gave no verdict that could be read.",
                evidence="It was asked several times, and its turns ended without submit_verdict.",
                next_step="Check every acceptance criterion again, and submit your case again.",
                synthetic=True,
            )
        )
        if evaluator is not None:
            await self._close_evaluation(task_id, evaluator)

    async def _close_evaluation(self, task_id: str, evaluator: str) -> None:
        write_ledger(self._workspace.effects.folder, task_id, self._task(task_id).verdicts)
        await self._conversations.close(evaluator, ConversationState.COMPLETED, "it gave its verdict")

    # From the verdict to the end

    async def _commit(self, task_id: str, _: Action) -> None:
        try:
            await self._workspace.commit(task_id, self._prompts.commit_message(task_id))
        except UnresolvedConflicts as error:
            await self._append(MergeConflicted(task_id=task_id, files=list(error.paths)))
        except HookRefused as error:
            task = self._task(task_id)
            if task.tree is None or task.hook_refused == task.tree:
                raise  # the worker was sent a message and changed nothing: a person must look
            await self._append(CommitRefused(task_id=task_id, tree=task.tree, output=error.output))

    async def _merge(self, task_id: str, _: Action) -> None:
        (merged,) = await self._workspace.merge([task_id])
        if merged.unchecked is not None:
            await self._request_recheck(
                task_id, merged.unchecked, CHANGED_BY_MERGE if merged.merged else CHANGED_BY_OTHERS
            )
        elif merged.commit is None and merged.conflicts:
            await self._append(MergeConflicted(task_id=task_id, files=list(merged.conflicts)))
        elif merged.commit is None:  # all conflicts were resolved: the result must be checked
            task = self._task(task_id)
            case = msgspec.Raw(task.case.encode()) if task.case is not None else JSON_NULL
            await self._append(CaseSubmitted(task_id=task_id, iteration=task.iteration, case=case))

    async def _request_recheck(self, task_id: str, commit: str, reason: str) -> None:
        """The branch is at a commit with another tree than the checked one: check that before it is merged."""
        repository = self._workspace.repository
        tree, checked = await repository.tree_of(commit), self._task(task_id).tree
        files = await changed_files(repository, checked, tree) if checked is not None else []
        await self._append(CommitChanged(task_id=task_id, commit=commit, tree=tree, reason=reason, files=files))

    async def _complete(self, task_id: str, _: Action) -> None:
        """Complete the task first. Its worktree is deleted afterwards, here or at the next resume."""
        task = self._task(task_id)
        files = await self._changed_files(task_id, task)
        outcome = self._prompts.outcome(task_id)
        done = TaskCompleted(task_id=task_id, files_changed=files, key=task.key, outcome=outcome)
        completed = AgentCompleted(name=agent_name(WORKER, task_id), result=ConversationState.COMPLETED)
        await self._append(*self._explain_no_learnings(task_id), done, completed)
        self._callbacks.wake()
        await self._hooks.run("task_done", task=task_id, conversation=task.worker, outcome=outcome)
        await self._conversations.stop_agent(task.worker, "its task is done")
        await self._delete_worktree(task_id)

    def _explain_no_learnings(self, task_id: str, failure: str | None = None) -> list[Event]:
        """Record why a task has no learnings; does nothing if it has some."""
        if self._task(task_id).learned:
            return []
        without_case = f"the workflow {self._config.workflow.name} asks its worker for no case"
        why = failure or ("the worker's case names none" if self._config.workflow.case else without_case)
        return [LearningsProposed(task_id=task_id, reason=why)]

    async def _changed_files(self, task_id: str, task: Task) -> list[str]:
        base = self._state.branches[self._workspace.place(task_id).branch].base
        if task.commit is None or base is None:
            return []
        return await changed_files(self._workspace.repository, base, task.commit)

    async def _delete_worktree(self, task_id: str) -> None:
        """Delete the worktree. Retried once if git fails: the task is done, so `decide` would not choose this again."""
        try:
            try:
                await self._workspace.delete_worktree_and_branch(task_id)
            except GitFailed:
                await self._workspace.delete_worktree_and_branch(task_id)
        except Denied as error:
            await self._append(WarningLogged(message=f"the worktree of {task_id} was not deleted: {error}"))

    async def _fail(self, task_id: str, action: Action) -> None:
        await self._ensure_worktree(task_id)
        reason = action.reason or EndReason.FAILED
        worker = self._task(task_id).worker
        if reason == EndReason.DECLINED and worker is not None:
            words = " ".join((await self._conversations.last_reply(worker)).split())
            self.declined[task_id] = cut(words, _MAX_DECLINED_CHARS) or "it gave no reason"
        await fail_task(self._workspace, task_id, reason)
        completed = AgentCompleted(name=agent_name(WORKER, task_id), result=ConversationState.FAILED)
        await self._append(*self._explain_no_learnings(task_id, f"the task failed ({reason})"), completed)
        await self._conversations.stop_agent(self._task(task_id).worker, "its task failed")
        await self._hooks.run("task_failed", task=task_id, conversation=self._task(task_id).worker, reason=reason)

    async def _reopen(self, task_id: str, action: Action) -> None:
        await self._append(TaskReopened(task_id=task_id, reason=action.reason))

    async def _complete_wave(self, number: int) -> None:
        """Record a checkpoint: the whole wave is merged."""
        plan = self._state.plan
        last = plan is None or number >= max(plan.waves)
        checkpoint = Checkpoint(
            label=f"wave-{number}-complete",
            branch=self._workspace.place().branch,
            commit=await self._workspace.tip(),
            plan_step="complete" if last else f"wave-{number + 1}-start",
        )
        await self._append(WaveCompleted(wave=number), checkpoint)

    # What they need

    async def _prepared_worktree(self, task_id: str) -> Worktree:
        """Return the task's worktree, set up for agents and checks."""
        tree = await self._ensure_worktree(task_id)
        await self._preparation.of_task(task_id)
        return tree

    async def _ensure_worktree(self, task_id: str) -> Worktree:
        """Return the task's worktree, created if missing."""
        tree = self._workspace.worktree(task_id)
        known = self._state.branches.get(tree.branch)
        if known is None or known.status is not BranchStatus.IN_PROGRESS or not os.path.isdir(tree.path):
            return await self._workspace.open_worktree(task_id)
        tree.must_be_ours()
        return tree

    async def _restore_worktree(self, task_id: str) -> bool:
        """Restore a deleted worktree. Returns False if not all of its work could be restored."""
        tree = self._workspace.worktree(task_id)
        known = self._state.branches.get(tree.branch)
        is_started = known is not None and known.status is BranchStatus.IN_PROGRESS and known.base is not None
        if is_started:
            await self._workspace.relink(task_id)
        if not is_started or path_exists(tree.path):
            return True
        for key, conversation in list(self._state.conversations.items()):
            if conversation.task == task_id:  # a process in a deleted folder does not see a new one with its name
                await self._conversations.stop_agent(key, "its worktree was deleted")
        evaluator = self._task(task_id).evaluator
        as_it_was = await restore_worktree(self._workspace, task_id)
        if evaluator is not None and self._task(task_id).evaluator is None and not self._is_over(evaluator):
            await self._conversations.close(
                evaluator, ConversationState.CANCELLED, "the work it evaluated no longer exists"
            )
        return as_it_was

    def _is_over(self, conversation_id: str) -> bool:
        return self._conversations.state(conversation_id).state in ENDED_STATES
