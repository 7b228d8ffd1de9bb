"""AgentMux: `.agentmux/.sessions/<id>/` with state.json, and a folder of documents for each phase."""

import os
import re
from typing import Any, NamedTuple

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.phase import (
    DONE,
    SKIPPED,
    ArtifactStored,
    ChangeRequested,
    PhaseCompleted,
    PhaseStarted,
)
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.engine.commands.adopt.agentmux_review import (
    Reviews,
    has_fix_request,
    nominated_reviewers,
    read_reviews,
    review_events,
)
from holdfast.engine.commands.adopt.base import NO_TASKS, ForeignSession, Liveness
from holdfast.engine.commands.adopt.lines import (
    JsonLines,
    number,
    read_object,
    read_text,
    read_yaml_table,
    rows,
    table,
    text_of,
)

_FOLDERS = (".agentmux", ".sessions")
_DOCUMENTS = ("01_product_management", "02_architecting", "04_planning")
_NEXT_STEPS = {  # by phase, the last one first
    "completing": "the review passed: continue with completing",
    "fixing": "the review failed: continue with fixing what it found",
    "reviewing": "continue with the review",
    "implementing": "continue with the unfinished sub-plans",
    "designing": "continue with the design",
    "planning": "continue with the plan",
    "architecting": "continue with the architecture",
    "product_management": "continue with product management",
}
_ORDER = tuple(reversed(_NEXT_STEPS))
_SIGNALS = {  # the tool by which an agent says that its phase is over
    "product_management": "submit_pm_done",
    "architecting": "submit_architecture",
    "planning": "submit_plan",
}
_AFTER_IMPLEMENTING = ("reviewing", "fixing", "completing")
_CHANGE = "adopted-change"


def is_session(folder: str) -> bool:
    """A session by its state; by its documents when the state is missing or torn, as a kill can leave it."""
    state = read_object(os.path.join(folder, "state.json")) or {}
    if "feature_dir" in state or "phase" in state:
        return True
    return _has(folder, "requirements.md") and any(os.path.isdir(os.path.join(folder, name)) for name in _DOCUMENTS)


def read(folder: str) -> ForeignSession:
    findings: list[str] = []
    state = read_object(os.path.join(folder, "state.json"))
    if state is None:
        findings.append("state.json is missing or damaged; what the documents show counts")
        has_manager = os.path.isdir(os.path.join(folder, _DOCUMENTS[0]))
        state = {"product_manager": has_manager, "feature_branch": f"feature/{_slug(folder)}"}
    plan = read_yaml_table(os.path.join(folder, "04_planning", "plan.yaml"), findings)
    if plan and plan.get("version") not in (2, None):
        findings.append(f"plan.yaml has version {plan.get('version')}, which is unknown; it is read as version 2")
    tasks = _tasks(plan)
    signals = _Signals(folder)
    done = _done_plans(folder, state, plan) | {task_id(index) for index in signals.unapplied_plans}
    reviews = read_reviews(folder, state)
    documents = _Documents(folder, state, plan, done, reviews, signals)
    change = _requested_change(folder)
    phase = documents.phase() if change is not None else resume_phase(documents, findings)
    is_over = phase == "completing" and (
        read_object(os.path.join(folder, "08_completion", "approval.json")) is not None
    )
    project = _project(folder, state)
    session = ForeignSession(
        tool=Tool.AGENTMUX,
        path=folder,
        id=os.path.basename(folder),
        goal=_goal(folder),
        workflow="pipeline",
        state=text_of(state.get("phase")) or "unknown",
        tasks=tasks,
        task_states={task.id: DONE for task in tasks.tasks if task.id in done},
        wanted_phases=("product_management",) if state.get("product_manager") else (),
        cwd=_worktree(state, project),
        repo=project,
        branch=text_of(state.get("feature_branch")) or None,
        keep_out=(_FOLDERS[0],),
        liveness=_liveness(folder, state, project),
        next_step=_NEXT_STEPS[phase] if change is None else "a change was asked for: continue with a plan for it",
        findings=findings,
    )
    session.end_reason = EndReason.FAILED if state.get("phase") == "failed" else EndReason.INTERRUPTED
    if cause := text_of(state.get("interruption_cause")):
        findings.append(f"it was interrupted: {cause}")
    if is_over:
        findings.append("its approval is recorded; completing asks for it once more, on the work as it is now")
    if signals.unapplied:
        findings.append(
            f"{signals.unapplied} of its tool events were not applied; finished sub-plans among them count, else what "
            "the documents show"
        )
    session.before = lambda _: _early_phases(folder, state, phase)
    session.after = lambda plan: [
        *_progress(folder, plan, phase, done, reviews),
        *([ChangeRequested(change=_CHANGE, text=change)] if change is not None else []),
    ]
    return session


class _Signals:
    """What the agents reported by tools. AgentMux applies those after its cursor when it resumes."""

    def __init__(self, folder: str) -> None:
        self.unapplied = 0
        self.unapplied_plans: set[int] = set()
        self.tools: set[str] = set()
        self.unapplied_tools: set[str] = set()
        path = os.path.join(folder, "tool_events.jsonl")
        if not os.path.isfile(path):
            return
        cursor = read_object(os.path.join(folder, "tool_event_state.json")) or {}
        applied = number(cursor.get("applied_cursor", cursor.get("applied_offset")))
        for position, event in JsonLines(path):
            tool = text_of(event.get("tool"))
            self.tools.add(tool)
            if position < applied:
                continue
            self.unapplied += 1
            self.unapplied_tools.add(tool)
            index = table(event.get("payload")).get("subplan_index")
            if tool == "submit_done" and isinstance(index, int):
                self.unapplied_plans.add(index)


class _Documents(NamedTuple):
    """What the files of a session show."""

    folder: str
    state: dict[str, Any]
    plan: dict[str, Any]
    done: set[str]
    reviews: Reviews
    signals: _Signals

    def phase(self) -> str:
        """The first phase that is not over, by what the files show."""
        if self.state.get("product_manager") and not self._is_product_managed():
            return "product_management"
        if not _has(self.folder, "02_architecting", "architecture.md"):
            return "architecting"
        is_planned = _has(self.folder, "04_planning", "execution_plan.yaml")
        if not is_planned or not self.plan:
            return "planning"
        if self.plan.get("needs_design") and not _has(self.folder, "05_design", "design.md"):
            return "designing"
        if {task.id for task in _tasks(self.plan).tasks} - self.done:
            return "implementing"
        return self.phase_after_review()

    def phase_after_review(self) -> str:
        """A failed review leads to fixing. It has passed when each reviewer that was nominated has passed it."""
        verdicts = {role: passed for role, (passed, _, _) in self.reviews.items()}
        if not all(verdicts.values()):
            return "fixing"
        is_over = bool(verdicts) and nominated_reviewers(self.state) <= verdicts.keys()
        return "completing" if is_over else "reviewing"

    def _is_product_managed(self) -> bool:
        return (
            _has(self.folder, "01_product_management", "done")
            or _SIGNALS["product_management"] in self.signals.tools
            or _has(self.folder, "02_architecting", "architecture.md")
        )


def resume_phase(documents: _Documents, findings: list[str]) -> str:
    """The phase to continue with: the one that AgentMux was in, unless its documents are missing.

    After a failure only the documents say it.
    """
    recorded, shown = text_of(documents.state.get("phase")), documents.phase()
    if recorded not in _ORDER:
        return shown
    if _ORDER.index(shown) < _ORDER.index(recorded):
        is_review = shown in ("reviewing", "fixing")
        if not is_review:
            findings.append(f"state.json says {recorded}, but the documents show no end of {shown}; {shown} counts")
        return shown
    if recorded in _SIGNALS:
        return shown if _SIGNALS[recorded] in documents.signals.unapplied_tools else recorded
    if recorded == "implementing":
        return min(shown, "reviewing", key=_ORDER.index)
    if recorded in _AFTER_IMPLEMENTING:
        return documents.phase_after_review()
    return recorded


def _requested_change(folder: str) -> str | None:
    """What the user asked for instead of an approval. The file is there until a plan includes it."""
    return (read_text(os.path.join(folder, "08_completion", "changes.md")) or "").strip() or None


def _slug(folder: str) -> str:
    """The name of the feature: of the folder, without the time when it began."""
    return re.sub(r"^\d{8}-\d{6}-", "", os.path.basename(folder))


def _has(folder: str, *names: str) -> bool:
    return os.path.isfile(os.path.join(folder, *names))


def _goal(folder: str) -> str:
    text = read_text(os.path.join(folder, "requirements.md")) or ""
    _, _, request = text.partition("## Initial Request")
    found = (request or text).split("\n## ")[0].strip()
    return found or f"AgentMux session {os.path.basename(folder)}"


def task_id(index: Any) -> str:
    return f"P{index}"


def _tasks(plan: dict[str, Any]) -> TaskList:
    """The sub-plans. A group waits for the group before it; in a serial group each waits for the one before it."""
    needed: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for group in map(table, rows(plan.get("groups"))):
        names = [task_id(table(item).get("index")) for item in rows(group.get("plans"))]
        for place, name in enumerate(names):
            serial = group.get("mode") == "serial" and place > 0
            needed[name] = (names[place - 1],) if serial else before
        before = tuple(names) or before
    items = map(table, rows(plan.get("subplans")))
    found = [_task(item, needed) for item in items if item.get("index") is not None]
    if not found:
        return NO_TASKS
    return TaskList(tasks=tuple(found), overview=text_of(plan.get("plan_overview")))


def _task(item: dict[str, Any], needed: dict[str, tuple[str, ...]]) -> TaskSpec:
    name = task_id(item.get("index"))
    steps = "\n".join(f"- {text_of(step)}" for step in rows(item.get("tasks")))
    parts = (text_of(item.get("scope")), text_of(item.get("implementation_approach")), steps)
    criteria = item.get("acceptance_criteria")
    return TaskSpec(
        id=name,
        title=text_of(item.get("title")) or name,
        description="\n\n".join(part for part in parts if part),
        acceptance_criteria=tuple(map(text_of, rows(criteria))) or ((text_of(criteria),) if criteria else ()),
        depends_on=needed.get(name, ()),
        files=tuple(text_of(path) for path in rows(item.get("owned_files"))),
    )


def _done_plans(folder: str, state: dict[str, Any], plan: dict[str, Any]) -> set[str]:
    is_failed = state.get("phase") == "failed"
    if state.get("phase") in _AFTER_IMPLEMENTING or (is_failed and has_fix_request(folder, state)):
        return {task.id for task in _tasks(plan).tasks}
    groups = set(map(text_of, rows(state.get("implementation_completed_group_ids"))))
    done = {task_id(index) for index in rows(state.get("completed_subplans"))}
    for group in map(table, rows(plan.get("groups"))):
        if text_of(group.get("group_id")) in groups:
            done |= {task_id(table(item).get("index")) for item in rows(group.get("plans"))}
    for item in map(table, rows(plan.get("subplans"))):
        if _has(folder, "06_implementation", f"done_{item.get('index')}"):
            done.add(task_id(item.get("index")))
    return done


def _early_phases(folder: str, state: dict[str, Any], phase: str) -> list[Event]:
    """The phases before the implementation that are over."""
    events: list[Event] = []
    order = ("product_management", "architecting", "planning", "designing")
    documents = {
        "product_management": ("01_product_management", "analysis.md"),
        "architecting": ("02_architecting", "architecture.md"),
        "planning": ("04_planning", "plan.md"),
        "designing": ("05_design", "design.md"),
    }
    for name in order:
        if name == phase:
            break
        text = read_text(os.path.join(folder, *documents[name]))
        is_left_out = (name == "product_management" and not state.get("product_manager")) or (
            name == "designing" and text is None
        )
        if is_left_out:
            events.append(PhaseCompleted(phase=name, round=1, outcome=SKIPPED, reason="AgentMux left it out"))
            continue
        events.append(PhaseStarted(phase=name, round=1))
        if text is not None:
            file = documents[name][1]
            events.append(ArtifactStored(phase=name, round=1, name=file, title=file, text=text))
        events.append(PhaseCompleted(phase=name, round=1, outcome=DONE))
    return events


def _progress(folder: str, plan: TaskList, phase: str, done: set[str], reviews: Reviews) -> list[Event]:
    if not done and phase not in _AFTER_IMPLEMENTING:
        return []
    events: list[Event] = [PhaseStarted(phase="implementing", round=1)]
    for task in plan.tasks:
        if task.id in done:
            events.append(TaskStarted(task_id=task.id, summary=task.title))
            events.append(TaskCompleted(task_id=task.id, summary=task.title))
    if phase == "implementing":
        return events
    events.append(PhaseCompleted(phase="implementing", round=1, outcome=DONE))
    if reviews and phase in ("fixing", "completing"):
        events += review_events(folder, reviews)
    return events


def _project(folder: str, state: dict[str, Any]) -> str | None:
    """The project's folder: named in the state, else the one that has the session."""
    named = text_of(state.get("main_repo_dir"))
    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(folder))))
    is_inside = os.path.abspath(folder).split(os.sep)[-3:-1] == list(_FOLDERS)
    return next((path for path in (named, above if is_inside else "") if path and os.path.isdir(path)), None)


def _worktree(state: dict[str, Any], project: str | None) -> str | None:
    path = text_of(table(state).get("worktree_path")) if state.get("worktree_enabled") else ""
    return path if path and os.path.isdir(path) else project


def _liveness(folder: str, state: dict[str, Any], project: str | None) -> Liveness:
    runtime = read_object(os.path.join(folder, "runtime_state.json")) or {}
    pids = tuple(number(pid) for pid in table(runtime.get("process_pids")).values() if number(pid) > 0)
    places = (folder, project, text_of(state.get("worktree_path")) or None)
    return Liveness(
        words=(folder,),
        tmux_session=text_of(state.get("session_name")) or None,
        pids=pids,
        pid_folders=tuple(place for place in places if place is not None),
    )
