"""The steps of a task: what each action does. Each may be cut off anywhere, and is chosen again if it was."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.conversation.interruption import NOTHING_SINCE, Since
from holdfast.core.conversation.states import OVER, Phase
from holdfast.core.decide.actions import Action, Do, How
from holdfast.core.decide.attribution import EVALUATOR, WORKER, agent_name
from holdfast.core.decide.superseded import superseded
from holdfast.core.decide.tasks import was_cut_off
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted
from holdfast.core.events.base import NOTHING
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.task import TaskCompleted, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import (
    MERGE,
    MOVED,
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
from holdfast.core.messages.addressing import for_any_worker, messages_for
from holdfast.core.messages.signals import Category
from holdfast.core.state import BranchStatus, RunState, Stage, Task
from holdfast.core.summary.needs import words_of
from holdfast.engine.agents.conversations import Conversations, Turn
from holdfast.engine.checks.task_checks import Checks
from holdfast.engine.config.run_config import Terms
from holdfast.engine.hooks.hooks import Hooks
from holdfast.engine.prompts.task import Briefing
from holdfast.engine.session.phase_steps import PhaseSteps
from holdfast.engine.session.projections import write_ledger
from holdfast.engine.workspace.restore import made_again
from holdfast.engine.workspace.task_tree import give_up
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.commit import HookRefused, Unresolved, tree_of
from holdfast.git.process import GitFailed
from holdfast.git.snapshot import changed_files
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.directories import is_there

Step = Callable[[str, Action], Awaitable[None]]

_WITHOUT_TREE = (Do.COMPLETE, Do.REOPEN)


class Ears(NamedTuple):
    """`receive` takes in what agents reported; `wake` tells that something can be begun before a step is over."""

    receive: Callable[[], Awaitable[None]]
    wake: Callable[[], None]


class Steps:
    """What the runner does with a task. The log is told what came of each step before the next is chosen."""

    def __init__(
        self, workspace: Workspace, conversations: Conversations, terms: Terms, hooks: Hooks, ears: Ears
    ) -> None:
        self._workspace = workspace
        self._conversations = conversations
        self._terms = terms
        self._hooks = hooks
        self._ears = ears
        self._briefing = Briefing(workspace, terms)
        self._checks = Checks(workspace, terms)
        self._phases = PhaseSteps(workspace, conversations, terms, ears.receive)
        self._on_their_way: set[str] = set()  # messages that are in a prompt which is not sent yet
        self._steps: dict[Do, Step] = {
            Do.START: self._start,
            Do.WORK: self._work,
            Do.TAKE_AS_DONE: self._take_as_done,
            Do.END_ITERATION: self._end_iteration,
            Do.VALIDATE: self._validate,
            Do.EVALUATE: self._evaluate,
            Do.JUDGE: self._judge,
            Do.COMMIT: self._commit,
            Do.MERGE: self._merge,
            Do.COMPLETE: self._complete,
            Do.FAIL: self._fail,
            Do.REOPEN: self._reopen,
        }

    async def tidy_up(self) -> None:
        """Close the conversations that nobody continues.

        Those of evaluators whose verdict is in; of workers whose task was restarted; and of agents that another took
        over from.
        """
        for name in superseded(self._state):
            talk = self._conversations.state(name)
            judged = talk.role == EVALUATOR and talk.state != Phase.CREATED  # one was never spoken to
            why = "it gave its verdict, or another is to give it" if talk.role == EVALUATOR else "another took over"
            await self._conversations.close(name, Phase.COMPLETED if judged else Phase.CANCELLED, why)

    async def take(self, action: Action) -> None:
        if action.task is not None:
            if action.do in _WITHOUT_TREE or await self._has_its_tree(action.task):  # else what to do is asked again
                await self._steps[action.do](action.task, action)
        elif action.wave is not None:
            await self._close_wave(action.wave)
        else:
            await self._phases.take(action)

    @property
    def _state(self) -> RunState:
        return self._workspace.hands.run.state

    def _task(self, name: str) -> Task:
        return self._state.tasks[name]

    async def _tell(self, *events: Event) -> None:
        await self._workspace.hands.run.append(*events)

    # From the start to the case

    async def _start(self, name: str, action: Action) -> None:
        """One that failed and was then planned otherwise goes on with what it had, as one that is tried again does."""
        if await self._workspace.has_placeholder(name):
            await self._workspace.unwind_failed(name)
        task = self._task(name)
        begun = [WaveStarted(wave=action.wave)] if action.wave is not None else []
        started = TaskStarted(task_id=name, summary=task.summary, agent=agent_name(WORKER, name), files=task.files)
        await self._tell(*begun, started)

    async def _work(self, name: str, action: Action) -> None:
        tree = await self._tree(name)
        task = self._task(name)
        agent = self._terms.agent_for(WORKER, task.wants)
        worker = await self._conversations.seat(task.worker, agent, role=WORKER, task=name)
        turn = await self._tell_worker(name, worker, action.how, tree)
        await self._ears.receive()  # what it reported in its turn, before anybody asks what came of that
        await self._workspace.relink(name)
        await self._workspace.snapshot(name, f"turn-{self._conversations.state(worker).turns}")
        if turn is not None and self._task(name).stage is Stage.WORK:
            turn.must_be_answered()

    async def _tell_worker(self, name: str, worker: str, how: How | None, tree: Worktree) -> Turn | None:
        """One prompt, with every message that arrived for it and that no other prompt is about to deliver."""
        anyone = for_any_worker(self._state, self._terms.workflow)
        waiting = messages_for(self._state.messages, name, anyone)
        messages = [key for key in waiting if key not in self._on_their_way]
        if how is How.MESSAGE and not messages:
            return None
        self._on_their_way.update(messages)
        try:
            return await self._prompt_worker(name, worker, how, tree, messages)
        finally:
            self._on_their_way.difference_update(messages)

    async def _prompt_worker(
        self, name: str, worker: str, how: How | None, tree: Worktree, messages: Sequence[str]
    ) -> Turn:
        new = {key: words_of(self._state.messages[key].body) for key in messages}
        notices = self._briefing.notices(name)
        if how is How.GO_ON or (how is How.MESSAGE and was_cut_off(self._conversations.state(worker))):
            turn = await self._continued(worker, tree, Since(new, notices))
            if turn is not None:
                return turn
        said = [*self._conversations.unheard(worker), *new.values()]
        words, loaded = await self._briefing.for_worker(name, self._fitting(name, worker, how), said)
        await self._tell(loaded)
        return await self._conversations.say(worker, words, tree.path, messages=messages, notices=list(notices))

    def _fitting(self, name: str, worker: str, how: How | None) -> How:
        """What was chosen to be told; all of it to an agent that may know nothing of its task yet."""
        task, talk = self._task(name), self._conversations.state(worker)
        if task.reason != WORKTREE_LOST or talk.turns == 0:  # of that, only the words for it tell
            how = self._conversations.fitting(worker, how)
        if how in (None, How.BEGIN, How.GO_ON):
            return How.RESOLVE if task.conflicts else How.BEGIN
        return how

    async def _continued(self, conversation: str, tree: Worktree, since: Since = NOTHING_SINCE) -> Turn | None:
        policy = self._terms.settings.after_interruption
        return await self._conversations.continue_turn(conversation, tree.path, policy, since)

    async def _take_as_done(self, name: str, _: Action) -> None:
        await self._tell(CaseSubmitted(task_id=name, iteration=self._task(name).iteration))

    async def _end_iteration(self, name: str, action: Action) -> None:
        reason = action.reason or "nothing came of it"
        await self._tell(IterationEnded(task_id=name, iteration=self._task(name).iteration, reason=reason))

    # From the case to the verdict

    async def _validate(self, name: str, _: Action) -> None:
        await self._tree(name)
        await self._checks.run(name)

    async def _evaluate(self, name: str, action: Action) -> None:
        tree = await self._tree(name)
        agent = self._terms.agent_for(EVALUATOR)
        evaluator = await self._conversations.seat(self._task(name).evaluator, agent, role=EVALUATOR, task=name)
        turn = await self._continued(evaluator, tree) if action.how is How.GO_ON else None
        if turn is None:
            how = self._conversations.fitting(evaluator, action.how)
            words, loaded = await self._briefing.for_evaluator(name, how, tree)
            await self._tell(loaded)
            turn = await self._conversations.say(evaluator, words, tree.path)
        await self._ears.receive()
        if self._task(name).evaluator != evaluator:  # its verdict is in
            await self._judged(name, evaluator)
        else:
            turn.must_be_answered()

    async def _judge(self, name: str, _: Action) -> None:
        """A verdict in the place of one that did not come: the case was not accepted."""
        task, evaluator = self._task(name), self._task(name).evaluator
        await self._tell(
            VerdictGiven(
                task_id=name,
                iteration=task.iteration,
                accept=False,
                category=Category.ACCEPTANCE_GAP,
                concern="The evaluator gave no verdict that could be read.",
                evidence="It was asked several times, and its turns ended without submit_verdict.",
                next_step="Look at every acceptance criterion again, and submit your case anew.",
                synthetic=True,
            )
        )
        if evaluator is not None:
            await self._judged(name, evaluator)

    async def _judged(self, name: str, evaluator: str) -> None:
        write_ledger(self._workspace.hands.folder, name, self._task(name).verdicts)
        await self._conversations.close(evaluator, Phase.COMPLETED, "it gave its verdict")

    # From the verdict to the end

    async def _commit(self, name: str, _: Action) -> None:
        try:
            await self._workspace.commit(name, self._briefing.commit_message(name))
        except Unresolved as error:
            await self._tell(MergeConflicted(task_id=name, files=list(error.paths)))
        except HookRefused as error:
            task = self._task(name)
            if task.tree is None or task.hook_refused == task.tree:
                raise  # the worker was told, and changed nothing: a person has to look
            await self._tell(CommitRefused(task_id=name, tree=task.tree, output=error.said))

    async def _merge(self, name: str, _: Action) -> None:
        (merged,) = await self._workspace.merge([name])
        if merged.unchecked is not None:
            await self._check_again(name, merged.unchecked, MERGE if merged.merged else MOVED)
        elif merged.commit is None and merged.conflicts:
            await self._tell(MergeConflicted(task_id=name, files=list(merged.conflicts)))
        elif merged.commit is None:  # somebody resolved them all: that is to be checked
            task = self._task(name)
            case = msgspec.Raw(task.case.encode()) if task.case is not None else NOTHING
            await self._tell(CaseSubmitted(task_id=name, iteration=task.iteration, case=case))

    async def _check_again(self, name: str, commit: str, reason: str) -> None:
        """The branch is at a commit of another tree than was checked: it is not merged before that was."""
        git = self._workspace.repository.git
        tree, checked = await tree_of(git, commit), self._task(name).tree
        files = await changed_files(self._workspace.repository, checked, tree) if checked is not None else []
        await self._tell(CommitChanged(task_id=name, commit=commit, tree=tree, reason=reason, files=files))

    async def _complete(self, name: str, _: Action) -> None:
        """The task is done first; what it worked in is taken away afterwards, here or when the run is resumed."""
        task = self._task(name)
        files = await self._changed(name, task)
        outcome = self._briefing.outcome(name)
        done = TaskCompleted(task_id=name, files_changed=files, key=task.key, outcome=outcome)
        over = AgentCompleted(name=agent_name(WORKER, name), result="completed")
        await self._tell(*self._nothing_learned(name), done, over)
        self._ears.wake()
        await self._hooks.run("task_done", task=name, conversation=task.worker, outcome=outcome)
        await self._conversations.rest(task.worker, "its task is done")
        await self._take_away(name)

    def _nothing_learned(self, name: str, failed: str | None = None) -> list[Event]:
        """Why there are no learnings of a task; nothing when there are some."""
        if self._task(name).learned:
            return []
        without_case = f"the workflow {self._terms.workflow.name} asks its worker for no case"
        why = failed or ("the worker's case names none" if self._terms.workflow.case else without_case)
        return [LearningsProposed(task_id=name, reason=why)]

    async def _changed(self, name: str, task: Task) -> list[str]:
        base = self._state.branches[self._workspace.place(name).branch].base
        if task.commit is None or base is None:
            return []
        return await changed_files(self._workspace.repository, base, task.commit)

    async def _take_away(self, name: str) -> None:
        """Tried once more when git fails at it: its task is done, so nobody would choose to do it again."""
        try:
            try:
                await self._workspace.take_away(name)
            except GitFailed:
                await self._workspace.take_away(name)
        except Denied as error:
            await self._tell(WarningLogged(message=f"the worktree of {name} was left where it is: {error}"))

    async def _fail(self, name: str, action: Action) -> None:
        await self._tree(name)
        reason = action.reason or "failed"
        await give_up(self._workspace, name, reason)
        over = AgentCompleted(name=agent_name(WORKER, name), result="failed")
        await self._tell(*self._nothing_learned(name, f"the task failed ({reason})"), over)
        await self._conversations.rest(self._task(name).worker, "its task failed")
        await self._hooks.run("task_failed", task=name, conversation=self._task(name).worker, reason=reason)

    async def _reopen(self, name: str, action: Action) -> None:
        await self._tell(TaskReopened(task_id=name, reason=action.reason))

    async def _close_wave(self, number: int) -> None:
        """Everything of it is merged: a point to go on from."""
        plan = self._state.plan
        last = plan is None or number >= max(plan.waves)
        checkpoint = Checkpoint(
            label=f"wave-{number}-complete",
            branch=self._workspace.place().branch,
            commit=await self._workspace.tip(),
            plan_step="complete" if last else f"wave-{number + 1}-start",
        )
        await self._tell(WaveCompleted(wave=number), checkpoint)

    # What they need

    async def _tree(self, name: str) -> Worktree:
        """The task's worktree, made when it is not there."""
        tree = self._workspace.worktree(name)
        known = self._state.branches.get(tree.branch)
        if known is None or known.status is not BranchStatus.IN_PROGRESS or not os.path.isdir(tree.path):
            return await self._workspace.open(name)
        tree.must_be_ours()
        return tree

    async def _has_its_tree(self, name: str) -> bool:
        """False when somebody deleted it, and not all that was done there could be brought back."""
        tree = self._workspace.worktree(name)
        known = self._state.branches.get(tree.branch)
        begun = known is not None and known.status is BranchStatus.IN_PROGRESS and known.base is not None
        if begun:
            await self._workspace.relink(name)
        if not begun or is_there(tree.path):
            return True
        for key, talk in list(self._state.conversations.items()):
            if talk.task == name:  # who stands in a folder that is gone cannot be helped by another of its name
                await self._conversations.rest(key, "its worktree was deleted")
        evaluator = self._task(name).evaluator
        as_it_was = await made_again(self._workspace, name)
        if evaluator is not None and self._task(name).evaluator is None and not self._is_over(evaluator):
            await self._conversations.close(evaluator, Phase.CANCELLED, "what it judged is not there any more")
        return as_it_was

    def _is_over(self, conversation: str) -> bool:
        return self._conversations.state(conversation).state in OVER
