"""The format: wrong scripts, the schema, and the documentation, whose examples are played."""

import json
import os
import re
import subprocess
import sys
from importlib import resources
from typing import Any

import acp
import jsonschema
import pytest

from holdfast.agents.playbook.format import Step, schema
from holdfast.agents.playbook.reader import parse_playbook
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import read_yaml
from tests.agents.playbook.driver import Stagehand, allow

_DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "playbook.md")


def examples() -> list[str]:
    with open(_DOCS, encoding="utf-8") as file:
        return re.findall(r"^```yaml\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)


WRONG = [
    ("", "p:1: empty; a playbook has turns, otherwise, playbook, agent, sessions, start"),
    ("turns: 3", "p:1: turns: expected a list, got a whole number"),
    (
        "turns:\n - steps:\n    - sya: x",
        "p:3: turns[0].steps[0].sya: there is no such key; allowed here: answer, append",
    ),
    ("turns:\n - - say: {txt: x}", "p:2: turns[0][0].say.txt: there is no such key; allowed here: chunk, delay, text"),
    ("turns:\n - - say: 3", "p:2: turns[0][0].say: expected text or a mapping, got a whole number"),
    (
        "turns:\n - - say: x\n     think: y",
        "p:2: turns[0][0]: a step is a mapping with one key; this one has say, think",
    ),
    ("turns:\n - - {}", "p:2: turns[0][0]: a step is a mapping with one key; allowed: answer"),
    ("turns:\n - - mcp: {}", "p:2: turns[0][0].mcp: the key 'tool' is missing"),
    ("turns:\n - - crash: {code: 300}", "p:2: turns[0][0].crash.code: expected a whole number <= 255"),
    ("turns:\n - - end: stop", "p:2: turns[0][0].end: 'stop' is not allowed; allowed: cancelled, end_turn"),
    ("agent:\n  load: wrks", "p:2: agent.load: 'wrks' is not allowed; allowed: absent, dies, gone"),
    ("agent:\n  modes: {current: x, available: [a, b]}", "p:2: agent.modes.current: 'x' is not among the available"),
    ("agent:\n  config:\n  - {id: a, current: x}", "p:3: agent.config[0].current: without `available`"),
    ("turns:\n - when: '('\n   steps: []", "p:2: turns[0].when: not a regular expression: missing )"),
    ("turns:\n - - say: '{{promt}}'", "p:2: turns[0][0].say: there is no variable {{promt}}; allowed: prompt, cwd"),
    ("start:\n - say: x", "p:2: start[0].say: not possible before there is a session; allowed: crash"),
    ("turns: []\nturns: []", "p:2: duplicate key 'turns'"),
    ("turns: &a [*a]", "p:1: an alias that contains itself"),
    ("turns: [", "p:2: not YAML: "),
    ("a: b: c", "p:1: not YAML: mapping values are not allowed"),
    ("1: 2", "p:1: a key here must be text"),
    ("- a", "p:1: expected a mapping, got a list"),
    ("\x01", "p:1: not YAML: "),
    ("turns: []\n---\nturns: []", "p:2: not YAML: "),
    ('{"turns": [],\n "turns": []}', "p:2: duplicate key 'turns'"),
    ('{"turns":\n [[{"say": "{{promt}}"}]]}', "p:2: turns[0][0].say: there is no variable {{promt}}"),
    ('{"start":\n [{"say": "x"}]}', "p:2: start[0].say: not possible before there is a session"),
    ('{"turns": [[{"sleep": NaN}]]}', "p:1: turns[0][0].sleep: expected a number"),
    ('{"turns": [[{"say": "\\ud800"}]]}', "p:1: not YAML: "),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_wrong_script_is_one_line_with_place_fault_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(BadInput) as wrong:
        parse_playbook(text, "p")
    assert str(wrong.value).startswith(said)
    assert "\n" not in str(wrong.value)


def test_aliases_that_multiply_beyond_measure_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(BadInput, match="more than"):
        parse_playbook("\n".join(lines), "p")


def test_yaml_is_version_1_2_so_no_and_on_and_dates_are_text() -> None:
    book = parse_playbook("turns: [[say: no, say: on, say: 2026-01-01, say: 12:30, sleep: 1]]", "p")
    assert isinstance(book.turns[0], list)
    assert [getattr(step, step.key) for step in book.turns[0]] == ["no", "on", "2026-01-01", "12:30", 1]


def test_a_playbook_in_json_is_the_same_as_in_yaml() -> None:
    turns: list[dict[str, Any]] = [
        {"when": "a", "steps": [{"say": {"text": "é ☃ \U0001f600\t{{prompt}}", "delay": 0.5}}, {"end": "refusal"}]}
    ]
    plain = json.dumps({"turns": turns}, ensure_ascii=False, indent=1)
    parsed = parse_playbook(plain, "p")
    assert parsed == parse_playbook(json.dumps({"turns": turns}), "p")
    assert parsed == parse_playbook(f"# YAML\n{plain}", "p")


def test_the_shipped_schema_is_the_formats_own() -> None:
    shipped = resources.files("holdfast.agents.playbook").joinpath("schema.json").read_text("utf-8")
    assert json.loads(shipped) == schema(), "holdfast agent playbook --schema > …/schema.json"


_BEYOND_THE_SCHEMA = (
    "not a regular",
    "no variable",
    "not possible before",
    "duplicate key",
    "among",
    "without `available`",
    "not YAML",
)


def _schema_accepts(text: str) -> bool:
    found = read_yaml(text, "p").value
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(found))


@pytest.mark.parametrize("text", examples())
def test_the_schema_accepts_the_examples_of_the_documentation(text: str) -> None:
    parse_playbook(text, "docs/playbook.md")
    assert _schema_accepts(text)


@pytest.mark.parametrize(
    "text",
    [text for text, said in WRONG if not any(word in said for word in (*_BEYOND_THE_SCHEMA, "itself", "key here"))],
)
def test_the_schema_rejects_what_the_validator_rejects(text: str) -> None:
    assert not _schema_accepts(text)


def test_the_documentation_names_every_step() -> None:
    with open(_DOCS, encoding="utf-8") as file:
        documented = set(re.findall(r"`([a-z_]+)`", file.read()))
    assert set(Step.__struct_fields__) <= documented


@pytest.mark.parametrize("text", examples())
async def test_the_examples_of_the_documentation_are_played(stage: Stagehand, text: str) -> None:
    agent = await stage.play(text)
    agent.client.answers = [allow("allow_once")]
    for turn in parse_playbook(text, "p").turns:
        steps = turn if isinstance(turn, list) else turn.steps
        keys = {step.key for step in steps}
        if keys & {"crash", "hang", "mcp"}:  # each has its own tests
            break
        if "error" in keys:
            with pytest.raises(acp.RequestError):
                await agent.prompt("go")
        else:
            await agent.prompt("go")
    assert agent.frames


async def test_the_first_example_of_the_documentation_survives_its_crash(stage: Stagehand) -> None:
    text = examples()[0]
    agent = await stage.play(text)
    await agent.prompt("Ann")
    assert agent.text == "I write the greeting for: AnnIt says hello\n"
    with pytest.raises(ConnectionError):
        await agent.prompt("more")
    again = await stage.start(text)
    await again.resume(agent.session, stage.cwd)
    await again.prompt("go on")
    assert again.text.endswith('I am back, and I know what you said:I remember: ["Ann","more"]')


def _holdfast(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_the_command_checks_a_script_and_explains_itself(tmp_path: os.PathLike[str]) -> None:
    good, bad = os.path.join(tmp_path, "good.yaml"), os.path.join(tmp_path, "bad.yaml")
    for path, text in ((good, "turns: [[say: hi]]"), (bad, "turns:\n - - sya: hi")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    assert "1 turn" in _holdfast("agent", "playbook", "--check", good).stdout
    assert json.loads(_holdfast("agent", "playbook", "--check", good, "--json").stdout)["turns"] == 1
    wrong = _holdfast("agent", "playbook", bad)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert wrong.stderr.startswith(f"holdfast: {bad}:2: ")
    assert _holdfast("agent", "playbook").returncode == 2
    assert _holdfast("agent", "nobody").returncode == 2
    assert "no such file" in _holdfast("agent", "playbook", "nowhere.yaml").stderr.lower()
    assert json.loads(_holdfast("agent", "playbook", "--schema").stdout) == schema()


@pytest.mark.parametrize("module", ["holdfast.engine.commands.programs.playbook", "holdfast.engine.session.session"])
def test_neither_agent_nor_runner_loads_a_protocol_sdk(module: str) -> None:
    code = f"import sys, {module}; print({{'acp', 'mcp', 'pydantic'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
