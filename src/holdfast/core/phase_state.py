"""The phases of a run in its state: progress, reviews, documents, approvals and research. Plain data."""

from enum import StrEnum

import msgspec


class PhaseStatus(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class Approval(StrEnum):
    ASKED = "asked"
    GIVEN = "given"


class Review(msgspec.Struct):
    passed: bool
    summary: str = ""
    findings: str = "null"  # as JSON


class Document(msgspec.Struct):
    title: str
    text: str
    earlier: list[str] = []  # fingerprints of earlier versions
    asked: str | None = None  # its text at the last approval request
    before: str | None = None  # its text at the approval request before that


class PhaseProgress(msgspec.Struct):
    """The progress of a phase. Everything except its documents is about the newest round."""

    status: PhaseStatus = PhaseStatus.IN_PROGRESS
    round: int = 0
    tries: int = 0  # rounds since its loop was reset
    outcome: str | None = None
    reason: str | None = None
    delivered: bool = False
    talks: dict[str, str] = {}  # conversations by role
    reviews: dict[str, Review] = {}  # by role
    found: dict[str, Review] = {}  # reviews that failed in the round before, if it failed
    approval: Approval | None = None
    asked: int = 0  # approval requests in all rounds
    published: bool = False
    changes: list[str] = []
    heard: list[str] = []  # changes for the planning phase that this phase was told about
    sender: str | None = None  # the phase whose failure led to it
    documents: dict[str, Document] = {}


class Research(msgspec.Struct):
    """A research question. It is done only when it has an answer."""

    conversation: str  # the agent that asked
    topic: str
    question: str
    talk: str | None = None
    answered: bool = False
    answer: str | None = None
