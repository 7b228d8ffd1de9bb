"""A small pipeline with playbook agents: what each of its roles does, and a run of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, worker

Turn = dict[str, Any]


def calls(tool: str, **arguments: Any) -> Turn:
    return {"mcp": {"tool": tool, "arguments": arguments}}


def plan(*names: str, **more: Any) -> Turn:
    """A plan of tasks that do not wait for each other."""
    tasks = [{"id": name, "title": f"make {name}", "acceptance_criteria": ["works"]} for name in names]
    return calls("submit_plan", tasks=tasks, **more)


def review(*, passed: bool = True) -> Turn:
    found = [] if passed else [{"severity": "blocker", "concern": "there is no note"}]
    return calls("submit_review", passed=passed, summary="read", findings=found)


WRITE: Turn = {"run": "t=$(git rev-parse --abbrev-ref HEAD | sed 's,.*/,,'); echo $t > $t.txt"}
ARCHITECT: Turn = {"when": "You are the architect", "steps": [calls("submit_document", title="Shape", text="# Shape")]}
PLANNER: Turn = {"when": "You are the planner", "steps": [plan("A")]}
REVIEWER: Turn = {"when": "You are a reviewer", "steps": [review()]}
# It does not pass before there is a fix.
STRICT: Turn = {"when": "You are a reviewer(?s:.)*fix-1.txt", "steps": [review()]}
NEVER: Turn = {"when": "You are a reviewer", "steps": [review(passed=False)]}
TEAM: tuple[Turn, ...] = (EVALUATE, worker(WRITE, SUBMIT), ARCHITECT, PLANNER)

SMALL = """\
name: small
about: a pipeline of few agents
shape: graph
case: true
phases:
- name: planning
  role: planner
- name: implementing
  kind: tasks
- name: reviewing
  kind: review
  roles: [reviewer]
  on_fail: fixing
- name: fixing
  kind: tasks
  findings: true
  detour: true
- name: completing
  kind: complete
  approval: true
  publish: pr
"""


def file_of(stage: Stage, text: str = SMALL, name: str = "small.yaml") -> str:
    path = Path(stage.folder, name)
    path.write_text(text, encoding="utf-8")
    return str(path)


def small(stage: Stage, agent: str, *more: str) -> list[str]:
    """The command of a small pipeline."""
    checks = ("--set", "validators.detect=false")
    return ["run", "make a note", "--workflow", file_of(stage), "--agent", agent, *checks, *more]


def phase_rows(stage: Stage, run: str) -> list[str]:
    """Each phase that began or ended, in few words."""
    rows: list[str] = []
    for event in stage.events(run):
        data: Mapping[str, Any] = event["data"]
        if event["type"] == "phase.started":
            rows.append(f"{data['phase']} {data['round']}")
        elif event["type"] == "phase.completed":
            rows.append(f"{data['phase']} {data['round']} {data['outcome']}")
    return rows
