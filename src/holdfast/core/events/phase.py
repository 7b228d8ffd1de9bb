"""The phases of a workflow: what was begun and what came of it, documents, reviews, approvals, research."""

from typing import Any, ClassVar

import msgspec

from holdfast.core.events.base import NOTHING, Event

DONE, PASSED, FAILED, SKIPPED = "done", "passed", "failed", "skipped"  # outcomes


class WorkflowChosen(Event, frozen=True, kw_only=True):
    """The run's workflow, whole: later sittings go on with it, whatever becomes of its file.

    `wanted` are the optional phases that were asked for.
    """

    type: ClassVar[str] = "workflow.chosen"
    workflow: dict[str, Any]
    wanted: list[str] = []


class PhaseStarted(Event, frozen=True, kw_only=True):
    """`changes` are the requests of people that are dealt with when it is over; `heard`, those it is told before."""

    type: ClassVar[str] = "phase.started"
    phase: str
    round: int
    reason: str | None = None
    changes: list[str] = []
    heard: list[str] = []


class PhaseDelivered(Event, frozen=True, kw_only=True):
    """Its agent gave the signal that ends it; what it handed in is in the same commit."""

    type: ClassVar[str] = "phase.delivered"
    phase: str
    round: int
    tool: str
    summary: str | None = None


class PhaseCompleted(Event, frozen=True, kw_only=True):
    """`outcome` is done, skipped, or what a review came to: passed or failed."""

    type: ClassVar[str] = "phase.completed"
    phase: str
    round: int
    outcome: str
    reason: str | None = None


class PhaseFailed(Event, frozen=True, kw_only=True):
    """It cannot continue without a person. A review that reached its limit gets this, also after `on_limit` led on."""

    type: ClassVar[str] = "phase.failed"
    phase: str
    round: int
    reason: str


class PhaseReopened(Event, frozen=True, kw_only=True):
    """A failed phase goes on, and nothing of what it may use up is used up."""

    type: ClassVar[str] = "phase.reopened"
    phase: str
    reason: str | None = None


class ArtifactStored(Event, frozen=True, kw_only=True):
    """A document of a phase. A later one of the same name takes its place."""

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
    findings: msgspec.Raw = NOTHING


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """`documents` are what is to be approved, as files below the run's folder; their text is in `artifact.stored`."""

    type: ClassVar[str] = "approval.requested"
    phase: str
    round: int
    summary: str | None = None
    documents: list[str] = []


class ApprovalAnswered(Event, frozen=True, kw_only=True):
    """`message` is the inbox message of the person who answered; `reason` is why that person refused."""

    type: ClassVar[str] = "approval.answered"
    phase: str
    round: int
    approved: bool
    by: str | None = None
    message: str | None = None
    reason: str | None = None


class ChangeRequested(Event, frozen=True, kw_only=True):
    """What a person wants to be otherwise. It stays with the run until a plan was made with it."""

    type: ClassVar[str] = "change.requested"
    change: str
    text: str
    by: str | None = None


class WorkPublished(Event, frozen=True, kw_only=True):
    """Where the work of the run went. `url` is of its pull request, or of the page to open one."""

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
    """The answer waits for whoever asked, until a prompt takes it along. `found` is False when there is none."""

    type: ClassVar[str] = "research.answered"
    research: str
    answer: str
    found: bool = True


class PreferencesProposed(Event, frozen=True, kw_only=True):
    """What an agent thinks that later runs should hold to; for the user to accept."""

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
