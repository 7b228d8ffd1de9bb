"""The steps of phases: what each action does. Each may be cut off anywhere, and is chosen again if it was."""

import os
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.core.conversation.interruption import NOTHING_SINCE, Since
from holdfast.core.conversation.states import OVER, Phase
from holdfast.core.decide.actions import Action, Do, How
from holdfast.core.decide.fix_tasks import with_fix
from holdfast.core.decide.phases import VALIDATORS, wishes_for
from holdfast.core.events import Event
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.phase import (
    DONE,
    SKIPPED,
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    ChangeRequested,
    PhaseCompleted,
    PhaseDelivered,
    PhaseFailed,
    PhaseStarted,
    ResearchAnswered,
    ReviewGiven,
    WorkPublished,
)
from holdfast.core.messages.addressing import messages_for
from holdfast.core.state import PhaseProgress, RunState
from holdfast.core.summary.gates import ARTIFACTS, gate_of
from holdfast.core.summary.needs import words_of
from holdfast.core.work.workflow import Kind, PhaseSpec
from holdfast.engine.agents.conversations import Conversations, Turn
from holdfast.engine.checks.validators import CheckPlace, Outcome, run_validators, validators_for
from holdfast.engine.config.run_config import RESEARCHER, Terms
from holdfast.engine.prompts.phase import PhaseBriefing, found_before
from holdfast.engine.session.artifacts import How as Found
from holdfast.engine.session.artifacts import differences, told, write_artifacts
from holdfast.engine.session.summary import summary_of
from holdfast.engine.workspace.publish import Wish, handed_over
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.worktrees.worktree import Worktree, status_of
from holdfast.leaf.errors import BadInput
from holdfast.workflows.phase_prompts import finding_lines
from holdfast.workflows.validators import Command

_OUTPUT = 4_000  # characters of what a failed check said
_ARTIFACTS = "HOLDFAST_ARTIFACTS"  # by which a check finds what was handed in
_NO_ANSWER = "Nothing was found out: the researcher was asked several times, and gave no answer."

Step = Callable[[Action], Awaitable[None]]


class PhaseSteps:
    """What the runner does beside the tasks. The log is told what came of each step before the next is chosen."""

    def __init__(
        self,
        workspace: Workspace,
        conversations: Conversations,
        terms: Terms,
        receive: Callable[[], Awaitable[None]],
    ) -> None:
        """`receive` takes in what agents reported."""
        self._workspace = workspace
        self._conversations = conversations
        self._terms = terms
        self._receive = receive
        self._briefing = PhaseBriefing(workspace, terms)
        self._steps: dict[Do, Step] = {
            Do.ENTER: self._enter,
            Do.LEAVE_OUT: self._leave_out,
            Do.TELL: self._speak,
            Do.REVIEW: self._speak,
            Do.CHECK: self._check,
            Do.SUMMARIZE: self._summarize,
            Do.ASK_APPROVAL: self._ask_approval,
            Do.PUBLISH: self._publish,
            Do.CLOSE: self._close,
            Do.GIVE_UP: self._give_up,
            Do.TAKE_AS_CHANGE: self._take_as_change,
            Do.RESEARCH: self._research,
            Do.END_RESEARCH: self._end_research,
        }

    async def take(self, action: Action) -> None:
        await self._steps[action.do](action)

    @property
    def _state(self) -> RunState:
        return self._workspace.hands.run.state

    async def _tell(self, *events: Event) -> None:
        await self._workspace.hands.run.append(*events)

    def _at(self, action: Action) -> tuple[PhaseSpec, PhaseProgress]:
        spec = self._terms.workflow.phase(action.phase)
        assert spec is not None, "a phase that is acted on is one of the workflow's"
        return spec, self._state.phases.get(spec.name) or PhaseProgress()

    # From phase to phase

    async def _enter(self, action: Action) -> None:
        """In one commit with the plan, where the phase is to work off what was found: else it might be made twice."""
        spec, before = self._at(action)
        await self._hang_up(before, Phase.CANCELLED, f"{spec.name} begins anew")
        await self._leave_tree_clean()
        changes, heard = wishes_for(self._state, self._terms.workflow, spec)
        started = PhaseStarted(
            phase=spec.name, round=before.round + 1, reason=action.reason, changes=changes, heard=heard
        )
        fix = [self._fix(spec)] if spec.findings else []
        await self._tell(started, *(fix or self._changed(spec, changes)))

    def _fix(self, spec: PhaseSpec) -> Event:
        found = found_before(self._state, self._terms.workflow, spec)
        words = "\n\n".join(f"From {role}:\n{finding_lines(review)}" for role, review in found)
        criteria = ["Every blocker and major finding is put right, or the case says why it is none."]
        return with_fix(self._state, "Fix what the review found", words, criteria)

    def _changed(self, spec: PhaseSpec, changes: Sequence[str]) -> list[Event]:
        """Nobody plans: what a person wants to be otherwise in the work is one more task."""
        if spec.kind is not Kind.TASKS or not changes:
            return []
        words = "\n\n".join(self._state.changes[key] for key in changes)
        criteria = ["Everything that was asked for is done, or the case says why it is not."]
        return [with_fix(self._state, "Make the changes that were asked for", words, criteria)]

    async def _leave_out(self, action: Action) -> None:
        spec, before = self._at(action)
        await self._tell(PhaseCompleted(phase=spec.name, round=before.round, outcome=SKIPPED, reason=action.reason))

    async def _close(self, action: Action) -> None:
        spec, progress = self._at(action)
        await self._hang_up(progress, Phase.COMPLETED, f"{spec.name} is over")
        await self._leave_tree_clean()
        outcome = action.reason or DONE
        point = Checkpoint(
            label=f"{spec.name}-{progress.round}-{outcome}",
            branch=self._workspace.place().branch,
            commit=await self._workspace.tip(),
            plan_step=f"after {spec.name}",
        )
        await self._tell(PhaseCompleted(phase=spec.name, round=progress.round, outcome=outcome), point)

    async def _hang_up(self, progress: PhaseProgress, how: Phase, why: str) -> None:
        for talk in progress.talks.values():
            if self._conversations.state(talk).state not in OVER:
                await self._conversations.close(talk, how, why)

    async def _give_up(self, action: Action) -> None:
        spec, progress = self._at(action)
        reason = action.reason or "failed"
        await self._tell(PhaseFailed(phase=spec.name, round=progress.round, reason=reason))

    async def _leave_tree_clean(self) -> None:
        """What somebody changed in the run's own worktree is saved, and taken out of the way of merges."""
        tree = await self._tree()
        if (await status_of(tree)).changes:
            saved = await self._workspace.restore(None, await self._workspace.tip())
            where = f"; it is kept as {saved}" if saved is not None else ""
            await self._tell(WarningLogged(message=f"a phase changed files that are not its own{where}"))

    # Its agents

    async def _speak(self, action: Action) -> None:
        spec, progress = self._at(action)
        role, how = action.role or "agent", action.how or How.BEGIN
        tree = await self._tree()
        agent = self._terms.agent_in(role, spec.agent)
        talk = await self._conversations.seat(progress.talks.get(role), agent, role=role, about=spec.name)
        messages = messages_for(self._state.messages, spec.name) if action.do is Do.TELL else []
        new = {key: words_of(self._state.messages[key].body) for key in messages}
        turn = await self._continued(talk, tree, Since(new)) if how is How.GO_ON else None
        if turn is None:
            how = self._conversations.fitting(talk, how)
            said = [*self._conversations.unheard(talk), *new.values()]
            words, loaded = await self._briefing.for_phase(spec, role, how, said)
            await self._tell(loaded)
            turn = await self._conversations.say(talk, words, tree.path, messages=messages)
        await self._receive()
        await self._write_artifacts()
        _, progress = self._at(action)
        if not progress.delivered and role not in progress.reviews:
            turn.must_be_answered()

    async def _continued(self, conversation: str, tree: Worktree, since: Since = NOTHING_SINCE) -> Turn | None:
        policy = self._terms.settings.after_interruption
        return await self._conversations.continue_turn(conversation, tree.path, policy, since)

    async def _tree(self) -> Worktree:
        """The run's own worktree, made again when it is not there."""
        tree = self._workspace.worktree()
        await self._workspace.relink(None)
        return tree if os.path.isdir(tree.path) else await self._workspace.open()

    async def _check(self, action: Action) -> None:
        """The project's checks on all of it, as a review."""
        spec, progress = self._at(action)
        await self._tree()
        await self._write_artifacts()
        folder = os.path.join(self._workspace.hands.folder, ARTIFACTS)
        place = CheckPlace.of(self._workspace, None, self._terms.runtime_for_run()).reading(folder)
        commands = _asked_for(spec, await validators_for(place, self._terms.settings.validators))
        shown = {_ARTIFACTS: folder}
        given = [command._replace(environment={**command.environment, **shown}) for command in commands]
        outcomes = await run_validators(given, place, _unheard)
        failed = [outcome for outcome in outcomes if not outcome.passed]
        names = ", ".join(outcome.name for outcome in failed)
        await self._tell(
            ReviewGiven(
                phase=spec.name,
                round=progress.round,
                role=VALIDATORS,
                passed=not failed,
                summary=f"these do not pass: {names}" if failed else f"{len(outcomes)} checks passed",
                findings=msgspec.Raw(msgspec.json.encode([_as_finding(outcome) for outcome in failed])),
            )
        )

    async def _write_artifacts(self) -> None:
        """As files, for people to read. Who changed one meanwhile is told where that is, before it is set aside."""
        folder, plans = self._workspace.hands.folder, self._terms.workflow.planner is not None
        edited = [one for one in differences(folder, self._state) if one.how is Found.EDITED]
        if edited:
            words = [told(self._workspace.run_id, one, plans=plans) for one in edited]
            await self._tell(*(WarningLogged(message=text) for text in words))
        write_artifacts(folder, self._state)

    # The end of it

    async def _summarize(self, action: Action) -> None:
        spec, progress = self._at(action)
        text = summary_of(self._state)
        stored = ArtifactStored(phase=spec.name, round=progress.round, name="summary", title="Summary", text=text)
        await self._tell(stored, PhaseDelivered(phase=spec.name, round=progress.round, tool="summary"))
        await self._write_artifacts()

    async def _ask_approval(self, action: Action) -> None:
        spec, progress = self._at(action)
        await self._write_artifacts()
        about = next((one.title for one in progress.documents.values()), spec.about or spec.name)
        gate = gate_of(self._state, spec.name)
        shown = [one.path for one in gate.documents] if gate is not None else []
        request = ApprovalRequested(phase=spec.name, round=progress.round, summary=about, documents=shown)
        given = ApprovalAnswered(phase=spec.name, round=progress.round, approved=True, by="approvals = given")
        asked = [request] if progress.approval is None else []
        await self._tell(*asked, *([given] if self._terms.bounds.approving else []))

    async def _publish(self, action: Action) -> None:
        """Each part of it is an effect that is looked up before it is done; cut off, it is simply done again."""
        spec, progress = self._at(action)
        wanted = self._terms.settings.publish or spec.publish
        came = await handed_over(self._workspace, wanted, self._wish(spec.name))
        await self._tell(WorkPublished(phase=spec.name, round=progress.round, **came._asdict()))

    def _wish(self, phase: str) -> Wish:
        documents = self._state.phases[phase].documents
        body = "\n\n".join(document.text for document in documents.values())
        issue = self._state.settings.get("issue")
        return Wish(body=f"{body}\n\nCloses #{issue}\n" if isinstance(issue, int) else body, draft=True)

    async def _take_as_change(self, action: Action) -> None:
        """Words for a run that is done are wishes for more."""
        key = action.reason or ""
        message = self._state.messages[key]
        change = ChangeRequested(change=key, text=words_of(message.body), by=message.sender)
        await self._tell(change, InboxHandled(message=key))

    # Research

    async def _research(self, action: Action) -> None:
        name, how = action.research or "", action.how or How.BEGIN
        tree = await self._tree()
        agent, known = self._terms.agent_in(RESEARCHER), self._state.research[name].talk
        talk = await self._conversations.seat(known, agent, role=RESEARCHER, about=name)
        turn = await self._continued(talk, tree) if how is How.GO_ON else None
        if turn is None:
            words, loaded = self._briefing.for_researcher(name, self._conversations.fitting(talk, how))
            await self._tell(loaded)
            turn = await self._conversations.say(talk, words, tree.path)
        await self._receive()
        if self._state.research[name].answered:
            await self._conversations.close(talk, Phase.COMPLETED, "it gave its answer")
        else:
            turn.must_be_answered()

    async def _end_research(self, action: Action) -> None:
        await self._tell(ResearchAnswered(research=action.research or "", answer=_NO_ANSWER, found=False))


def _as_finding(outcome: Outcome) -> dict[str, str]:
    said = outcome.output[-_OUTPUT:]
    return {"severity": "blocker", "concern": f"{outcome.name} does not pass: {outcome.problem or ''}\n{said}"}


def _asked_for(spec: PhaseSpec, commands: Sequence[Command]) -> Sequence[Command]:
    if not spec.validators:
        return commands
    known = {command.name: command for command in commands}
    for name in spec.validators:
        if name not in known:
            there = ", ".join(known) or "none"
            raise BadInput(f"{spec.name} asks for the check {name!r}; there is {there}. Set validators.commands.{name}")
    return [known[name] for name in spec.validators]


async def _unheard(_: Outcome) -> None:
    pass
