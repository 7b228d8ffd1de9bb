"""Workflows as YAML: what is wrong is told with its line, what is wrong, and what is allowed."""

import json
import re
from pathlib import Path

import pytest

from holdfast.core.work.workflow import PhaseKind, PlanShape
from holdfast.leaf.errors import BadInput
from holdfast.leaf.text.mistakes import BadFile
from holdfast.workflows.builtin import BUILT_IN, find_workflow, workflow_file
from holdfast.workflows.reader import parse_workflow, read_workflow, schema

HEAD = "name: mine\nabout: something\n"


def phases(*lines: str) -> str:
    return HEAD + "phases:\n" + "\n".join(lines) + "\n"


ARCHITECT = ("- name: thinking", "  role: architect")
REVIEW = ("- name: looking", "  kind: review", "  roles: [reviewer]")

MISTAKES: dict[str, tuple[str, str]] = {
    "nothing": ("", ":1: empty; a workflow has `name`, `about` and `phases`"),
    "no YAML": ("name: [", "not YAML"),
    "a key twice": (HEAD + "name: again\n", ":3: duplicate key 'name'"),
    "something missing": ("name: mine\n", ":1: the key 'about' is missing"),
    "a key of nobody": (HEAD + "fases: []\n", ":3: fases: there is no such key; did you mean phases?"),
    "a key of nobody in a phase": (phases(*ARCHITECT, "  rolle: x"), ":6: phases[0].rolle: there is no such key"),
    "another type": (HEAD + "phases: all\n", ":3: phases: expected a list, got text"),
    "no phase": (phases("- thinking"), ":4: phases[0]: expected a mapping, got text"),
    "a kind of nobody": (phases(*ARCHITECT, "  kind: agents"), ":6: phases[0].kind: 'agents' is not allowed"),
    "a name that is none": (phases("- name: My Phase", "  role: architect"), ":4: phases[0].name: expected text"),
    "a name twice": (phases(*ARCHITECT, *ARCHITECT), ":6: phases[1].name: duplicate phase name 'thinking'"),
    "an agent without a role": (phases("- name: thinking"), ":4: phases[0]: the phase 'thinking' needs a `role`"),
    "a review by nobody": (phases("- name: looking", "  kind: review"), "needs `roles`, or `validate: true`"),
    "a review by one who cannot": (
        phases("- name: looking", "  kind: review", "  roles: [architect]"),
        ":6: phases[0].roles[0]: 'architect' cannot review",
    ),
    "a role that is misspelled": (
        phases("- name: thinking", "  role: archtect"),
        ":5: phases[0].role: there is no role 'archtect'; did you mean architect?",
    ),
    "a role of nobody": (
        phases("- name: thinking", "  role: tester", "  exit: submit_done"),
        ":5: phases[0].role: there is no role 'tester'; use one of product_manager, architect, planner, designer",
    ),
    "a reviewer that is misspelled": (
        phases("- name: looking", "  kind: review", "  roles: [reviewer, 'revewer:logic']"),
        ":6: phases[0].roles[1]: there is no role 'revewer'; did you mean reviewer?",
    ),
    "a key of another kind": (
        phases(*ARCHITECT, "  findings: true"),
        ":6: phases[0].findings: does not apply to a phase of kind agent",
    ),
    "a way out that the role has not": (
        phases(*ARCHITECT, "  exit: submit_plan"),
        ":6: phases[0].exit: the role 'architect' can end with submit_document or submit_done",
    ),
    "no such condition": (
        phases(*ARCHITECT, "  when: plan.wants_design"),
        ":6: phases[0].when: 'plan.wants_design' is no",
    ),
    "a document of nobody": (
        phases(*ARCHITECT, "  inputs: [thinkin]"),
        ":6: phases[0].inputs[0]: there is no phase 'thinkin'; did you mean thinking?",
    ),
    "a way to nowhere": (phases(*REVIEW, "  on_fail: mending"), ":7: phases[0].on_fail: there is no phase 'mending'"),
    "a detour to which nothing leads": (
        phases(*ARCHITECT, "- name: mending", "  kind: tasks", "  detour: true"),
        ":8: phases[1].detour: no phase has `on_fail: mending`",
    ),
    "a fall forward": (
        phases(*REVIEW, "  on_fail: mending", "- name: mending", "  kind: tasks"),
        ":7: phases[0].on_fail: 'mending' is a later phase",
    ),
    "a circle": (phases(*ARCHITECT, "  next: thinking"), ":6: phases[0].next: 'thinking' is not a later phase"),
    "no limit": (phases(*REVIEW, "  limit: 0"), ":7: phases[0].limit: expected a whole number >= 1"),
    "a way back that nothing leads to": (
        phases(*ARCHITECT, "  on_fail: thinking"),
        ":6: phases[0].on_fail: a phase of kind agent fails only when its checks fail; add `validate: true`",
    ),
    "checks of the plan itself": (
        phases("- name: planning", "  role: planner", "  exit: submit_plan", "  validate: true"),
        ": the planning phase cannot have checks",
    ),
    "back to what is done already": (
        phases("- name: building", "  kind: tasks", "  validate: true", "  on_fail: building"),
        ":7: phases[0].on_fail: the tasks of 'building' are complete by then",
    ),
    "a limit of nothing": (
        phases(*ARCHITECT, "  validate: true", "  on_limit: looking", *REVIEW),
        ":7: phases[0].on_limit: needs `on_fail`",
    ),
    "round for ever": (
        phases(*ARCHITECT, "  validators: [lint]", "  on_fail: thinking", "  on_limit: thinking"),
        ":8: phases[0].on_limit: 'thinking' must be a later phase",
    ),
    "a schema that is none": (
        phases(*ARCHITECT, "  schema:", "    type: object", "    properties:", "      days: {type: intege}"),
        ":9: phases[0].schema.properties.days.type: 'intege' is not one of ['array',",
    ),
    "a pattern that is none": (
        phases(*ARCHITECT, "  schema:", "    properties: {name: {pattern: '('}}"),
        ":7: phases[0].schema.properties.name.pattern: '(' is not a 'regex'",
    ),
    "a reference to nowhere": (
        phases(*ARCHITECT, "  schema:", "    items:", "      $ref: '#/$defs/day'"),
        ":8: phases[0].schema.items.$ref: this schema does not define '#/$defs/day'",
    ),
    "a reference out of the schema": (
        phases(*ARCHITECT, "  schema: {$ref: 'https://example.com/schema'}"),
        ":6: phases[0].schema.$ref: this schema does not define 'https://example.com/schema'",
    ),
    "a schema that is nowhere": (
        phases(*ARCHITECT, "  schema: nowhere.json"),
        ":6: phases[0].schema: nowhere.json: No such file or directory; a schema is a JSON or YAML file",
    ),
    "a schema and headings": (
        phases(*ARCHITECT, "  sections: [Risks]", "  schema: {type: object}"),
        ":6: phases[0].sections: cannot be combined with `schema`",
    ),
    "a schema of something else": (
        phases("- name: planning", "  role: planner", "  schema: {type: object}"),
        ":6: phases[0].schema: does not apply to a phase of kind agent",
    ),
    "a condition on data that are not asked for": (
        phases(*ARCHITECT, "  schema: {properties: {risky: {}}}", "  when: data.thinking.rsky"),
        "plan, plan.needs_design, document.thinking, data.thinking.risky, with or without `not`",
    ),
    "an approval that nobody could hand in anew for": (
        phases(
            "- name: a", "  kind: review", "  roles: [reviewer]", "  approval: true", "- name: b", "  role: planner"
        ),
        ":7: phases[0].approval: before the plan, only an agent phase can ask for approval",
    ),
    "two plans": (
        phases("- name: a", "  role: planner", "- name: b", "  role: planner"),
        ":6: phases[1]: two phases submit a plan",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_told_with_its_line(what: str) -> None:
    text, expected = MISTAKES[what]
    with pytest.raises(BadInput) as raised:
        parse_workflow(text, "mine.yaml")
    assert str(raised.value).startswith("mine.yaml:")
    assert expected in str(raised.value)


def test_every_mistake_is_told_in_the_order_of_the_file() -> None:
    """One that only follows from another is not: a phase whose kind is wrong has no wrong keys."""
    text = phases(
        *("- name: thinking", "  role: archtect", "  inputs: [nowhere]", "  schema: {type: intege}"),
        *("- name: looking", "  kind: reviews", "  roles: [reviewer]"),
        *("- name: reading", "  kind: review", "  roles: [revewer, reviewer]", "  on_fail: mendin", "  limt: 2"),
        *("- name: mending", "  kind: tasks", "  detour: true"),
        *("- role: planner", "- name: planning", "  role: plnner"),
    )
    with pytest.raises(BadFile) as raised:
        parse_workflow(f"shap: graph\n{text}", "mine.yaml")
    assert [(one.line, one.path) for one in raised.value.mistakes] == [
        (1, "shap"),
        (6, "phases[0].role"),
        (7, "phases[0].inputs[0]"),
        (8, "phases[0].schema.type"),
        (10, "phases[1].kind"),
        (14, "phases[2].roles[0]"),
        (15, "phases[2].on_fail"),
        (16, "phases[2].limt"),
        (19, "phases[3].detour"),
        (20, "phases[4]"),
        (22, "phases[5].role"),
    ]
    assert raised.value.lines[0] == "mine.yaml:1: shap: there is no such key; did you mean shape?"


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_comes_with_holdfast_is_sound(name: str) -> None:
    workflow = find_workflow(name)
    assert workflow.name == name
    assert workflow.about
    assert workflow == read_workflow(workflow_file(name))


def test_the_pipeline_is_the_one_that_is_promised() -> None:
    pipeline = find_workflow("pipeline")
    assert [phase.name for phase in pipeline.phases] == [
        *("product_management", "architecting", "planning", "designing"),
        *("implementing", "reviewing", "fixing", "completing"),
    ]
    assert pipeline.shape is PlanShape.GRAPH
    assert [phase.name for phase in pipeline.phases if phase.optional] == ["product_management"]
    assert pipeline.planner is not None
    assert pipeline.planner.name == "planning"
    reviewing = pipeline.phase("reviewing")
    assert reviewing is not None
    assert (reviewing.kind, reviewing.on_fail, len(reviewing.roles)) == (PhaseKind.REVIEW, "fixing", 3)


def test_an_agent_ends_with_what_its_role_hands_in() -> None:
    (phase,) = parse_workflow(phases(*ARCHITECT), "mine.yaml").phases
    assert phase.exit == "submit_document"


def test_the_example_in_the_docs_is_sound() -> None:
    page = Path(__file__).parents[2] / "docs" / "workflows.md"
    example, more = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert parse_workflow(example, "workflows.md").phases[0].sections == ("Decision", "Risks")
    assert parse_workflow(f"{HEAD}phases:\n{more}", "workflows.md").phases[1].when == "data.sizing.risky"


def test_a_schema_may_be_a_file_beside_the_workflow_and_is_the_workflows_own_from_then_on(tmp_path: Path) -> None:
    flow = tmp_path / "mine.yaml"
    flow.write_text(phases(*ARCHITECT, "  schema: days.json"))
    (tmp_path / "days.json").write_text('{\n\t"type": "object",\n\t"required": ["days"]\n}\n')
    (phase,) = read_workflow(str(flow)).phases
    assert phase.schema == {"type": "object", "required": ["days"]}
    (tmp_path / "days.json").write_text('{\n\t"type": "object",\n\t"required": "days"\n}\n')
    with pytest.raises(BadInput, match=r"days.json:3: required: 'days' is not of type 'array'"):
        read_workflow(str(flow))


def test_a_workflow_nobody_knows_is_named_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="there is no workflow 'pipline'; use solo, chat, loop, waves, pipeline"):
        find_workflow("pipline")
    with pytest.raises(BadInput, match=r"nowhere.yaml: No such file"):
        find_workflow("nowhere.yaml")


def test_the_schema_names_every_key() -> None:
    text = json.dumps(schema())
    assert all(f'"{key}"' in text for key in ("phases", "on_fail", "detour", "approval", "publish"))
