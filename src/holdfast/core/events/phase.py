"""Phases of a workflow: their start and outcome, documents, reviews, approvals, research."""

from typing import Any, ClassVar

import msgspec

from holdfast.core.events.base import JSON_NULL, Event

DONE, PASSED, FAILED, SKIPPED = "done", "passed", "failed", "skipped"  # outcomes


class WorkflowChosen(Event, frozen=True, kw_only=True):
    """The run's complete workflow: later sessions use it even if its file changes.

    `wanted` are the optional phases that the user requested.
    """

    type: ClassVar[str] = "workflow.chosen"
    workflow: dict[str, Any]
    wanted: list[str] = []


class PhaseStarted(Event, frozen=True, kw_only=True):
    """`changes` are change requests that this phase resolves; `heard` are those that it is only told about."""

    type: ClassVar[str] = "phase.started"
    phase: str
    round: int
    reason: str | None = None
    changes: list[str] = []
    heard: list[str] = []


class PhaseDelivered(Event, frozen=True, kw_only=True):
    """The phase's agent submitted its result, which is written in the same append."""

    type: ClassVar[str] = "phase.delivered"
    phase: str
    round: int
    tool: str
    summary: str | None = None


class PhaseCompleted(Event, frozen=True, kw_only=True):
    """`outcome` is done or skipped; for a review, passed or failed."""

    type: ClassVar[str] = "phase.completed"
    phase: str
    round: int
    outcome: str
    reason: str | None = None


class PhaseFailed(Event, frozen=True, kw_only=True):
    """The phase cannot continue without a person. A review at its limit gets this too, even after `on_limit`."""

    type: ClassVar[str] = "phase.failed"
    phase: str
    round: int
    reason: str


class PhaseReopened(Event, frozen=True, kw_only=True):
    """A failed phase continues, with all its limits reset."""

    type: ClassVar[str] = "phase.reopened"
    phase: str
    reason: str | None = None


class ArtifactStored(Event, frozen=True, kw_only=True):
    """A document of a phase. A later one with the same name replaces it."""

    type: ClassVar[str] = "artifact.stored"
    phase: str
    round: int
    name: str
    title: str
    text: str
    conversation: str | None = None


class ReviewGiven(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "review.given"
    phase: str
    round: int
    role: str
    passed: bool
    summary: str = ""
    findings: msgspec.Raw = JSON_NULL


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """`documents` are the documents to approve, as files below the run's folder; `artifact.stored` has their text."""

    type: ClassVar[str] = "approval.requested"
    phase: str
    round: int
    summary: str | None = None
    documents: list[str] = []


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    """`message` is the inbox message with the answer; `reason` is why the person rejected the result."""

    type: ClassVar[str] = "approval.answered"
    phase: str
    round: int
    approved: bool
    by: str | None = None
    message: str | None = None
    reason: str | None = None


class ChangeRequested(Event, frozen=True, kw_only=True):
    """A person requested a change. It stays open until a plan includes it."""

    type: ClassVar[str] = "change.requested"
    change: str
    text: str
    by: str | None = None


class WorkPublished(Event, frozen=True, kw_only=True):
    """The result was published. `url` is the pull request, or the page to open one."""

    type: ClassVar[str] = "work.published"
    phase: str
    round: int
    remote: str | None = None
    commit: str | None = None
    url: str | None = None
    problem: str | None = None


class ResearchRequested(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "research.requested"
    research: str
    conversation: str
    topic: str
    question: str


class ResearchAnswered(Event, frozen=True, kw_only=True):
    """The answer waits until the asking agent's next prompt delivers it. `found` is False when there is no answer."""

    type: ClassVar[str] = "research.answered"
    research: str
    answer: str
    found: bool = True


class PreferencesProposed(Event, frozen=True, kw_only=True):
    """Preferences that an agent proposes for later runs; the user accepts or ignores them."""

    type: ClassVar[str] = "preferences.proposed"
    role: str
    preferences: list[str] = []


FAMILY = (
    WorkflowChosen,
    PhaseStarted,
    PhaseDelivered,
    PhaseCompleted,
    PhaseFailed,
    PhaseReopened,
    ArtifactStored,
    ReviewGiven,
    ApprovalRequested,
    ApprovalAnswered,
    ChangeRequested,
    WorkPublished,
    ResearchRequested,
    ResearchAnswered,
    PreferencesProposed,
)
