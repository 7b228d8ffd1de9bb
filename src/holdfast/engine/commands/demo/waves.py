"""The demo of five tasks: agents in parallel, one killed in its turn, the runner in the middle of a merge."""

from typing import Any

from holdfast.core.events import Event
from holdfast.core.events.effect import EffectIntended
from holdfast.engine.commands.demo.demo import Demo
from holdfast.git.effects import MergeTask

KILLED_CALL = "Count the words of a very long text"

_TASKS = [
    {"id": "T-1", "title": "Split a text into words", "acceptance_criteria": ["words(text) gives them in order"]},
    {"id": "T-2", "title": "Count words", "acceptance_criteria": ["counted(text) gives each word's number"]},
    {"id": "T-3", "title": "Say how to contribute", "acceptance_criteria": ["CONTRIBUTING.md tells how to run tests"]},
    {
        "id": "T-4",
        "title": "The most frequent words",
        "depends_on": ["T-1", "T-2"],
        "acceptance_criteria": ["top(text, n) gives the n most frequent"],
    },
    {
        "id": "T-5",
        "title": "A command for it",
        "depends_on": ["T-3", "T-4"],
        "acceptance_criteria": ["python -m kelp FILE prints them"],
    },
]

_FILES = {
    "T-1": {
        "kelp/__init__.py": "",
        "kelp/words.py": 'import re\n\n\ndef words(text):\n    return re.findall(r"\\w+", text.lower())\n',
        "tests/test_words.py": "import unittest\n\nfrom kelp.words import words\n\n\nclass Words(unittest.TestCase):\n"
        '    def test_in_order(self):\n        self.assertEqual(words("Hold fast, hold!"), ["hold", "fast", "hold"])\n',
    },
    "T-2": {
        "kelp/counting.py": "from collections import Counter\n\n\ndef counted(text):\n"
        "    return Counter(text.lower().split())\n",
        "tests/test_counting.py": "import unittest\n\nfrom kelp.counting import counted\n\n\n"
        "class Counted(unittest.TestCase):\n"
        '    def test_each(self):\n        self.assertEqual(counted("a b a")["a"], 2)\n',
    },
    "T-3": {"CONTRIBUTING.md": "# Contributing\n\nRun the tests: `python -m unittest discover -s tests -t .`\n"},
    "T-4": {
        "kelp/top.py": "from collections import Counter\n\nfrom kelp.words import words\n\n\ndef top(text, n):\n"
        "    return Counter(words(text)).most_common(n)\n",
        "tests/test_top.py": "import unittest\n\nfrom kelp.top import top\n\n\nclass Top(unittest.TestCase):\n"
        '    def test_first(self):\n        self.assertEqual(top("kelp, kelp, rock", 1), [("kelp", 2)])\n',
    },
    "T-5": {
        "kelp/__main__.py": "import sys\n\nfrom kelp.top import top\n\nwith open(sys.argv[1]) as file:\n"
        "    for word, number in top(file.read(), 10):\n        print(number, word)\n",
    },
}


def build_script() -> dict[str, Any]:
    """Return the agents' script. One agent stays busy long enough to be killed, and continues once restored."""
    workers = [
        {"when": f"interrupted before it ended(?s:.)*worker on task `{task['id']}`", "steps": _work_steps(task)}
        for task in _TASKS
    ]
    busy = {
        "when": "You are the worker on task `T-2`",
        "steps": [{"say": "This is a long one."}, {"tool": {"id": "hard", "title": KILLED_CALL}}, {"sleep": 600}],
    }
    first = [{"when": f"worker on task `{task['id']}`", "steps": _work_steps(task)} for task in _TASKS]
    concern = {
        "accept": False,
        "category": "weak_test",
        "concern": "top() is only tested with n = 1.",
        "evidence": "tests/test_top.py has one assertion.",
        "next_step": "Test n larger than the number of words.",
    }
    more = '\n    def test_more_than_there_are(self):\n        self.assertEqual(len(top("kelp rock", 9)), 2)\n'
    again = {
        "when": "Task `T-4` is not done",
        "steps": [{"append": {"path": "tests/test_top.py", "text": more}}, *_case_steps(_TASKS[3])],
    }
    judges = [
        {
            "when": "evaluator of task `T-4`(?s:.)*Prior iterations",
            "steps": [mcp_step("submit_verdict", {"accept": True})],
        },
        {"when": "evaluator of task `T-4`", "steps": [mcp_step("submit_verdict", concern)]},
        {"when": "You are the evaluator", "steps": [mcp_step("submit_verdict", {"accept": True})]},
    ]
    return {"turns": [*workers, *judges, again, busy, *first]}


def is_merge(event: Event) -> bool:
    return isinstance(event, EffectIntended) and event.kind == MergeTask.kind


def _work_steps(task: dict[str, Any]) -> list[dict[str, Any]]:
    writes = [{"write": {"path": path, "text": text}} for path, text in _FILES[task["id"]].items()]
    return [{"say": f"{task['title']}: I begin."}, *writes, *_case_steps(task)]


def _case_steps(task: dict[str, Any]) -> list[dict[str, Any]]:
    criteria = [
        {"criterion": criterion, "met": True, "evidence": "its test"} for criterion in task["acceptance_criteria"]
    ]
    return [mcp_step("submit_case", {"summary": f"{task['title']}, with tests.", "criteria": criteria})]


def mcp_step(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"mcp": {"tool": tool, "arguments": arguments}}


WAVES_DEMO = Demo(
    title="A repository, five tasks, three agents at once",
    goal="Kelp: a small library about texts",
    workflow="waves",
    script=build_script(),
    expected_merges=len(_TASKS),
    killed_call=KILLED_CALL,
    is_kill_point=is_merge,
    kill_description="in the middle of a merge",
    tasks=_TASKS,
)
