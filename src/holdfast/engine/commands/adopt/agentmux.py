"""AgentMux: `.agentmux/.sessions/<id>/` with state.json, and a folder of documents for each phase."""

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.phase import (
    DONE,
    FAILED,
    PASSED,
    SKIPPED,
    ArtifactStored,
    PhaseCompleted,
    PhaseStarted,
    ReviewGiven,
)
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.engine.commands.adopt.base import NO_TASKS, ForeignSession, Liveness
from holdfast.engine.commands.adopt.lines import JsonLines, number, read_object, read_text, rows, table, text_of
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.files.yaml import read_yaml

_FOLDERS = (".agentmux", ".sessions")
_DOCUMENTS = ("01_product_management", "02_architecting", "04_planning")
_NEXT_STEPS = {
    "completing": "the review passed: continue with completing",
    "fixing": "the review failed: continue with fixing what it found",
    "reviewing": "continue with the review",
    "implementing": "continue with the unfinished sub-plans",
    "designing": "continue with the design",
    "planning": "continue with the plan",
    "architecting": "continue with the architecture",
    "product_management": "continue with product management",
}
_REVIEWERS = {
    "reviewer_logic": "reviewer:logic",
    "reviewer_quality": "reviewer:quality",
    "reviewer_expert": "reviewer:expert",
}


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
    plan = _read_yaml(os.path.join(folder, "04_planning", "plan.yaml"), findings)
    if plan and plan.get("version") not in (2, None):
        findings.append(f"plan.yaml has version {plan.get('version')}, which is unknown; it is read as version 2")
    tasks = _tasks(plan)
    done = _done_plans(folder, state, plan)
    phase = resume_phase(folder, state, plan, done)
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
        liveness=_liveness(folder, state),
        next_step=_NEXT_STEPS[phase],
        findings=findings,
    )
    session.end_reason = EndReason.FAILED if state.get("phase") == "failed" else EndReason.INTERRUPTED
    if cause := text_of(state.get("interruption_cause")):
        findings.append(f"it was interrupted: {cause}")
    if is_over:
        findings.append("its approval is recorded; completing asks for it once more, on the work as it is now")
    if waiting := _unapplied_events(folder):
        findings.append(f"{waiting} of its tool events were not applied; what the documents show counts")
    session.before = lambda _: _early_phases(folder, state, phase)
    session.after = lambda plan: _progress(folder, state, plan, phase, done)
    return session


def resume_phase(folder: str, state: dict[str, Any], plan: dict[str, Any], done: set[str]) -> str:
    """The phase to continue with, from the documents: what they do not show did not happen."""
    if state.get("product_manager") and not _has(folder, "01_product_management", "done"):
        return "product_management"
    if not _has(folder, "02_architecting", "architecture.md"):
        return "architecting"
    is_planned = _has(folder, "04_planning", "execution_plan.yaml")
    if not is_planned or not plan:
        return "planning"
    if plan.get("needs_design") and not _has(folder, "05_design", "design.md"):
        return "designing"
    if {task.id for task in _tasks(plan).tasks} - done:
        return "implementing"
    verdicts = [verdict for verdict, _, _ in _reviews(folder, state).values()]
    if not verdicts:
        return "reviewing"
    return "completing" if all(verdicts) else "fixing"


def _slug(folder: str) -> str:
    """The name of the feature: of the folder, without the time when it began."""
    return re.sub(r"^\d{8}-\d{6}-", "", os.path.basename(folder))


def _has(folder: str, *names: str) -> bool:
    return os.path.isfile(os.path.join(folder, *names))


def _read_yaml(path: str, findings: list[str]) -> dict[str, Any]:
    text = read_text(path)
    if text is None:
        return {}
    try:
        return table(read_yaml(text, path).value)
    except HoldfastError as error:
        findings.append(f"{os.path.basename(path)} cannot be read: {error}")
        return {}


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
    found = [_task(table(item), needed) for item in rows(plan.get("subplans"))]
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
    groups = set(map(text_of, rows(state.get("implementation_completed_group_ids"))))
    done = {task_id(index) for index in rows(state.get("completed_subplans"))}
    for group in map(table, rows(plan.get("groups"))):
        if text_of(group.get("group_id")) in groups:
            done |= {task_id(table(item).get("index")) for item in rows(group.get("plans"))}
    for item in map(table, rows(plan.get("subplans"))):
        if _has(folder, "06_implementation", f"done_{item.get('index')}"):
            done.add(task_id(item.get("index")))
    return done


Reviews = dict[str, tuple[bool, str, Any]]


def _reviews(folder: str, state: dict[str, Any]) -> Reviews:
    """By role: whether it passed, its summary and its findings. A reviewer that did not answer has none."""
    found: Reviews = {}
    reviews = os.path.join(folder, "07_review")
    names = sorted(os.listdir(reviews)) if os.path.isdir(reviews) else []
    for name in names:
        role = name.removeprefix("review_").removesuffix(".yaml")
        if name.startswith("review_") and name.endswith(".yaml"):
            data = _read_yaml(os.path.join(reviews, name), [])
            if "verdict" in data:
                found[role] = (data["verdict"] == "pass", text_of(data.get("summary")), data.get("findings"))
    for role, result in table(state.get("review_results")).items():
        verdict = table(result).get("verdict")
        if role not in found and verdict is not None:
            found[role] = (verdict == "pass", text_of(table(result).get("review_text")), None)
    return found


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


def _progress(folder: str, state: dict[str, Any], plan: TaskList, phase: str, done: set[str]) -> list[Event]:
    if not done and phase not in ("reviewing", "fixing", "completing"):
        return []
    events: list[Event] = [PhaseStarted(phase="implementing", round=1)]
    for task in plan.tasks:
        if task.id in done:
            events.append(TaskStarted(task_id=task.id, summary=task.title))
            events.append(TaskCompleted(task_id=task.id, summary=task.title))
    if phase == "implementing":
        return events
    events.append(PhaseCompleted(phase="implementing", round=1, outcome=DONE))
    reviews = _reviews(folder, state) if phase in ("fixing", "completing") else {}
    if reviews:
        events += _review_events(folder, reviews)
    return events


def _review_events(folder: str, reviews: Reviews) -> Iterator[Event]:
    yield PhaseStarted(phase="reviewing", round=1)
    text = read_text(os.path.join(folder, "07_review", "review.md"))
    if text is not None:
        yield ArtifactStored(phase="reviewing", round=1, name="review.md", title="Review", text=text)
    for role, (passed, summary, findings) in reviews.items():
        yield ReviewGiven(
            phase="reviewing",
            round=1,
            role=_REVIEWERS.get(role, "reviewer:logic"),
            passed=passed,
            summary=summary,
            findings=msgspec.Raw(msgspec.json.encode(_findings(findings, summary, passed=passed))),
        )
    outcome = PASSED if all(passed for passed, _, _ in reviews.values()) else FAILED
    yield PhaseCompleted(phase="reviewing", round=1, outcome=outcome)


def _findings(found: Any, summary: str, *, passed: bool) -> list[dict[str, str]]:
    """Findings in our form. A failed review without any has its summary as one."""
    items = [_finding(item if isinstance(item, dict) else {"issue": text_of(item)}) for item in rows(found)]
    return items or ([] if passed else [{"severity": "major", "concern": summary or "the review failed"}])


def _finding(item: dict[str, Any]) -> dict[str, str]:
    named = ("concern", "issue", "description", "title", "summary", "finding")
    concern = next((text_of(item[name]) for name in named if item.get(name)), text_of(item))
    severity = text_of(item.get("severity")).lower()
    place = next((text_of(item[name]) for name in ("file", "location", "path") if item.get(name)), "")
    advice = next((text_of(item[name]) for name in ("recommendation", "suggestion", "fix") if item.get(name)), "")
    return {
        "severity": {"high": "blocker", "critical": "blocker", "low": "minor"}.get(severity, severity or "major"),
        "concern": concern,
        **({"file": place} if place else {}),
        **({"suggestion": advice} if advice else {}),
    }


def _project(folder: str, state: dict[str, Any]) -> str | None:
    """The project's folder: named in the state, else the one that has the session."""
    named = text_of(state.get("main_repo_dir"))
    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(folder))))
    is_inside = os.path.abspath(folder).split(os.sep)[-3:-1] == list(_FOLDERS)
    return next((path for path in (named, above if is_inside else "") if path and os.path.isdir(path)), None)


def _worktree(state: dict[str, Any], project: str | None) -> str | None:
    path = text_of(table(state).get("worktree_path")) if state.get("worktree_enabled") else ""
    return path if path and os.path.isdir(path) else project


def _liveness(folder: str, state: dict[str, Any]) -> Liveness:
    runtime = read_object(os.path.join(folder, "runtime_state.json")) or {}
    pids = tuple(number(pid) for pid in table(runtime.get("process_pids")).values() if number(pid) > 0)
    return Liveness(words=(folder,), tmux_session=text_of(state.get("session_name")) or None, pids=pids)


def _unapplied_events(folder: str) -> int:
    """How many tool events follow the cursor."""
    path = os.path.join(folder, "tool_events.jsonl")
    cursor = read_object(os.path.join(folder, "tool_event_state.json")) or {}
    applied = number(cursor.get("applied_cursor", cursor.get("applied_offset")))
    if not os.path.isfile(path):
        return 0
    return sum(position >= applied for position, _ in JsonLines(path))
