"""The steps of phases: what each action does. A step that is interrupted is chosen again."""

import os
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from holdfast.core.conversation.interruption import NO_UPDATES, PendingUpdates
from holdfast.core.conversation.states import ENDED_STATES, ConversationState
from holdfast.core.decide.actions import Action, ActionKind, PromptKind
from holdfast.core.decide.baseline import is_excused
from holdfast.core.decide.fix_tasks import plan_with_fix_task
from holdfast.core.decide.phases import VALIDATORS, changes_for
from holdfast.core.end_reason import EndReason
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
from holdfast.core.messages.schema import message_text
from holdfast.core.phase_state import PhaseProgress
from holdfast.core.state import RunState
from holdfast.core.summary.gates import ARTIFACTS, gate_of
from holdfast.core.work.agent_choice import RESEARCHER
from holdfast.core.work.workflow import PhaseKind, PhaseSpec
from holdfast.engine.agents.conversations import Conversations, TurnResult
from holdfast.engine.checks.validators import CheckPlace, ValidatorOutcome, run_validators, validators_for
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.prompts.phase import PhasePromptBuilder, failed_reviews_for
from holdfast.engine.session.artifacts import ArtifactStatus as Found
from holdfast.engine.session.artifacts import describe_difference, find_differences, write_artifacts
from holdfast.engine.session.summary import summary_of
from holdfast.engine.workspace.publish import PullRequestOptions, publish_work
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.worktrees.worktree import Worktree, status_of
from holdfast.leaf.errors import BadInput
from holdfast.workflows.phase_prompts import finding_lines
from holdfast.workflows.validators import CheckCommand

_MAX_OUTPUT_CHARS = 4_000  # of a failed check's output
_ARTIFACTS_VARIABLE = "HOLDFAST_ARTIFACTS"  # tells a check where the submitted documents are
_NO_ANSWER = "No result: the researcher was prompted several times and gave no answer."

PhaseStep = Callable[[Action], Awaitable[None]]


class PhaseSteps:
    """Runs the actions of phases. The result of each step is in the log before the next is chosen."""

    def __init__(
        self,
        workspace: Workspace,
        conversations: Conversations,
        config: RunConfig,
        receive: Callable[[], Awaitable[None]],
    ) -> None:
        """`receive` reads agents' reports."""
        self._workspace = workspace
        self._conversations = conversations
        self._config = config
        self._receive = receive
        self._prompts = PhasePromptBuilder(workspace, config)
        self._steps: dict[ActionKind, PhaseStep] = {
            ActionKind.ENTER: self._enter,
            ActionKind.SKIP: self._skip,
            ActionKind.PROMPT: self._prompt_agent,
            ActionKind.REVIEW: self._prompt_agent,
            ActionKind.CHECK: self._run_checks,
            ActionKind.SUMMARIZE: self._summarize,
            ActionKind.ASK_APPROVAL: self._ask_approval,
            ActionKind.PUBLISH: self._publish,
            ActionKind.CLOSE: self._complete,
            ActionKind.FAIL_PHASE: self._fail,
            ActionKind.RECORD_CHANGE: self._record_as_change,
            ActionKind.RESEARCH: self._research,
            ActionKind.END_RESEARCH: self._end_research,
        }

    async def run(self, action: Action) -> None:
        await self._steps[action.kind](action)

    @property
    def _state(self) -> RunState:
        return self._workspace.effects.run.state

    async def _append(self, *events: Event) -> None:
        await self._workspace.effects.run.append(*events)

    def _spec_and_progress(self, action: Action) -> tuple[PhaseSpec, PhaseProgress]:
        spec = self._config.workflow.phase(action.phase)
        assert spec is not None, "a phase that is acted on is one of the workflow's"
        return spec, self._state.phases.get(spec.name) or PhaseProgress()

    # From phase to phase

    async def _enter(self, action: Action) -> None:
        """Enter a phase. A plan for its findings is part of the same commit: otherwise it might be made twice."""
        spec, before = self._spec_and_progress(action)
        await self._close_conversations(before, ConversationState.CANCELLED, f"{spec.name} begins anew")
        await self._clean_worktree()
        changes, heard = changes_for(self._state, self._config.workflow, spec)
        started = PhaseStarted(
            phase=spec.name, round=before.round + 1, reason=action.reason, changes=changes, heard=heard
        )
        fix = [self._plan_with_fix_task(spec)] if spec.findings else []
        await self._append(started, *(fix or self._plan_with_changes(spec, changes)))

    def _plan_with_fix_task(self, spec: PhaseSpec) -> Event:
        found = failed_reviews_for(self._state, self._config.workflow, spec)
        findings = "\n\n".join(f"From {role}:\n{finding_lines(review)}" for role, review in found)
        criteria = ["Every blocker and major finding is put right, or the case says why it is none."]
        return plan_with_fix_task(self._state, "Fix what the review found", findings, criteria)

    def _plan_with_changes(self, spec: PhaseSpec, changes: Sequence[str]) -> list[Event]:
        """Without a planning phase, a change request becomes one more task."""
        if spec.kind is not PhaseKind.TASKS or not changes:
            return []
        texts = "\n\n".join(self._state.changes[key] for key in changes)
        criteria = ["Everything that was asked for is done, or the case says why it is not."]
        return [plan_with_fix_task(self._state, "Make the changes that were asked for", texts, criteria)]

    async def _skip(self, action: Action) -> None:
        spec, before = self._spec_and_progress(action)
        await self._append(PhaseCompleted(phase=spec.name, round=before.round, outcome=SKIPPED, reason=action.reason))

    async def _complete(self, action: Action) -> None:
        spec, progress = self._spec_and_progress(action)
        await self._close_conversations(progress, ConversationState.COMPLETED, f"{spec.name} is over")
        await self._clean_worktree()
        outcome = action.reason or DONE
        point = Checkpoint(
            label=f"{spec.name}-{progress.round}-{outcome}",
            branch=self._workspace.place().branch,
            commit=await self._workspace.tip(),
            plan_step=f"after {spec.name}",
        )
        await self._append(PhaseCompleted(phase=spec.name, round=progress.round, outcome=outcome), point)

    async def _close_conversations(self, progress: PhaseProgress, state: ConversationState, reason: str) -> None:
        for conversation_id in progress.talks.values():
            if self._conversations.state(conversation_id).state not in ENDED_STATES:
                await self._conversations.close(conversation_id, state, reason)

    async def _fail(self, action: Action) -> None:
        spec, progress = self._spec_and_progress(action)
        reason = action.reason or EndReason.FAILED
        await self._append(PhaseFailed(phase=spec.name, round=progress.round, reason=reason))

    async def _clean_worktree(self) -> None:
        """Save changes in the run's own worktree and remove them, so that they do not block merges."""
        tree = await self._ensure_worktree()
        if (await status_of(tree)).changes:
            saved = await self._workspace.restore(None, await self._workspace.tip())
            where = f"; saved as {saved}" if saved is not None else ""
            await self._append(WarningLogged(message=f"a phase changed files outside its documents{where}"))

    # Its agents

    async def _prompt_agent(self, action: Action) -> None:
        spec, progress = self._spec_and_progress(action)
        role, how = action.role or "agent", action.prompt_kind or PromptKind.BEGIN
        tree = await self._ensure_worktree()
        conversation_id = await self._open(progress.talks.get(role), role, spec.name, spec.agent)
        messages = messages_for(self._state.messages, spec.name) if action.kind is ActionKind.PROMPT else []
        new = {key: message_text(self._state.messages[key].body) for key in messages}
        turn = (
            await self._continue_turn(conversation_id, tree, PendingUpdates(new))
            if how is PromptKind.CONTINUE
            else None
        )
        if turn is None:
            how = self._conversations.prompt_kind(conversation_id, how)
            message_texts = [*self._conversations.unheard_messages(conversation_id), *new.values()]
            text, loaded = await self._prompts.for_phase(spec, role, how, message_texts)
            await self._append(loaded)
            turn = await self._conversations.send_prompt(conversation_id, text, tree.path, messages=messages)
        await self._receive()
        await self._write_artifacts()
        _, progress = self._spec_and_progress(action)
        if not progress.delivered and role not in progress.reviews:
            turn.raise_if_refused()

    async def _open(self, known: str | None, role: str, about: str, workflow_agent: str | None = None) -> str:
        choice = self._config.choice
        agents = choice.for_phase(role, workflow_agent)
        agent = self._conversations.pauses.pick(choice, agents, known)
        has_fallback = len(agents) > 1
        return await self._conversations.open_or_reuse(known, agent, role=role, about=about, continues=has_fallback)

    async def _continue_turn(
        self, conversation_id: str, worktree: Worktree, since: PendingUpdates = NO_UPDATES
    ) -> TurnResult | None:
        policy = self._config.settings.after_interruption
        return await self._conversations.continue_turn(conversation_id, worktree.path, policy, since)

    async def _ensure_worktree(self) -> Worktree:
        """Return the run's own worktree, created again if missing."""
        tree = self._workspace.worktree()
        await self._workspace.relink(None)
        return tree if os.path.isdir(tree.path) else await self._workspace.open_worktree()

    async def _run_checks(self, action: Action) -> None:
        """Run the project's checks on the whole result, as a review."""
        spec, progress = self._spec_and_progress(action)
        await self._ensure_worktree()
        await self._write_artifacts()
        folder = os.path.join(self._workspace.effects.folder, ARTIFACTS)
        place = CheckPlace.of(self._workspace, None, self._config.runtime_for_run()).with_readable(folder)
        commands = _select_validators(spec, await validators_for(place, self._config.settings.validators))
        shown = {_ARTIFACTS_VARIABLE: folder}
        given = [command._replace(environment={**command.environment, **shown}) for command in commands]
        excused = self._excused(spec, commands)
        outcomes = await run_validators(given, place, _ignore_outcome)
        failed = [outcome for outcome in outcomes if not outcome.passed and outcome.name not in excused]
        names = ", ".join(outcome.name for outcome in failed)
        await self._append(
            ReviewGiven(
                phase=spec.name,
                round=progress.round,
                role=VALIDATORS,
                passed=not failed,
                summary=f"these do not pass: {names}" if failed else _passed_summary(outcomes),
                findings=msgspec.Raw(msgspec.json.encode([_as_finding(outcome) for outcome in failed])),
            )
        )

    def _excused(self, spec: PhaseSpec, commands: Sequence[CheckCommand]) -> set[str]:
        """Return the failed checks that also failed on the untouched base, unless the phase names them."""
        if spec.validators:
            return set()
        return {command.name for command in commands if is_excused(self._state, command.name, command.words)}

    async def _write_artifacts(self) -> None:
        """Write documents as files. A person who edited one learns where the edit is kept before it is moved."""
        folder, plans = self._workspace.effects.folder, self._config.workflow.planner is not None
        edited = [
            difference for difference in find_differences(folder, self._state) if difference.status is Found.EDITED
        ]
        if edited:
            descriptions = [
                describe_difference(self._workspace.run_id, difference, has_planner=plans) for difference in edited
            ]
            await self._append(*(WarningLogged(message=text) for text in descriptions))
        write_artifacts(folder, self._state)

    # The end of it

    async def _summarize(self, action: Action) -> None:
        spec, progress = self._spec_and_progress(action)
        text = summary_of(self._state)
        stored = ArtifactStored(phase=spec.name, round=progress.round, name="summary", title="Summary", text=text)
        await self._append(stored, PhaseDelivered(phase=spec.name, round=progress.round, tool="summary"))
        await self._write_artifacts()

    async def _ask_approval(self, action: Action) -> None:
        spec, progress = self._spec_and_progress(action)
        await self._write_artifacts()
        about = next((document.title for document in progress.documents.values()), spec.about or spec.name)
        gate = gate_of(self._state, spec.name)
        shown = [document.path for document in gate.documents] if gate is not None else []
        request = ApprovalRequested(phase=spec.name, round=progress.round, summary=about, documents=shown)
        given = ApprovalAnswered(phase=spec.name, round=progress.round, approved=True, by="approvals = given")
        events = [request] if progress.approval is None else []
        await self._append(*events, *([given] if self._config.bounds.auto_approve else []))

    async def _publish(self, action: Action) -> None:
        """Publish. Each part is an effect with a probe, so repeating it after an interruption is safe."""
        spec, progress = self._spec_and_progress(action)
        mode = self._config.settings.publish or spec.publish
        published = await publish_work(self._workspace, mode, self._pull_request_options(spec.name))
        await self._append(WorkPublished(phase=spec.name, round=progress.round, **published._asdict()))

    def _pull_request_options(self, phase: str) -> PullRequestOptions:
        documents = self._state.phases[phase].documents
        body = "\n\n".join(document.text for document in documents.values())
        issue = self._state.settings.get("issue")
        return PullRequestOptions(body=f"{body}\n\nCloses #{issue}\n" if isinstance(issue, int) else body, draft=True)

    async def _record_as_change(self, action: Action) -> None:
        """A message to a finished run becomes a change request."""
        key = action.reason or ""
        message = self._state.messages[key]
        change = ChangeRequested(change=key, text=message_text(message.body), by=message.sender)
        await self._append(change, InboxHandled(message=key))

    # Research

    async def _research(self, action: Action) -> None:
        name, how = action.research or "", action.prompt_kind or PromptKind.BEGIN
        tree = await self._ensure_worktree()
        conversation_id = await self._open(self._state.research[name].talk, RESEARCHER, name)
        turn = await self._continue_turn(conversation_id, tree) if how is PromptKind.CONTINUE else None
        if turn is None:
            text, loaded = self._prompts.for_researcher(name, self._conversations.prompt_kind(conversation_id, how))
            await self._append(loaded)
            turn = await self._conversations.send_prompt(conversation_id, text, tree.path)
        await self._receive()
        if self._state.research[name].answered:
            await self._conversations.close(conversation_id, ConversationState.COMPLETED, "it has answered")
        else:
            turn.raise_if_refused()

    async def _end_research(self, action: Action) -> None:
        await self._append(ResearchAnswered(research=action.research or "", answer=_NO_ANSWER, found=False))


def _as_finding(outcome: ValidatorOutcome) -> dict[str, str]:
    output = outcome.output[-_MAX_OUTPUT_CHARS:]
    return {"severity": "blocker", "concern": f"{outcome.name} does not pass: {outcome.problem or ''}\n{output}"}


def _passed_summary(outcomes: Sequence[ValidatorOutcome]) -> str:
    excused = [outcome.name for outcome in outcomes if not outcome.passed]
    failed = f"; these failed as they did before the work: {', '.join(excused)}" if excused else ""
    return f"{len(outcomes) - len(excused)} checks passed{failed}"


def _select_validators(spec: PhaseSpec, commands: Sequence[CheckCommand]) -> Sequence[CheckCommand]:
    if not spec.validators:
        return commands
    known = {command.name: command for command in commands}
    for name in spec.validators:
        if name not in known:
            there = ", ".join(known) or "none"
            raise BadInput(f"{spec.name} asks for the check {name!r}; there is {there}. Set validators.commands.{name}")
    return [known[name] for name in spec.validators]


async def _ignore_outcome(_: ValidatorOutcome) -> None:
    pass
