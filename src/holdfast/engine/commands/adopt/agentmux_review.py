"""The reviews of an AgentMux session: their files, and the events that state them."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.phase import FAILED, PASSED, ArtifactStored, PhaseCompleted, PhaseStarted, ReviewGiven
from holdfast.engine.commands.adopt.lines import number, read_text, read_yaml_table, rows, table, text_of

_FOLDER = "07_review"
_LOGIC = "reviewer_logic"
_REVIEWERS = {
    _LOGIC: "reviewer:logic",
    "reviewer_quality": "reviewer:quality",
    "reviewer_expert": "reviewer:expert",
}
_VERDICTS = {"pass": True, "fail": False}
_VERDICT_LINE = "verdict:"

Reviews = dict[str, tuple[bool, str, Any]]


def nominated_reviewers(state: dict[str, Any]) -> set[str]:
    """Who has to answer; empty without nominations: then one review is enough."""
    return {text_of(role) for role in rows(state.get("reviewer_nominations"))} & _REVIEWERS.keys()


def read_reviews(folder: str, state: dict[str, Any]) -> Reviews:
    """By role: whether it passed, its summary and its findings. A reviewer that did not answer has none."""
    found: Reviews = {}
    reviews = os.path.join(folder, _FOLDER)
    for name in sorted(os.listdir(reviews)) if os.path.isdir(reviews) else []:
        role = _role_of(name)
        if role is None:
            continue
        data = read_yaml_table(os.path.join(reviews, name), [])
        passed = _VERDICTS.get(text_of(data.get("verdict")).lower())
        if passed is not None:
            found[role] = (passed, text_of(data.get("summary")), data.get("findings"))
    for role, result in table(state.get("review_results")).items():
        passed = _VERDICTS.get(text_of(table(result).get("verdict")).lower())
        if role not in found and passed is not None:
            found[role] = (passed, text_of(table(result).get("review_text")), None)
    return found or _from_markdown(reviews) or _from_fix_request(folder, state)


def _role_of(name: str) -> str | None:
    """The reviewer whose verdict a file has. An older version of AgentMux has one file for the only one."""
    if name == "review.yaml":
        return _LOGIC
    is_review = name.startswith("review_") and name.endswith(".yaml")
    return name.removeprefix("review_").removesuffix(".yaml") if is_review else None


def _from_markdown(reviews: str) -> Reviews:
    """The verdict of a review without a YAML file: the first line of its text says it."""
    text = (read_text(os.path.join(reviews, "review.md")) or "").strip()
    first, _, rest = text.partition("\n")
    if not first.lower().startswith(_VERDICT_LINE):
        return {}
    passed = _VERDICTS.get(first[len(_VERDICT_LINE) :].strip().lower())
    return {_LOGIC: (passed, rest.strip(), None)} if passed is not None else {}


def is_fixing(folder: str, state: dict[str, Any]) -> bool:
    """Whether what a review found is being fixed. AgentMux deletes the markers of finished sub-plans for it."""
    is_again = has_fix_request(folder, state) and not os.path.exists(
        os.path.join(folder, "06_implementation", "done_1")
    )
    return state.get("phase") == "fixing" or (state.get("phase") == "failed" and is_again)


def has_fix_request(folder: str, state: dict[str, Any]) -> bool:
    """Whether a review failed before: all sub-plans were finished by then, with or without their markers."""
    return number(state.get("review_iteration")) > 0 and _fix_request(folder) is not None


def _fix_request(folder: str) -> str | None:
    places = (os.path.join(folder, name, "fix_request.md") for name in (_FOLDER, "06_implementation"))
    return next((text for place in places if (text := read_text(place)) is not None), None)


def _from_fix_request(folder: str, state: dict[str, Any]) -> Reviews:
    text = _fix_request(folder) if is_fixing(folder, state) else None
    return {_LOGIC: (False, text.strip(), None)} if text is not None else {}


def review_events(folder: str, reviews: Reviews) -> Iterator[Event]:
    yield PhaseStarted(phase="reviewing", round=1)
    text = read_text(os.path.join(folder, _FOLDER, "review.md"))
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
