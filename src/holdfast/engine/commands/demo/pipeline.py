"""The demo of the pipeline: a planner killed in its turn, and the runner at the moment a review fails."""

from typing import Any

from holdfast.core.events import Event
from holdfast.core.events.phase import ReviewGiven
from holdfast.engine.commands.demo.demo import Demo
from holdfast.engine.commands.demo.waves import mcp_step

_KILLED_CALL = "Draw the graph of everything"
_TASKS = [
    {"id": "T-1", "title": "Split a text into words", "acceptance_criteria": ["words(text) gives them in order"]},
    {"id": "T-2", "title": "Say how to contribute", "acceptance_criteria": ["CONTRIBUTING.md tells how to run tests"]},
]
_WORDS = 'import re\n\n\ndef words(text):\n    return re.findall(r"\\w+", text)\n'
_LOWER = 'import re\n\n\ndef words(text):\n    return re.findall(r"\\w+", text.lower())\n'
_TEST = (
    "import unittest\n\nfrom kelp.words import words\n\n\nclass Words(unittest.TestCase):\n"
    '    def test_in_order(self):\n        self.assertEqual(words("hold fast"), ["hold", "fast"])\n'
)
_FINDING = {
    "severity": "major",
    "concern": "Hold and hold are two words.",
    "file": "kelp/words.py",
    "suggestion": "Lower the text first.",
}


def is_failed_review(event: Event) -> bool:
    return isinstance(event, ReviewGiven) and not event.passed


def _build_script() -> dict[str, Any]:
    shape = {"title": "Shape of kelp", "text": "# Shape\n\nOne module an idea; a test beside each.\n"}
    graph = mcp_step("submit_plan", {"tasks": _TASKS, "notes": "Keep it small."})
    turns = [
        {"when": "interrupted before it ended(?s:.)*You are the planner", "steps": [{"say": "Two tasks."}, graph]},
        {"when": "You are the architect", "steps": [mcp_step("submit_document", shape)]},
        {"when": "You are the planner", "steps": [{"tool": {"id": "hard", "title": _KILLED_CALL}}, {"sleep": 600}]},
        {"when": "You are the evaluator", "steps": [mcp_step("submit_verdict", {"accept": True})]},
        _worker_turn("T-1", {"kelp/__init__.py": "", "kelp/words.py": _WORDS, "tests/test_words.py": _TEST}),
        _worker_turn("T-2", {"CONTRIBUTING.md": "# Contributing\n\nRun the tests.\n"}),
        _worker_turn("fix-1", {"kelp/words.py": _LOWER}),
        {"when": "reviewer of the logic(?s:.)*text.lower", "steps": [_review_step()]},
        {"when": "reviewer of the logic", "steps": [_review_step(_FINDING)]},
        {"when": "reviewer", "steps": [_review_step()]},
    ]
    return {"turns": turns}


def _worker_turn(task: str, files: dict[str, str]) -> dict[str, Any]:
    writes = [{"write": {"path": path, "text": text}} for path, text in files.items()]
    criteria = [{"criterion": "it is done", "met": True, "evidence": "its test"}]
    case = mcp_step("submit_case", {"summary": f"{task} is done, with tests.", "criteria": criteria})
    return {"when": f"worker on task `{task}`", "steps": [*writes, case]}


def _review_step(*findings: dict[str, str]) -> dict[str, Any]:
    summary = "There is something to put right." if findings else "Nothing stands in its way."
    return mcp_step("submit_review", {"passed": not findings, "summary": summary, "findings": list(findings)})


PIPELINE_DEMO = Demo(
    title="A repository, a wish, and the pipeline",
    goal="Kelp can tell the words of a text",
    workflow="pipeline",
    script=_build_script(),
    expected_merges=len(_TASKS) + 1,
    killed_call=_KILLED_CALL,
    is_kill_point=is_failed_review,
    kill_description="in the moment in which a review failed",
    has_approval=True,
)
