"""For every tool by which agents report, arguments that are right."""

from typing import Any

RIGHT: dict[str, dict[str, Any]] = {
    "submit_case": {
        "summary": "The login works.",
        "criteria": [{"criterion": "A user can log in", "met": True, "evidence": "test_login passes"}],
        "uncertainties": ["the old browser"],
    },
    "submit_verdict": {
        "accept": False,
        "category": "weak_test",
        "concern": "It tests nothing.",
        "evidence": "assert True",
        "next_step": "Test the refusal.",
    },
    "submit_plan": {
        "tasks": [{"id": "a", "title": "First"}, {"id": "b", "title": "Then", "depends_on": ["a"], "files": ["b.py"]}]
    },
    "submit_tasks": {
        "overview": "Users can log in.",
        "tasks": [{"id": "a", "title": "First", "acceptance_criteria": ["works"], "depends_on": []}],
        "seeds": ["tests/a.py"],
    },
    "submit_review": {
        "passed": False,
        "summary": "Nearly.",
        "findings": [{"severity": "major", "concern": "It leaks.", "file": "a.py", "line": 3}],
    },
    "submit_document": {"title": "Design", "text": "# Design", "preferences": ["short names"]},
    "submit_done": {"summary": "All is done. ✓"},
    "request_research": {"topic": "limits", "question": "How many?"},
    "submit_research": {"topic": "limits", "answer": "Seven."},
    "report_blocker": {"reason": "No key.", "needed": "a key"},
    "report_progress": {"text": "halfway"},
}
