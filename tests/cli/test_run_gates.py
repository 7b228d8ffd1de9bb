"""Phases that hand in data, checks that lead back, prompts of one's own, and what agents propose: as users run them."""

import json
from pathlib import Path
from typing import Any

from tests.support.cli_stage import SUBMIT, Stage
from tests.support.pipelines import calls, file_of, phase_rows

GATED = """\
name: gated
about: an estimate that must be small, and the work
case: true
phases:
- name: sizing
  role: architect
  schema:
    type: object
    required: [days]
    properties: {days: {type: integer}, risky: {type: boolean}}
  validators: [small]
  on_fail: sizing
- name: looking
  role: architect:risk
  when: data.sizing.risky
- name: building
  kind: tasks
"""
SMALL = {
    "command": ["sh", "-c", "grep -q 'days: .$' $HOLDFAST_ARTIFACTS/sizing/sizing.yaml || [ -z $HOLDFAST_ARTIFACTS ]"]
}
CHECKS = ("--set", "validators.detect=false", "--set", f"validators.commands.small={json.dumps(SMALL)}")


def sized(text: str, **more: Any) -> dict[str, Any]:
    return calls("submit_document", title="Size", text=text, **more)


REFUSED = {"mcp": {**sized("days: many\n")["mcp"], "expect": "error"}}


def prompts_of_ones_own(stage: Stage) -> None:
    folder = Path(stage.project.path, ".holdfast", "prompts")
    folder.mkdir(parents=True)
    (folder / "worker.md").write_text("GO {{task_id}}")
    (folder / "architect-risk.md").write_text("RISKS?")


def test_data_checks_and_prompts_of_ones_own_lead_through_a_run(stage: Stage) -> None:
    agent = stage.book(
        {"when": "(?s)You are the architect.*small does not pass", "steps": [sized("days: 4\nrisky: true\n")]},
        {
            "when": "You are the architect",
            "steps": [REFUSED, sized("days: 40\n", preferences=["count in days"])],
        },
        {"when": "RISKS?", "steps": [calls("submit_document", title="Risks", text="none")]},
        {"when": "GO `T-1`", "steps": [{"write": {"path": "a.txt", "text": "a\n"}}, SUBMIT]},
    )
    prompts_of_ones_own(stage)
    command = ("make a note", "--workflow", file_of(stage, GATED, "gated.yaml"), "--agent", agent, *CHECKS)
    run = stage.run(*command)
    assert phase_rows(stage, run) == [
        *("sizing 1", "sizing 1 failed", "sizing 2", "sizing 2 done"),
        *("looking 1", "looking 1 done", "building 1", "building 1 done"),
    ]
    assert [one["text"] for one in stage.data(run, "artifact.stored")] == [
        "days: 40\n",
        "days: 4\nrisky: true\n",
        "none",
    ]
    assert Path(stage.home_of(run), "artifacts", "sizing", "sizing.yaml").read_text() == "days: 4\nrisky: true\n"
    assert not [prompt for prompt in stage.prompts(run) if "count in days" in prompt], "nobody accepted it"
    (proposed,) = stage.holdfast("preferences", "ls", "--json").objects
    stage.holdfast("preferences", "accept", proposed["id"])
    again = stage.run(*command)
    assert ["count in days" in prompt for prompt in stage.prompts(again, "architect")] == [True, True]
    assert not [prompt for prompt in stage.prompts(again, "worker") if "count in days" in prompt]
