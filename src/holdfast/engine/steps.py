"""The steps of a task: what each action does. Each may be cut off anywhere, and is chosen again if it was."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from holdfast.core.addressing import for_any_worker, messages_for
from holdfast.core.conversation import OVER, Phase
from holdfast.core.deciding import Action, Do, How, was_cut_off
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted, AgentSpawned
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.task import TaskCompleted, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import (
    WORKTREE_LOST,
    CaseSubmitted,
    IterationEnded,
    MemoryLoaded,
    MergeConflicted,
    TaskReopened,
    ValidationFinished,
    ValidatorFinished,
    VerdictGiven,
)
from holdfast.core.needs import words_of
from holdfast.core.signals import Category
from holdfast.core.state import BranchStatus, RunState, Stage, Task
from holdfast.engine.briefing import Briefing
from holdfast.engine.conversations import Conversations, Turn
from holdfast.engine.hooking import Hooks
from holdfast.engine.phases import PhaseSteps
from holdfast.engine.projecting import write_ledger
from holdfast.engine.restoring import made_again
from holdfast.engine.terms import EVALUATOR, WORKER, Terms
from holdfast.engine.validating import Outcome, run_validators, validators_for
from holdfast.engine.workspace import Workspace
from holdfast.git.commit import Unresolved
from holdfast.git.process import GitFailed
from holdfast.git.snapshot import changed_files
from holdfast.git.worktree import Worktree
from holdfast.leaf.directories import is_there
from holdfast.leaf.errors import Denied

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
        """What a sitting was cut off over: evaluators whose verdict is in, or in whose place another was asked."""
        for name, talk in list(self._state.conversations.items()):
            task = self._state.tasks.get(talk.task or "")
            if talk.role == EVALUATOR and task is not None and task.evaluator != name and talk.state not in OVER:
                over = Phase.CANCELLED if talk.state == Phase.CREATED else Phase.COMPLETED  # one was never spoken to
                await self._conversations.close(name, over, "it gave its verdict, or another is to give it")

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
        if await self._workspace.ends_in_placeholder(name):
            await self._workspace.unwind_failed(name)
        task = self._task(name)
        begun = [WaveStarted(wave=action.wave)] if action.wave is not None else []
        agent = self._terms.agent_for(WORKER, task.wants)
        started = TaskStarted(task_id=name, summary=task.summary, agent=agent)
        await self._tell(*begun, started, at_work(name, self._workspace.place(name).branch))

    async def _work(self, name: str, action: Action) -> None:
        tree = await self._tree(name)
        task = self._task(name)
        agent = self._terms.agent_for(WORKER, task.wants)
        worker = await self._conversations.seat(task.worker, agent, role=WORKER, task=name)
        turn = await self._went_on(worker, tree) if action.how is How.GO_ON else None
        if turn is None:
            turn = await self._tell_worker(name, worker, action.how, tree)
        await self._ears.receive()  # what it reported in its turn, before anybody asks what came of that
        await self._workspace.snapshot(name, f"turn-{self._conversations.state(worker).turns}")
        if turn is not None and self._task(name).stage is Stage.WORK:
            turn.must_be_answered()

    async def _tell_worker(self, name: str, worker: str, how: How | None, tree: Worktree) -> Turn | None:
        """One prompt, with the words of people that nobody else is about to say."""
        anyone = for_any_worker(self._state, self._terms.workflow)
        waiting = messages_for(self._state.messages, name, anyone)
        messages = [key for key in waiting if key not in self._on_their_way]
        if how is How.MESSAGE and not messages:
            return None
        self._on_their_way.update(messages)
        try:
            words, loaded = await self._words_for(name, worker, how, messages)
            await self._tell(loaded)
            return await self._conversations.say(worker, words, tree.path, messages=messages)
        finally:
            self._on_their_way.difference_update(messages)

    async def _words_for(
        self, name: str, worker: str, how: How | None, messages: Sequence[str]
    ) -> tuple[str, MemoryLoaded]:
        """The prompt. Nothing that was told in a turn that was cut off is left out of it: the agent may not know it."""
        new = [words_of(self._state.messages[key].body) for key in messages]
        task, talk = self._task(name), self._conversations.state(worker)
        if how is How.MESSAGE and was_cut_off(talk):
            words, loaded = await self._briefing.for_worker(name, how, new)
            return await self._conversations.after_cut_off(worker, words), loaded
        if task.reason != WORKTREE_LOST or talk.turns == 0:  # of that, only the words for it tell
            how = self._conversations.fitting(worker, how)
        if how in (None, How.BEGIN, How.GO_ON):
            how = How.RESOLVE if task.conflicts else How.BEGIN
        return await self._briefing.for_worker(name, how, [*self._conversations.unheard(worker), *new])

    async def _went_on(self, name: str, tree: Worktree) -> Turn | None:
        return await self._conversations.go_on(name, tree.path, self._terms.settings.after_interruption)

    async def _take_as_done(self, name: str, _: Action) -> None:
        await self._tell(CaseSubmitted(task_id=name, iteration=self._task(name).iteration))

    async def _end_iteration(self, name: str, action: Action) -> None:
        reason = action.reason or "nothing came of it"
        await self._tell(IterationEnded(task_id=name, iteration=self._task(name).iteration, reason=reason))

    # From the case to the verdict

    async def _validate(self, name: str, _: Action) -> None:
        tree, workspace = await self._tree(name), self._workspace
        wanted = self._terms.workflow.validate
        commands = validators_for(tree.path, self._terms.settings.validators) if wanted else ()

        async def done(outcome: Outcome) -> None:
            await self._tell(_finished(name, outcome))

        outcomes = await run_validators(commands, tree.path, workspace.run_id, done, workspace.repository.tether)
        failed = [outcome.name for outcome in outcomes if not outcome.passed]
        await self._tell(ValidationFinished(task_id=name, passed=not failed, failed=failed))

    async def _evaluate(self, name: str, action: Action) -> None:
        tree = await self._tree(name)
        agent = self._terms.agent_for(EVALUATOR)
        evaluator = await self._conversations.seat(self._task(name).evaluator, agent, role=EVALUATOR, task=name)
        turn = await self._went_on(evaluator, tree) if action.how is How.GO_ON else None
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

    async def _merge(self, name: str, _: Action) -> None:
        (merged,) = await self._workspace.merge([name])
        if merged.commit is None and merged.conflicts:
            await self._tell(MergeConflicted(task_id=name, files=list(merged.conflicts)))
        elif merged.commit is None:  # somebody resolved them all: that is to be committed
            await self._commit(name, Action(Do.COMMIT, name))

    async def _complete(self, name: str, _: Action) -> None:
        """The task is done first; what it worked in is taken away afterwards, here or when the run is resumed."""
        task = self._task(name)
        files = await self._changed(name, task)
        outcome = self._briefing.outcome(name)
        done = TaskCompleted(task_id=name, files_changed=files, key=task.key, outcome=outcome)
        await self._tell(done, AgentCompleted(name=_worker(name), result="completed"))
        self._ears.wake()
        await self._hooks.run("task_done", task=name, outcome=outcome)
        await self._conversations.rest(task.worker, "its task is done")
        await self._take_away(name)

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
        await self._workspace.give_up(name, reason)
        await self._tell(AgentCompleted(name=_worker(name), result="failed"))
        await self._conversations.rest(self._task(name).worker, "its task failed")
        await self._hooks.run("task_failed", task=name, reason=reason)

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


def at_work(task: str, branch: str) -> AgentSpawned:
    """The roster: who is at which task, on which branch."""
    return AgentSpawned(name=_worker(task), role=WORKER, task=task, branch=branch)


def _worker(task: str) -> str:
    return f"{WORKER} of {task}"


def _finished(name: str, outcome: Outcome) -> ValidatorFinished:
    return ValidatorFinished(
        task_id=name,
        name=outcome.name,
        passed=outcome.passed,
        seconds=round(outcome.seconds, 3),
        exit_code=outcome.exit_code,
        output=outcome.output,
        problem=outcome.problem,
        flaky=outcome.flaky,
    )
