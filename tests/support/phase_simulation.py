"""The runner that does nothing but write down what might have come of each step, over the phases of a workflow."""

from collections.abc import Callable

from msgspec import Raw, structs

from holdfast.core.decide.actions import Action, ActionKind, PromptKind
from holdfast.core.decide.fix_tasks import plan_with_fix_task
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.phase import (
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    ChangeRequested,
    PhaseCompleted,
    PhaseDelivered,
    PhaseFailed,
    PhaseReopened,
    PhaseStarted,
    ResearchAnswered,
    ResearchRequested,
    ReviewGiven,
    WorkflowChosen,
    WorkPublished,
)
from holdfast.core.messages.addressing import messages_for
from holdfast.core.phase_state import Approval, PhaseProgress, PhaseStatus
from holdfast.core.work.workflow import PhaseKind, PhaseSpec
from tests.support.simulation import Simulation

_TALKING = (ActionKind.PROMPT, ActionKind.REVIEW, ActionKind.RESEARCH)


class PhaseSimulation(Simulation):
    """`world.plans` are what planners hand in; the last of them again and again."""

    def _first(self) -> Event:
        self.changes: set[str] = set()  # that anybody ever wanted
        self.planned: set[str] = set()  # that a plan was made with
        self.published: list[int] = []  # rounds
        return WorkflowChosen(workflow={"name": self.world.workflow.name})

    def _edited(self) -> list[Event]:
        failed = [name for name, phase in self.state.phases.items() if phase.status is PhaseStatus.FAILED]
        return [PhaseReopened(phase=name) for name in failed]

    def _set_going(self, action: Action) -> None:
        if action.task is not None or action.wave is not None:
            super()._set_going(action)
            return
        assert action.key not in self._busy, "it is under way"
        assert action.key not in self._stuck, "it cannot be done"
        if action.phase is not None:
            self._hold_to_phases(action, self._spec(action), self._progress(action))
        self._busy[action.key] = action

    def _hold_to_phases(self, action: Action, spec: PhaseSpec, progress: PhaseProgress) -> None:
        """What must be so before a step of a phase, whatever happened."""
        if action.kind is ActionKind.ENTER and spec.kind is PhaseKind.COMPLETE:
            reviewing = self.state.phases["reviewing"]
            assert (reviewing.status, reviewing.outcome) == (PhaseStatus.COMPLETE, "passed"), "it was not reviewed"
        if action.kind is ActionKind.CLOSE and spec.kind in (PhaseKind.AGENT, PhaseKind.COMPLETE):
            assert progress.delivered, "it handed in nothing"
        if action.kind in (ActionKind.PUBLISH, ActionKind.CLOSE) and spec.approval:
            assert progress.approval is Approval.GIVEN, "nobody approved it"
        if action.kind is ActionKind.CLOSE and action.reason == "passed":
            assert all(review.passed for review in progress.reviews.values()), "somebody did not pass it"
        if action.kind in (ActionKind.PROMPT, ActionKind.REVIEW):
            assert action.role not in progress.reviews, "it was given before"
            assert not progress.delivered, "it was handed in before"

    # What happens

    def _something_happens(self) -> None:
        if self._dice.random() < 0.05 and len(self.changes) < len(self.world.messages):
            self._want_change()
        else:
            super()._something_happens()

    def _message(self, task: str | None) -> None:
        super()._message(task if self._dice.random() < 0.5 else None)

    def _want_change(self) -> None:
        change = self._numbered("change")
        self.changes.add(change)
        self._append(ChangeRequested(change=change, text="otherwise"))

    def _advance(self, action: Action) -> None:
        if action.task is not None or action.wave is not None:
            super()._advance(action)
            return
        over = True
        if action.kind in _TALKING:
            over = self._speak(action)
        elif self._luck("step") == "done":
            self._append(*self._of_phase(action))
        else:
            self._stuck.add(action.key)
        if over:
            self._busy.pop(action.key, None)

    def _of_phase(self, action: Action) -> list[Event]:
        if action.research is not None:
            return [ResearchAnswered(research=action.research, answer="none", found=False)]
        name, at = action.phase or "", self._progress(action).round
        made: dict[ActionKind, Callable[[], list[Event]]] = {
            ActionKind.ENTER: lambda: self._enter(action),
            ActionKind.SKIP: lambda: [PhaseCompleted(phase=name, round=at, outcome="skipped")],
            ActionKind.CHECK: lambda: [self._review(action)],
            ActionKind.SUMMARIZE: lambda: [PhaseDelivered(phase=name, round=at, tool="summary")],
            ActionKind.ASK_APPROVAL: lambda: self._approval(name, at),
            ActionKind.PUBLISH: lambda: self._publish(name, at),
            ActionKind.CLOSE: lambda: self._close(action),
            ActionKind.FAIL_PHASE: lambda: [PhaseFailed(phase=name, round=at, reason=action.reason or "")],
            ActionKind.RECORD_CHANGE: lambda: self._take_as_change(action.reason or ""),
        }
        return made[action.kind]()

    def _enter(self, action: Action) -> list[Event]:
        spec, before = self._spec(action), self._progress(action)
        changes = list(self.state.changes) if spec.exit == "submit_plan" else []
        started = PhaseStarted(phase=spec.name, round=before.round + 1, changes=changes)
        return [started, *([plan_with_fix_task(self.state, "Fix", "x", [])] if spec.findings else [])]

    def _approval(self, name: str, at: int) -> list[Event]:
        asked = [ApprovalRequested(phase=name, round=at)]
        answer = self._luck("approval")
        if answer == "denied":
            return [
                *asked,
                ApprovalAnswered(phase=name, round=at, approved=False),
                PhaseFailed(phase=name, round=at, reason="denied"),
            ]
        given = ApprovalAnswered(phase=name, round=at, approved=True)
        return [*asked, *([given] if answer == "given" else [])]

    def _publish(self, name: str, at: int) -> list[Event]:
        self.published.append(at)
        return [WorkPublished(phase=name, round=at)]

    def _close(self, action: Action) -> list[Event]:
        progress = self._progress(action)
        self.planned.update(progress.changes)
        return [PhaseCompleted(phase=action.phase or "", round=progress.round, outcome=action.reason or "")]

    def _take_as_change(self, key: str) -> list[Event]:
        self.changes.add(key)
        return [ChangeRequested(change=key, text="more"), InboxHandled(message=key)]

    # Turns

    def _speak(self, action: Action) -> bool:
        """One step of a turn: it begins, something is reported, it ends. True when it has."""
        about = action.research or action.phase or ""
        role = "researcher" if action.research is not None else action.role or ""
        name = self._phase_conversation(action)
        if name is None:
            opened = ConversationOpened(conversation=self._numbered("conversation"), agent="a", role=role, about=about)
            self._append(opened)
            return False
        turn = self.state.conversations[name].turn
        if turn is None:
            said = messages_for(self.state.messages, about) if action.kind is ActionKind.PROMPT else []
            assert self._said.isdisjoint(said), "it was said before"
            self._said.update(said)
            if action.prompt_kind is PromptKind.MESSAGE and not said:
                return True
            handled = [InboxHandled(message=message) for message in said]
            self._append(TurnStarted(conversation=name, turn=self._numbered("turn"), messages=said), *handled)
            self._append(*self._report(action, name))
            return False
        last = self._luck("turn")
        if last == "interrupted":
            self._append(TurnInterrupted(conversation=name, turn=turn.turn))
        else:
            self._append(TurnEnded(conversation=name, turn=turn.turn, stop_reason=last))
        return True

    def _phase_conversation(self, action: Action) -> str | None:
        if action.research is not None:
            return self.state.research[action.research].talk
        return self._progress(action).talks.get(action.role or "")

    def _report(self, action: Action, name: str) -> list[Event]:
        if self._luck("report") != "case":
            return []
        if action.research is not None:
            return [ResearchAnswered(research=action.research, answer="found")]
        if action.kind is ActionKind.REVIEW:
            return [self._review(action)]
        if len(self.state.research) < 3 and self._luck("research") == "asked":
            research = self._numbered("research")
            return [ResearchRequested(research=research, conversation=name, topic="t", question="q")]
        spec, at = self._spec(action), self._progress(action).round
        plan: list[Event] = [self._plan()] if spec.exit == "submit_plan" else []
        stored = ArtifactStored(phase=spec.name, round=at, name="n", title="t", text="x")
        return [*plan, stored, PhaseDelivered(phase=spec.name, round=at, tool=spec.exit or "")]

    def _plan(self) -> Event:
        plan = self._plans.pop(0) if len(self._plans) > 1 else self._plans[0]
        return structs.replace(plan, needs_design=self._dice.random() < 0.5)

    def _review(self, action: Action) -> Event:
        passed = self._luck("review") == "passed"
        at = self._progress(action).round
        return ReviewGiven(
            phase=action.phase or "", round=at, role=action.role or "", passed=passed, findings=Raw(b"[]")
        )

    def _spec(self, action: Action) -> PhaseSpec:
        spec = self.world.workflow.phase(action.phase)
        assert spec is not None
        return spec

    def _progress(self, action: Action) -> PhaseProgress:
        return self.state.phases.get(action.phase or "") or PhaseProgress()
