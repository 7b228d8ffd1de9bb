"""The reporting tools of agents: one struct per tool, the roles that have it, and readable errors.

A signal is data for the workflow. It is checked here before it is stored, so that the agent learns about missing parts
at once.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec

from holdfast.core.work.plan import build_graph
from holdfast.leaf.errors import BadInput, PlanRejected

TOOLS_LISTED = b'{"tools":"listed"}'  # a line in a file of reports: the agent has loaded the tools

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
ShortName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Signal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report of an agent."""

    tool: ClassVar[str]
    about: ClassVar[str]
    ends: ClassVar[bool] = True  # ends the turn of an agent that cannot signal the end otherwise

    def check(self) -> None:
        """Check what types cannot express; raises `BadInput`."""


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    criterion: Text
    met: bool
    evidence: Text


class SubmitCase(Signal, frozen=True, kw_only=True):
    """The worker's case that its task is done."""

    tool: ClassVar[str] = "submit_case"
    about: ClassVar[str] = "Say that your task is done, and why: every acceptance criterion, with evidence for it."
    summary: Text
    criteria: list[Criterion]
    workarounds: list[Text] = []
    uncertainties: list[Text] = []
    learnings: list[Text] = []

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
    id: ShortName
    title: Text
    description: str = ""
    acceptance_criteria: list[Text] = []
    depends_on: list[ShortName] = []
    files: list[str] = []


class SubmitPlan(Signal, frozen=True, kw_only=True):
    """The planner's task graph."""

    tool: ClassVar[str] = "submit_plan"
    about: ClassVar[str] = "Submit the plan: tasks with ids, their acceptance criteria, and their dependencies."
    tasks: list[PlannedStep]
    needs_design: bool = False
    notes: str = ""
    preferences: list[Text] = []

    def check(self) -> None:
        if not self.tasks:
            raise BadInput("tasks is empty; a plan has at least one")
        try:
            build_graph([task.id for task in self.tasks], {task.id: task.depends_on for task in self.tasks})
        except PlanRejected as error:
            raise BadInput(str(error)) from None


class InterviewTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ShortName
    title: Text
    description: str = ""
    acceptance_criteria: list[Text]
    depends_on: list[ShortName] = []
    files: list[str] = []


class SubmitTasks(Signal, frozen=True, kw_only=True):
    """The interviewer's plan."""

    tool: ClassVar[str] = "submit_tasks"
    about: ClassVar[str] = (
        "Submit the complete plan: the overview, the tasks with acceptance criteria, and the paths of the tests that "
        "you wrote. The user then accepts it or asks for changes."
    )
    overview: Text
    tasks: list[InterviewTask]
    seeds: list[ShortName] = []

    def check(self) -> None:
        if not self.tasks:
            raise BadInput("tasks is empty; a plan has at least one")
        without = [task.id for task in self.tasks if not task.acceptance_criteria]
        if without:
            raise BadInput(
                f"{', '.join(without)}: acceptance_criteria is empty; say how another agent can check the task"
            )
        for path in self.seeds:
            parts = path.split("/")
            if path.startswith("/") or ".." in parts or ".git" in parts:
                raise BadInput(f"seeds: {path!r} is no path in your worktree; name files relative to it")
        try:
            build_graph([task.id for task in self.tasks], {task.id: task.depends_on for task in self.tasks})
        except PlanRejected as error:
            raise BadInput(str(error)) from None


class Severity(StrEnum):
    BLOCKER = "blocker"
    MAJOR = "major"
    MINOR = "minor"


class ReviewFinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    severity: Severity
    concern: Text
    file: str | None = None
    line: int | None = None
    suggestion: str | None = None


class SubmitReview(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "submit_review"
    about: ClassVar[str] = "Submit your review: whether it passes, and what you found."
    passed: bool
    summary: Text
    findings: list[ReviewFinding] = []
    preferences: list[Text] = []

    def check(self) -> None:
        if not self.passed and not self.findings:
            raise BadInput("a review that does not pass needs findings, so that they can be fixed")


class SubmitDocument(Signal, frozen=True, kw_only=True):
    """A document of a phase: an architecture, a design, a product brief."""

    tool: ClassVar[str] = "submit_document"
    about: ClassVar[str] = "Submit the document of your phase: Markdown, or data where the phase asks for it."
    title: Text
    text: Annotated[str, msgspec.Meta(min_length=1)]
    preferences: list[Text] = []


class SubmitDone(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "submit_done"
    about: ClassVar[str] = "Say that what you were asked to do is done."
    summary: Text
    preferences: list[Text] = []


class RequestResearch(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "request_research"
    about: ClassVar[str] = "Ask another agent to research a question; you get its answer as a message."
    topic: ShortName
    question: Text


class SubmitResearch(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "submit_research"
    about: ClassVar[str] = "Submit the answer to the question."
    topic: ShortName
    answer: Annotated[str, msgspec.Meta(min_length=1)]


class ReportBlocker(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "report_blocker"
    about: ClassVar[str] = "Say that you cannot continue, why, and what you need."
    reason: Text
    needed: str | None = None


class ReportProgress(Signal, frozen=True, kw_only=True):
    tool: ClassVar[str] = "report_progress"
    about: ClassVar[str] = "Report your progress in one line, for people who watch."
    ends: ClassVar[bool] = False
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


_COMMON_SIGNALS: tuple[type[Signal], ...] = (SubmitDone, ReportBlocker, ReportProgress)

ROLES: dict[str, tuple[type[Signal], ...]] = {
    "worker": (SubmitCase, RequestResearch, ReportBlocker, ReportProgress),
    "coder": (SubmitCase, RequestResearch, ReportBlocker, ReportProgress),
    "evaluator": (SubmitVerdict, ReportBlocker),
    "product_manager": (SubmitDocument, RequestResearch, *_COMMON_SIGNALS),
    "architect": (SubmitDocument, RequestResearch, *_COMMON_SIGNALS),
    "planner": (SubmitPlan, RequestResearch, *_COMMON_SIGNALS),
    "designer": (SubmitDocument, RequestResearch, *_COMMON_SIGNALS),
    "reviewer": (SubmitReview, ReportBlocker, ReportProgress),
    "researcher": (SubmitResearch, ReportBlocker),
    "interviewer": (SubmitTasks, ReportProgress),
    "agent": _COMMON_SIGNALS,
}


CHAT_ROLE = "chat"  # of every agent in a chat: its user decides what becomes of the work
INTERVIEWER_ROLE = "interviewer"


def signals_for_role(role: str) -> tuple[type[Signal], ...]:
    """The tools of a role. `reviewer:logic` is a reviewer; an unknown role has the common tools."""
    if role == CHAT_ROLE:
        return (ReportProgress,)
    return ROLES.get(role.partition(":")[0], _COMMON_SIGNALS)


def turn_ending_tools(role: str) -> tuple[str, ...]:
    """The tools that end a turn of this role."""
    return tuple(kind.tool for kind in signals_for_role(role) if kind.ends)


def read_signal(role: str, tool: str, arguments: Mapping[str, Any]) -> Signal:
    """The signal of a tool call; `BadInput` has a message for the agent."""
    kinds = {kind.tool: kind for kind in signals_for_role(role)}
    kind = kinds.get(tool)
    if kind is None:
        raise BadInput(f"a {role} has no tool {tool!r}; its tools are {', '.join(kinds)}")
    try:
        msgspec.json.encode(arguments)  # it must be storable
        signal = msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{tool}: {_readable_error(str(error))}. The call had no effect; correct it and call it again"
        ) from None
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError) as error:
        raise BadInput(f"{tool}: {error}. The call had no effect; call it again with plain text") from None
    signal.check()
    return signal


def schema_of(kind: type[Signal]) -> dict[str, Any]:
    """The self-contained JSON schema of a tool's input."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = components.pop(kind.__name__)
    del schema
    return {**own, **({"$defs": components} if components else {})}


def _readable_error(message: str) -> str:
    """The message of msgspec with the path first: `Object missing … - at $.criteria[0]` becomes `at criteria[0]: …`."""
    problem, _, path = message.partition(" - at `$")
    return f"at {path.removesuffix('`').lstrip('.')}: {problem}" if path.removesuffix("`") else problem
