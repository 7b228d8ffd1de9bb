"""Task lists in every form become the same plan."""

import json

import pytest

from tests.support.cli_stage import Stage
from tests.support.projects import write

ROWS = [
    {"id": "T-2", "title": "the first", "acceptance_criteria": ["works"]},
    {"id": "T-10", "title": "the second", "depends_on": ["T-2"], "acceptance_criteria": ["works"]},
]
YAML = """\
tasks:
  - {id: T-2, title: the first, acceptance_criteria: [works]}
  - {id: T-10, title: the second, depends_on: [T-2], acceptance_criteria: [works]}
"""
PAGE = "---\nid: {id}\ntitle: {title}\n{needs}acceptance_criteria: [works]\n---\n"
FORMS = {
    "prd.json": {"prd.json": json.dumps({"tasks": ROWS})},
    "plan.yaml": {"plan.yaml": YAML},
    "tasks": {
        "tasks/overview.md": "# What it is about\n",
        "tasks/T-10-second.md": PAGE.format(id="T-10", title="the second", needs="depends_on: [T-2]\n"),
        "tasks/T-2-first.md": PAGE.format(id="T-2", title="the first", needs=""),
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_a_list_becomes_a_plan(stage: Stage, form: str) -> None:
    write(stage.folder, FORMS[form])
    path = f"{stage.folder}/{form}"
    run = stage.holdfast("plan", "--workflow", "loop", path, "--json").object["run"]
    (plan,) = stage.data(run, "plan.created")
    assert [(task["id"], task["summary"]) for task in plan["tasks"]] == [("T-2", "the first"), ("T-10", "the second")]
    assert plan["dependencies"] == [{"task_id": "T-10", "blocked_by": "T-2"}]
    assert [wave["task_ids"] for wave in plan["waves"]] == [["T-2"], ["T-10"]]


def test_a_list_that_makes_no_order_is_refused_before_anything_is_made(stage: Stage) -> None:
    tasks = stage.tasks({"id": "A", "depends_on": ["B"]}, {"id": "B", "depends_on": ["A"]})
    before = stage.project.footprint()
    stage.holdfast("plan", "--workflow", "waves", tasks, code=2)
    assert stage.holdfast("ls", "--json").objects == []
    assert stage.project.footprint() == before
