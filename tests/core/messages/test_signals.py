"""What agents report: each role its tools, a schema for each, and words an agent understands for what does not fit."""

from typing import Any

import jsonschema
import msgspec
import pytest

from holdfast.core.messages.signals import ROLES, Signal, read_signal, schema_of, signals_for_role
from holdfast.leaf.errors import BadInput
from tests.support.signals import RIGHT

_TASK = {"id": "a", "title": "First", "acceptance_criteria": ["works"]}
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    "submit_case": [
        ({}, "missing required field `summary`"),
        ({"summary": "s", "criteria": []}, "criteria is empty"),
        ({"summary": "s", "criteria": [{"criterion": "c", "met": "yes", "evidence": "e"}]}, "at criteria[0].met: "),
        ({"summary": "", "criteria": []}, "at summary: "),
    ],
    "submit_verdict": [
        ({"accept": False}, "a rejection needs category, concern, evidence, next_step"),
        ({"accept": False, "category": "meh"}, "at category: Invalid enum value 'meh'"),
        ({"accept": 1}, "at accept: "),
    ],
    "submit_plan": [
        ({"tasks": []}, "tasks is empty"),
        ({"tasks": [{"id": "a", "title": "A", "depends_on": ["b"]}]}, "'b'"),
        ({"tasks": [{"id": "a", "title": "A"}, {"id": "a", "title": "B"}]}, "'a'"),
        (
            {"tasks": [{"id": "a", "title": "A", "depends_on": ["b"]}, {"id": "b", "title": "B", "depends_on": ["a"]}]},
            "has a cycle",
        ),
    ],
    "submit_review": [({"passed": False, "summary": "s"}, "needs findings")],
    "submit_document": [({"title": "t", "text": ""}, "at text: ")],
    "submit_done": [({"summary": "s", "mood": "good"}, "unknown field `mood`")],
    "request_research": [({"topic": "t" * 201, "question": "q"}, "at topic: ")],
    "submit_research": [({"topic": "t"}, "missing required field `answer`")],
    "report_blocker": [({"reason": None}, "at reason: ")],
    "report_progress": [({"text": "x" * 501}, "at text: ")],
    "submit_tasks": [
        ({"overview": "o", "tasks": []}, "tasks is empty"),
        ({"overview": "o", "tasks": [_TASK | {"acceptance_criteria": []}]}, "a: acceptance_criteria is empty"),
        ({"overview": "o", "tasks": [_TASK], "seeds": ["../x.py"]}, "'../x.py' is no path in your worktree"),
        ({"overview": "o", "tasks": [_TASK], "seeds": [".git/hooks/x"]}, "'.git/hooks/x' is no path in your worktree"),
        ({"overview": "o", "tasks": [_TASK | {"depends_on": ["a"]}]}, "the plan has a cycle"),
    ],
}

TOOLS = sorted({kind for kinds in ROLES.values() for kind in kinds}, key=lambda kind: kind.tool)


def role_with(tool: str) -> str:
    return next(role for role, kinds in ROLES.items() if tool in [kind.tool for kind in kinds])


@pytest.mark.parametrize("kind", TOOLS, ids=lambda kind: kind.tool)
def test_a_schema_takes_what_the_tool_takes(kind: type[Signal]) -> None:
    schema = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(RIGHT[kind.tool], schema)
    assert schema["type"] == "object"
    assert not schema.get("additionalProperties", True)
    assert kind.about


@pytest.mark.parametrize("kind", TOOLS, ids=lambda kind: kind.tool)
def test_a_signal_comes_back_from_json_as_it_was(kind: type[Signal]) -> None:
    signal = read_signal(role_with(kind.tool), kind.tool, RIGHT[kind.tool])
    assert msgspec.json.decode(msgspec.json.encode(signal), type=kind) == signal


@pytest.mark.parametrize(("tool", "arguments", "what"), [(tool, *one) for tool, some in WRONG.items() for one in some])
def test_what_does_not_fit_is_said_in_words(tool: str, arguments: dict[str, Any], what: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_signal(role_with(tool), tool, arguments)
    assert what in str(caught.value)
    assert "$" not in str(caught.value)


def test_every_tool_has_a_right_and_a_wrong_example() -> None:
    assert {kind.tool for kind in TOOLS} == set(RIGHT) == set(WRONG)


def test_a_tool_of_another_role_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(BadInput, match="a evaluator has no tool 'submit_case'; its tools are submit_verdict"):
        read_signal("evaluator", "submit_case", RIGHT["submit_case"])


def test_a_role_with_a_flavour_is_that_role_and_an_unknown_one_is_any_agent() -> None:
    assert signals_for_role("reviewer:logic") == ROLES["reviewer"]
    assert signals_for_role("juggler") == ROLES["agent"]
