"""What agents report by tools: one struct a tool, which roles have it, and readable errors for what does not fit.

A signal is data for the workflow to act on. Its words are checked here, before it is stored, so that an agent that
left something out is told at once what.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec

from holdfast.core.work.plan import graph
from holdfast.leaf.errors import BadInput, PlanRejected

Words = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Signal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something an agent reports."""

    tool: ClassVar[str]
    about: ClassVar[str]
    ends: ClassVar[bool] = True  # nothing more comes in this turn, of an agent that says so in no other way

    def check(self) -> None:
        """What the types cannot say; raises `BadInput`."""


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    criterion: Words
    met: bool
    evidence: Words


class SubmitCase(Signal, frozen=True, kw_only=True):
    """The worker's case that its task is done."""

    tool: ClassVar[str] = "submit_case"
    about: ClassVar[str] = "Say that your task is done, and why: every acceptance criterion, with evidence for it."
    summary: Words
    criteria: list[Criterion]
    workarounds: list[Words] = []
    uncertainties: list[Words] = []
    learnings: list[Words] = []

    def check(self) -> None:
        if not self.criteria:
            raise BadInput("criteria is empty; name each acceptance criterion of the task, with its evidence")


class Category(StrEnum):
    SCOPE_CREEP = "scope_creep"
    ACCEPTANCE_GAP = "acceptance_gap"
    WEAK_TEST = "weak_test"
    TESTS_PASS_BUT_WRONG = "tests_pass_but_wrong"  # noqa: S105 - a word, not a secret
    HALF_FINISHED = "half_finished"
    SPEC_VIOLATION = "spec_violation"


class SubmitVerdict(Signal, frozen=True, kw_only=True):
    """The evaluator's verdict on a case."""

    tool: ClassVar[str] = "submit_verdict"
    about: ClassVar[str] = "Accept the case, or reject it with a category, the concern, its evidence and the next step."
    accept: bool
    category: Category | None = None
    concern: str | None = None
    evidence: str | None = None
    next_step: str | None = None

    def check(self) -> None:
        needed = {
            "category": self.category,
            "concern": self.concern,
            "evidence": self.evidence,
            "next_step": self.next_step,
        }
        lacking = [name for name, value in needed.items() if not value]
        if not self.accept and lacking:
            raise BadInput(f"a rejection needs {', '.join(lacking)}, so that the worker knows what to do")


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Name
    title: Words
    description: str = ""
    acceptance_criteria: list[Words] = []
    depends_on: list[Name] = []
    files: list[str] = []


class SubmitPlan(Signal, frozen=True, kw_only=True):
    """The planner's task graph."""

    tool: ClassVar[str] = "submit_plan"
    about: ClassVar[str] = "Hand in the plan: tasks with ids, what each must fulfil, and which wait for which."
    tasks: list[PlannedStep]
    needs_design: bool = False
    notes: str = ""
    preferences: list[Words] = []

    def check(self) -> None:
        if not self.tasks:
            raise BadInput("tasks is empty; a plan has at least one")
        try:
            graph([task.id for task in self.tasks], {task.id: task.depends_on for task in self.tasks})
        except PlanRejected as error:
            raise BadInput(str(error)) from None


class Severity(StrEnum):
    BLOCKER = "blocker"
    MAJOR = "major"
    MINOR = "minor"


class ReviewFinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    severity: Severity
    concern: Words
    file: str | None = None
    line: int | None = None
    suggestion: str | None = None


class SubmitReview(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "submit_review"
    about: ClassVar[str] = "Hand in your review: whether it passes, and what you found."
    passed: bool
    summary: Words
    findings: list[ReviewFinding] = []
    preferences: list[Words] = []

    def check(self) -> None:
        if not self.passed and not self.findings:
            raise BadInput("a review that does not pass needs findings, so that they can be fixed")


class SubmitDocument(Signal, frozen=True, kw_only=True):
    """A document of a phase: an architecture, a design, a product brief."""

    tool: ClassVar[str] = "submit_document"
    about: ClassVar[str] = "Hand in the document that your phase is about: Markdown, or data where it asks for that."
    title: Words
    text: Annotated[str, msgspec.Meta(min_length=1)]
    preferences: list[Words] = []


class SubmitDone(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "submit_done"
    about: ClassVar[str] = "Say that what you were asked to do is done."
    summary: Words
    preferences: list[Words] = []


class RequestResearch(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "request_research"
    about: ClassVar[str] = "Ask for something to be looked into by another agent; you get its answer as a message."
    topic: Name
    question: Words


class SubmitResearch(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "submit_research"
    about: ClassVar[str] = "Hand in what you found out."
    topic: Name
    answer: Annotated[str, msgspec.Meta(min_length=1)]


class ReportBlocker(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "report_blocker"
    about: ClassVar[str] = "Say that you cannot go on, why, and what you would need."
    reason: Words
    needed: str | None = None


class ReportProgress(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "report_progress"
    about: ClassVar[str] = "A line about where you are, for whoever watches."
    ends: ClassVar[bool] = False
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


_EVERYONE: tuple[type[Signal], ...] = (SubmitDone, ReportBlocker, ReportProgress)

ROLES: dict[str, tuple[type[Signal], ...]] = {
    "worker": (SubmitCase, RequestResearch, ReportBlocker, ReportProgress),
    "coder": (SubmitCase, RequestResearch, ReportBlocker, ReportProgress),
    "evaluator": (SubmitVerdict, ReportBlocker),
    "product_manager": (SubmitDocument, RequestResearch, *_EVERYONE),
    "architect": (SubmitDocument, RequestResearch, *_EVERYONE),
    "planner": (SubmitPlan, RequestResearch, *_EVERYONE),
    "designer": (SubmitDocument, RequestResearch, *_EVERYONE),
    "reviewer": (SubmitReview, ReportBlocker, ReportProgress),
    "researcher": (SubmitResearch, ReportBlocker),
    "agent": _EVERYONE,
}


def tools_of(role: str) -> tuple[type[Signal], ...]:
    """The tools of a role; `reviewer:logic` is a reviewer, and a role that nobody knows has those of any agent."""
    return ROLES.get(role.partition(":")[0], _EVERYONE)


def endings_of(role: str) -> tuple[str, ...]:
    """The tools by which an agent of a role ends its turn."""
    return tuple(kind.tool for kind in tools_of(role) if kind.ends)


def read_signal(role: str, tool: str, arguments: Mapping[str, Any]) -> Signal:
    """The signal that a call means; `BadInput` says in words for an agent what is wrong with it."""
    kinds = {kind.tool: kind for kind in tools_of(role)}
    kind = kinds.get(tool)
    if kind is None:
        raise BadInput(f"a {role} has no tool {tool!r}; its tools are {', '.join(kinds)}")
    try:
        msgspec.json.encode(arguments)  # it is to be written down
        signal = msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{tool}: {_readable(str(error))}; it was not taken; call it again with that set right"
        ) from None
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError) as error:
        raise BadInput(f"{tool}: {error}; it was not taken; call it again with plain text") from None
    signal.check()
    return signal


def schema_of(kind: type[Signal]) -> dict[str, Any]:
    """The JSON schema of a tool's input, whole in itself."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = components.pop(kind.__name__)
    del schema
    return {**own, **({"$defs": components} if components else {})}


def _readable(message: str) -> str:
    """`Object missing required field …- at `$.criteria[0]`` as a path an agent knows."""
    what, _, place = message.partition(" - at `$")
    return f"at {place.removesuffix('`').lstrip('.')}: {what}" if place.removesuffix("`") else what
