"""Small runs in which everything happens: rejections, a failing validator, a conflict, a task that fails.

What an agent does follows from its prompt alone, and is the same when it is done twice. So whoever dies, the end is
known beforehand.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.model_server.script import Answer, Rule, Script, ToolUse

_MET = [{"criterion": "works", "met": True, "evidence": "I looked"}]


def _submit(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"mcp": {"tool": tool, "arguments": arguments, "tries": 3}}  # a server that was killed is asked again


CASE = _submit("submit_case", summary="It is done.", criteria=_MET)
_ACCEPT = _submit("submit_verdict", accept=True)
_REJECT = _submit(
    "submit_verdict",
    accept=False,
    category="half_finished",
    concern="It is a draft, and IS-TO-BE-FINAL.",
    evidence="the first line",
    next_step="Write the final one.",
)


def _write(path: str, text: str, via: str = "direct") -> dict[str, Any]:
    return {"write": {"path": path, "text": text, "via": via}}


class Scenario(NamedTuple):
    """`turns` are the playbook's; `ends` are the codes of a session that nobody cut off."""

    name: str
    workflow: str
    turns: list[dict[str, Any]]
    goal: str | list[dict[str, Any]]
    files: Mapping[str, str]  # on the run's branch, at the end
    settings: tuple[str, ...] = ()
    ends: tuple[int, ...] = (0,)
    on_issue: str = "skip"
    words: str | None = None  # what a person says before it begins
    wanted: tuple[str, ...] = ()  # optional phases
    answers: tuple[tuple[str, ...], ...] = ()  # what a person does when the run asks for the first time, the second …
    publishes: bool = False  # to a remote, where `gh` opens a pull request
    chat: tuple[tuple[str, ...], ...] = ()  # what a person does, one after the other, whenever the chat waits for them
    then: tuple[tuple[str, ...], ...] = ()  # commands on the run once it is done, each followed by a resume to its end
    model: Script | None = None  # what the built-in agent's model says: then that agent is at work, and no playbook

    @property
    def book(self) -> str:
        return json.dumps({"turns": self.turns, "otherwise": [{"say": "I do not know what is meant."}]})


BEGIN = {"README.md": "a project\n", "shared.txt": "begin\n"}

SOLO = Scenario(
    name="solo",
    workflow="solo",
    goal="write the greeting",
    turns=[
        {
            "when": "the greeting",
            "steps": [
                {"say": "I write."},
                _write("hello.txt", "hel\n"),
                _write("hello.txt", "hello\n", via="client"),
                {"say": "Done."},
            ],
        }
    ],
    files={**BEGIN, "hello.txt": "hello\n"},
)

SPOKEN = SOLO._replace(
    name="spoken",
    turns=[{"when": "(?s)the greeting.*in capitals", "steps": [_write("hello.txt", "HELLO\n"), {"say": "Done."}]}],
    files={**BEGIN, "hello.txt": "HELLO\n"},
    words="Write it in capitals.",
)

_WRITTEN = {"when": "(?s)was interrupted.*the greeting", "steps": [{"say": "It is written already."}]}
TRUSTING = SOLO._replace(
    name="trusting",
    turns=[_WRITTEN, {"when": "the greeting", "steps": [_write("hello.txt", "hello\n"), {"say": "Done."}]}],
)
MORTAL = SOLO._replace(
    name="mortal",
    turns=[_WRITTEN, {"when": "the greeting", "steps": [_write("hello.txt", "hello\n"), {"crash": {"how": "kill"}}]}],
)

_INSTALL = ["sh", "-c", "mkdir -p deps && echo '*' > deps/.gitignore && echo ready > deps/ready"]  # as venv does
_PAGES = ["sh", "-c", "test -e deps/ready && ! grep -L valid [AB].txt | grep ."]

LOOP = Scenario(
    name="loop",
    workflow="loop",
    goal=[
        {"id": "A", "title": "The first page", "acceptance_criteria": ["works"]},
        {"id": "B", "title": "The second page", "acceptance_criteria": ["works"]},
    ],
    turns=[
        {"when": r"(?s)You are the evaluator of task `A`.*\+final", "steps": [_ACCEPT]},
        {"when": "You are the evaluator of task `A`", "steps": [_REJECT]},
        {"when": "You are the evaluator of task", "steps": [_ACCEPT]},
        {"when": r"(?s)ask `A`.*IS-TO-BE-FINAL", "steps": [_write("A.txt", "valid\nfinal\n"), CASE]},
        {"when": r"(?s)ask `A`.*validators do not pass", "steps": [_write("A.txt", "valid\ndraft\n"), CASE]},
        {"when": "worker on task `A`", "steps": [_write("A.txt", "draft\n"), CASE]},
        {"when": "worker on task `B`", "steps": [_write("B.txt", "valid\n"), CASE]},
        {"when": "ended without a report", "steps": [CASE]},
    ],
    files={**BEGIN, "A.txt": "valid\nfinal\n", "B.txt": "valid\n"},
    settings=(
        f"validators.commands.pages={json.dumps({'command': _PAGES})}",
        f"worktree.setup={json.dumps([_INSTALL])}",
    ),
)

WAVES = Scenario(
    name="waves",
    workflow="waves",
    goal=[
        {"id": "A", "title": "The first line", "acceptance_criteria": ["works"]},
        {"id": "B", "title": "The second line", "acceptance_criteria": ["works"]},
        {"id": "X", "title": "What cannot be done", "acceptance_criteria": ["works"]},
        {"id": "C", "title": "The end", "depends_on": ["A", "B"], "acceptance_criteria": ["works"]},
    ],
    turns=[
        {"when": "You are the evaluator of task", "steps": [_ACCEPT]},
        {"when": r"(?s)conflicts with yours on task", "steps": [_write("shared.txt", "begin\nA\nB\n"), CASE]},
        {"when": "worker on task `A`", "steps": [_write("shared.txt", "begin\nA\n"), CASE]},
        {"when": "worker on task `B`", "steps": [_write("shared.txt", "begin\nB\n"), CASE]},
        {"when": "worker on task `C`", "steps": [_write("end.txt", "end\n"), CASE]},
        {
            "when": "worker on task `X`",
            "steps": [_write("half.txt", "half\n"), _submit("report_blocker", reason="there is no such thing")],
        },
        {"when": r"(?s)ended without a report.*`X`", "steps": [_submit("report_blocker", reason="no such thing")]},
        {"when": "ended without a report", "steps": [CASE]},
    ],
    files={**BEGIN, "shared.txt": "begin\nA\nB\n", "end.txt": "end\n"},
    ends=(0, 1),
)

AGAIN = Scenario(
    name="again",
    workflow="loop",
    goal=[{"id": "X", "title": "What is hard", "acceptance_criteria": ["works"]}],
    turns=[
        {"when": "You are the evaluator of task", "steps": [_ACCEPT]},
        {"when": "ended without a report", "steps": [_write("whole.txt", "whole\n"), CASE]},
        {
            "when": "worker on task `X`",
            "steps": [_write("half.txt", "half\n"), _submit("report_blocker", reason="I need a rest")],
        },
    ],
    files={**BEGIN, "half.txt": "half\n", "whole.txt": "whole\n"},
    ends=(0, 1),
    on_issue="fix",
)

CAPPED = Scenario(
    name="capped",
    workflow="loop",
    goal=[{"id": "A", "title": "A page", "acceptance_criteria": ["works"]}],
    turns=[
        {"when": "You are the evaluator of task", "steps": [_REJECT]},
        {"when": "worker on task `A`", "steps": [_write("A.txt", "draft\n"), CASE]},
    ],
    files=BEGIN,
    settings=("caps.iterations=1",),
    ends=(0, 1),
)

_GRAPH = _submit("submit_plan", tasks=[{"id": "A", "title": "The page", "acceptance_criteria": ["works"]}])
_SHAPE = _submit("submit_document", title="Shape", text="# Shape")
_PASS = _submit("submit_review", passed=True, summary="It is well.")
_FAIL = _submit(
    "submit_review",
    passed=False,
    summary="It is not well.",
    findings=[{"severity": "blocker", "concern": "The page is a draft."}],
)

PIPELINE = Scenario(
    name="pipeline",
    workflow="pipeline",
    goal="write the page",
    turns=[
        {"when": "You are the evaluator of task", "steps": [_ACCEPT]},
        {"when": "worker on task `A`", "steps": [_write("A.txt", "draft\n"), CASE]},
        {"when": "worker on task `fix-1`", "steps": [_write("A.txt", "final\n"), CASE]},
        {"when": "You are the architect", "steps": [_SHAPE]},
        {"when": "You are the planner", "steps": [_GRAPH]},
        {"when": r"(?s)reviewer of the logic.*\+final", "steps": [_PASS]},
        {"when": "reviewer of the logic", "steps": [_FAIL]},
        {"when": "reviewer of the quality|expert reviewer", "steps": [_PASS]},
        {"when": "ended without a report", "steps": [CASE]},
    ],
    files={**BEGIN, "A.txt": "final\n"},
    settings=("approvals=given",),
)

_BOTH = [{"id": name, "title": f"The page {name}", "acceptance_criteria": ["works"]} for name in ("A", "B")]
_ASK = _submit("request_research", topic="pages", question="Where do pages live?")

GRAND = Scenario(
    name="grand",
    workflow="pipeline",
    goal="write the page",
    turns=[
        {"when": "You are the evaluator of task", "steps": [_ACCEPT]},
        {"when": "worker on task `A`", "steps": [_write("A.txt", "A\n"), CASE]},
        {"when": "worker on task `B`", "steps": [_write("B.txt", "B\n"), CASE]},
        {"when": "You are the (product manager|architect|designer)", "steps": [_SHAPE]},
        {"when": "You are a researcher", "steps": [_submit("submit_research", topic="pages", answer="Here.")]},
        {
            "when": "(?s)You are the planner.*a second page",
            "steps": [_submit("submit_plan", tasks=_BOTH, needs_design=True)],
        },
        {
            "when": "What was found out about pages",
            "steps": [_submit("submit_plan", tasks=_BOTH[:1], needs_design=True)],
        },
        {"when": "You are the planner", "steps": [_ASK, {"say": "I wait."}]},
        {"when": "reviewer of the logic", "steps": [_write("A.txt", "what is this\n"), _PASS]},  # it is not its own
        {"when": "reviewer of the|expert reviewer", "steps": [_PASS]},
        {"when": "ended without a report", "steps": [CASE]},
    ],
    files={**BEGIN, "A.txt": "A\n", "B.txt": "B\n"},
    ends=(0, 6),
    publishes=True,
    wanted=("product_management",),
    answers=(("approve",), ("deny", "--changes", "a second page, please"), ("approve",)),
)


def _calls(tool: str, **arguments: Any) -> Answer:
    return Answer(tools=[ToolUse(tool, arguments)])


def _reports(tool: str, **arguments: Any) -> Answer:
    return _calls(f"mcp__holdfast__{tool}", **arguments)


# What the model says follows from what it is shown: which steps have a result in the conversation, the last one first.
_MODEL = Script(
    [
        Rule(Answer(text="It is reported."), anywhere="(?m)^received$"),
        Rule(_reports("submit_verdict", accept=True), anywhere="You are the evaluator"),
        Rule(_reports("submit_case", summary="It is done.", criteria=_MET), anywhere="(?m)^copied$"),
        Rule(
            _calls("bash", command="cp shared.txt copy.txt && echo copied"),
            anywhere="(?m)^edited shared.txt$|`old` is not in shared.txt",
        ),
    ],
    otherwise=_calls("edit", path="shared.txt", old="begin", new="end"),
)

BUILTIN = Scenario(
    name="builtin",
    workflow="loop",
    goal=[{"id": "A", "title": "The end", "acceptance_criteria": ["works"]}],
    turns=[],
    files={**BEGIN, "shared.txt": "end\n", "copy.txt": "end\n"},
    model=_MODEL,
)

CHATTING = Scenario(
    name="chatting",
    workflow="chat",
    goal="write the greeting",
    turns=[
        {"when": "the farewell", "steps": [_write("bye.txt", "bye\n"), {"say": "Written."}]},
        {"when": "in capitals", "steps": [_write("hello.txt", "HELLO\n", via="client"), {"say": "Done."}]},
        {"when": "the greeting", "steps": [_write("hello.txt", "hello\n"), {"say": "Done."}]},
    ],
    files={**BEGIN, "hello.txt": "HELLO\n", "bye.txt": "bye\n"},
    settings=("chat.idle=0",),
    chat=(("send", "Put it in capitals."), ("accept",), ("send", "Now the farewell."), ("accept",)),
)

_TWO_PAGES = LOOP._replace(
    turns=[
        {"when": "You are the evaluator of task", "steps": [_ACCEPT]},
        {"when": "worker on task `A`", "steps": [_write("A.txt", "A\n"), CASE]},
        {"when": "worker on task `B`", "steps": [_write("B.txt", "B\n"), CASE]},
        {"when": "ended without a report", "steps": [CASE]},
    ],
    files={**BEGIN, "A.txt": "A\n", "B.txt": "B\n"},
    settings=(),
)

REWINDING = _TWO_PAGES._replace(
    name="rewinding",
    then=(("rewind", "-y"), ("rewind", "--to", "start", "-y"), ("rewind", "--undo", "-y")),
)

FORKING = _TWO_PAGES._replace(name="forking", then=(("fork", "--at", "-1", "--name", "forked"),))

SCENARIOS = {
    scenario.name: scenario
    for scenario in (CHATTING, SOLO, SPOKEN, LOOP, WAVES, AGAIN, CAPPED, PIPELINE, GRAND, BUILTIN, REWINDING, FORKING)
}

# Their agents count on what they wrote in a turn that was cut off: whoever cuts it off sooner gets another end.
TRUSTFUL = {scenario.name: scenario for scenario in (TRUSTING, MORTAL)}
