"""Whether a document is what its phase asks for, and what its agent is told when it is not."""

from typing import Any

import pytest

from holdfast.core.work.workflow import PhaseSpec
from holdfast.workflows.artifacts import document_mistakes

SCHEMA = {
    "type": "object",
    "required": ["items"],
    "additionalProperties": False,
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "risky": {"type": "boolean"},
    },
    "$defs": {"item": {"type": "object", "properties": {"days": {"type": "integer"}, "day": {"type": "string"}}}},
}
ROWS: dict[str, tuple[str, list[str]]] = {
    "YAML that fits": ("items:\n- days: 3\n- {day: 2026-01-02}\nrisky: true\n", []),
    "JSON that fits, with tabs": ('{\n\t"items": [\n\t\t{"days": 3}\n\t]\n}', []),
    "a value of another type": (
        "items:\n- days: 3\n- days: some\n",
        ["line 3, items[1].days: 'some' is not of type 'integer'"],
    ),
    "several things at once": (
        "risky: perhaps\nmore: 1\n",
        [
            "line 1: 'items' is a required property",
            "line 1: Additional properties are not allowed ('more' was unexpected)",
            "line 1, risky: 'perhaps' is not of type 'boolean'",
        ],
    ),
    "prose": ("# Days\n", ["line 1: None is not of type 'object'"]),
    "neither YAML nor JSON": ("items: [\n", ["line 2: not YAML: did not find expected node content"]),
    "too many to tell": (
        f"items: [{', '.join(['1'] * 12)}]\n",
        [*(f"line 1, items[{number}]: 1 is not of type 'object'" for number in range(10)), "and 2 more"],
    ),
}


def asking(**more: Any) -> PhaseSpec:
    return PhaseSpec(name="p", role="architect", **more)


@pytest.mark.parametrize("what", ROWS)
def test_data_that_do_not_fit_are_told_by_line_and_place(what: str) -> None:
    text, expected = ROWS[what]
    found = document_mistakes(text, asking(schema=SCHEMA))
    assert sorted(found) == sorted(expected)


def test_prose_has_the_headings_that_are_asked_for() -> None:
    spec = asking(sections=("Risks", "Tests"))
    assert document_mistakes("# Shape\n\n## risks ##\n", spec) == ["the heading 'Tests' is missing"]
    assert document_mistakes("# Risks\n## Tests\n", spec) == []
