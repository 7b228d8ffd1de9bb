"""What the readers meet when all is well: where fuzzing begins."""

import json
from pathlib import Path
from typing import Any

from tests.fuzz.frames import request, update
from tests.support.crash_suite.scenarios import SCENARIOS

_ROOT = Path(__file__).parents[2]
_FLOWS = _ROOT / "src" / "holdfast" / "workflows"

_TASKS: list[dict[str, Any]] = [
    {"id": "T-1", "title": "Log in", "description": "By mail.", "acceptance_criteria": ["it works"], "passes": False},
    {"id": 2, "name": "Log out", "dependsOn": ["T-1"], "status": "done", "files": ["a.py"], "agent": "claude"},
]
TASKS_JSON = [
    json.dumps({"overview": "A shop", "tasks": _TASKS}).encode(),
    json.dumps(_TASKS).encode(),
    json.dumps({"prd": {"userStories": _TASKS}}).encode(),
]
TASKS_YAML = [
    b"overview: A shop\ntasks:\n- id: 1.10\n  title: Log in\n  criteria: [works]\n- id: b\n  title: x\n  needs: 1.10\n",
    b'- &a {id: a, title: one}\n- {<<: *a, id: b, depends_on: a, criteria: ["yes"]}\n',
]
PAGES = [
    (
        b"---\nid: T-001\ntitle: Add a login\ndepends_on: []\nstatus: pending\n---\n# T-001: Add a login\n\nText.\n\n"
        b"## Acceptance criteria\n\n- [ ] works\n- [x] fast\n"
    ),
    b"# Just a heading\n\n```\n---\n```\n",
]
SETTINGS = [
    (
        b'agent = "builtin"\nparallel = 3\n[caps]\niterations = 4\nwall_clock = "2h"\n[roles.worker]\nagent = "codex"\n'
        b'[agents.mine]\ncommand = ["my-agent", "--acp"]\n\n[validators.commands.test]\ncommand = ["make", "test"]\n\n'
        b'[hooks]\nnotify = [["say", "done"]]\n\n[permissions]\npolicy = "ask"\n'
    ),
    b'[runtime]\nkind = "sandbox"\n\n[resume]\non_issue = "fix"\n[[permissions.rules]]\ntool = "x"\nthen = "deny"\n',
    b'[agents."an\\tagent\\u001b[2J"]\ncommand = ["a"]\nenvironment = { "A\\nB" = "c" }\n',
]
FLAGS = [b"caps.iterations=3", b'agents."my agent".command=["a"]', b'hooks.notify=[["say"]]', b"caps.wall_clock=2h"]
WORKFLOWS = [(_FLOWS / name).read_bytes() for name in ("pipeline.yaml", "loop.yaml", "solo.yaml", "waves.yaml")]
PLAYBOOKS = [scenario.book.encode() for scenario in SCENARIOS.values()]
_GOLDEN = (_ROOT / "tests" / "golden" / "events-v1.jsonl").read_bytes()
LOG = [_GOLDEN, (_ROOT / "tests" / "golden" / "resume-protocol-interrupted.jsonl").read_bytes()]
LOG += _GOLDEN.splitlines(keepends=True)


def _message(kind: str, body: bytes) -> bytes:
    return (
        b'{"v":1,"ts":"2026-02-14T10:00:00.000Z","sid":"f4e3d2c1b5a4","seq":0,"type":"inbox.message","data":'
        b'{"id":"m-%s","kind":"%s","sender":"ada","body":%s}}\n' % (kind.encode(), kind.encode(), body)
    )


def _signal(role: str, task: str, tool: str, arguments: bytes) -> bytes:
    """By whom it is awaited in tests.fuzz.receiving."""
    name = f"c-{role}{task}".encode()
    body = b'{"role":"%s","conversation":"%s","signal":%s}' % (role.encode(), name, arguments)
    return _message(f"signal.{tool}", body)


MESSAGES = [
    _message("say", b'{"text":"hello"}'),
    _message("user", b'{"text":"hello","task":"A"}'),
    _message("research", b'{"text":"hello"}'),
    _message("change", b'{"text":"something else"}'),
    _message(
        "refused_report", b'{"role":"worker","tool":"submit_case","error":"no","raw":"{}","conversation":"c-worker-A"}'
    ),
    _message("stop", b'{"epoch":1,"reason":"enough"}'),
    _message("answer", b'{"request":"p1","allow":true,"option":"yes"}'),
    _message("answer", b'{"request":"p1","allow":false}'),
    _message("answer", b'{"request":"approval-product_management","allow":true}'),
    _message("answer", b'{"request":"approval-product_management","allow":false,"words":"shorter"}'),
    _message("answer", b'{"request":"approval-product_management","allow":false}'),
    _signal(
        "worker",
        "-A",
        "submit_case",
        b'{"summary":"s","criteria":[{"criterion":"c","met":true,"evidence":"e"}],"learnings":["l"]}',
    ),
    _signal(
        "evaluator",
        "-B",
        "submit_verdict",
        b'{"accept":false,"category":"weak_test","concern":"c","evidence":"e","next_step":"n"}',
    ),
    _signal(
        "planner",
        "",
        "submit_plan",
        b'{"tasks":[{"id":"C","title":"c"},{"id":"D","title":"d","depends_on":["C"]}],"preferences":["p"]}',
    ),
    _signal("architect", "", "submit_document", b'{"title":"t","text":"x"}'),
    _signal("researcher", "", "submit_research", b'{"topic":"t","answer":"a"}'),
    _signal("planner", "", "request_research", b'{"topic":"t","question":"another question"}'),
    _signal("planner", "", "report_progress", b'{"text":"half"}'),
    _signal("worker", "-A", "report_blocker", b'{"reason":"r","needed":"n"}'),
    _signal(
        "reviewer:logic",
        "",
        "submit_review",
        b'{"passed":false,"summary":"s","findings":[{"severity":"major","concern":"c","line":3}]}',
    ),
]
REPORTS = [
    b'worker submit_case {"summary": "done", "criteria": [{"criterion": "a", "met": true, "evidence": "b"}]}',
    b'evaluator submit_verdict {"accept":false,"category": "weak_test","concern":"a","evidence":"b","next_step": "c"}',
    b'planner submit_plan {"tasks": [{"id": "a", "title": "b"}, {"id": "c", "title": "d", "depends_on": ["a"]}]}',
    b'reviewer:logic submit_review {"passed":false,"summary":"s","findings":[{"severity": "major", "concern": "c"}]}',
    b'architect submit_document {"title": "t", "text": "x"}',
]

_SAID = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "hello"})
_CALL = update(
    sessionUpdate="tool_call",
    toolCallId="c1",
    title="Write",
    kind="edit",
    status="pending",
    locations=[{"path": "/a"}],
    rawInput={"a": 1},
)
_DONE = update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", content=[], rawOutput="x")
_PLAN = update(sessionUpdate="plan", entries=[{"content": "a", "priority": "high", "status": "pending"}])
_USED = update(sessionUpdate="usage_update", used=10, size=100, cost={"amount": 0.5, "currency": "USD"})
_MODE = update(sessionUpdate="current_mode_update", currentModeId="code")
_READ = request(7, "fs/read_text_file", path="/etc/passwd")
_KEPT = request(8, "fs/read_text_file", path="@WORK@/kept")
_WRITE = request(9, "fs/write_text_file", path="@WORK@/folder/new", content="new\n")
_ASKS = request(
    "p",
    "session/request_permission",
    toolCall={"toolCallId": "c1", "title": "Write", "kind": "edit", "locations": [{"path": "@WORK@/kept"}]},
    options=[
        {"optionId": "o", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ],
)
_RUNS = request(
    "t",
    "terminal/create",
    command="touch",
    args=["made"],
    cwd="@WORK@/folder",
    env=[{"name": "A", "value": "b"}],
    outputByteLimit=100,
)
_ENDS = request("e", "terminal/release", terminalId="1a2b3c4d5e6f")
_ANSWER = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}\n'
DEEDS = [_WRITE, _KEPT, _ASKS, _RUNS]  # what it may do through us
FRAMES = [
    b"".join([_SAID, _CALL, _DONE, _PLAN, _USED, _MODE, _READ, *DEEDS, _ENDS, _ANSWER]),
    *(_SAID, _CALL, _DONE, _PLAN, _USED, _WRITE, _KEPT, _ASKS, _ANSWER),
]
