"""Settings: what is taken, what is told of a mistake, and that what is told to others is the same."""

import tomllib
from datetime import date
from typing import Any

import jsonschema
import msgspec
import pytest

from holdfast.core.config.settings import Caps, Settings, Validator
from holdfast.core.config.settings_docs import NAME_PLACEHOLDER, example_file, settings_schema, table_docs, to_toml
from holdfast.core.config.toml_lines import format_toml_path
from holdfast.core.config.validation import InvalidValue, validate_value
from holdfast.core.conversation.permission import PermissionDecision, Rule


def settings(text: str) -> Settings:
    return msgspec.convert(validate_value(tomllib.loads(text), Settings, require_all=True), Settings)


def test_nothing_has_to_be_set() -> None:
    assert settings("") == Settings()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('caps.wall_clock = "1h30m"', Settings(caps=Caps(wall_clock=5400))),
        ("caps.wall_clock = 90", Settings(caps=Caps(wall_clock=90))),
        ("caps.dollars = 20", Settings(caps=Caps(dollars=20))),
    ],
)
def test_what_may_be_written_in_two_ways_means_the_same(text: str, expected: Settings) -> None:
    assert settings(text) == expected


@pytest.mark.parametrize("command", ["\"npm run 'all tests'\"", '["npm", "run", "all tests"]'])
def test_a_command_is_words(command: str) -> None:
    assert settings(f"hooks.notify = [{command}]").hooks.notify == (("npm", "run", "all tests"),)
    found = settings(f"validators.commands.test.command = {command}").validators.commands
    assert found == {"test": Validator(command=("npm", "run", "all tests"))}
    assert settings(f"agents.mine.command = {command}").agents["mine"].command == ("npm", "run", "all tests")


def test_rules_are_rules() -> None:
    found = settings('[[permissions.rules]]\nthen = "deny"\npath = "src/*"\n').permissions
    assert found.rules == (Rule(then=PermissionDecision.DENY, path="src/*"),)


MISTAKES = [
    ("turns = 3", "turns", "there is no such key; use one of agent, model, workflow, "),
    ("paralel = 3", "paralel", "there is no such key; did you mean parallel?"),
    ("[caps]\niteration = 3", "caps.iteration", "there is no such key; did you mean iterations?"),
    ("[roles.coder]\nmodle = 'x'", "roles.coder.modle", "there is no such key; did you mean model?"),
    ("agents.'a b'.comand = 'x'", 'agents."a b".comand', "there is no such key; did you mean command?"),
    ("permissions.rules = [{then = 'ask', tol = 'x'}]", "permissions.rules[0].tol", "did you mean tool?"),
    ("permissions.rules = [{tool = 'x'}]", "permissions.rules[0]", "the key 'then' is missing"),
    ("[validators.commands.x]", "validators.commands.x", "the key 'command' is missing"),
    ("parallel = 'two'", "parallel", "expected a whole number, got text"),
    ("parallel = 2.0", "parallel", "expected a whole number, got a number"),
    ("parallel = true", "parallel", "expected a whole number, got true or false"),
    ("parallel = 0", "parallel", "expected a whole number >= 1"),
    ("parallel = 9_000_000_000_000_000_000", "parallel", "expected a whole number <= 1000000000"),
    ("agent = ['x']", "agent", "expected text, got a list"),
    ("agent = 1979-05-27", "agent", "expected text, got a date"),
    ("agent = 07:32:00", "agent", "expected text, got a time of day"),
    ("caps = 3", "caps", "expected a table, got a whole number"),
    ("[[caps]]", "caps", "expected a table, got a list"),
    ("roles = ['x']", "roles", "expected a table, got a list"),
    ("roles.coder = 'codex'", "roles.coder", "expected a table, got text"),
    ("roles.coder.model = 3", "roles.coder.model", "expected text, got a whole number"),
    ("permissions.rules = {}", "permissions.rules", "expected a list, got a table"),
    ("permissions.policy = 'alow-all'", "permissions.policy", "'alow-all' is not allowed; did you mean allow-all?"),
    ("permissions.policy = 7", "permissions.policy", "7 is not allowed; use one of ask, allow-reads, "),
    ("runtime.kind = 'docker'", "runtime.kind", "'docker' is not allowed; use one of local, sandbox, container"),
    ("roles.x.runtime.kind = 1", "roles.x.runtime.kind", "1 is not allowed; use one of local, sandbox, container"),
    ("after_interruption = 'x'", "after_interruption", "'x' is not allowed; use one of continue, retry, ask"),
    ("caps.wall_clock = '5 minutes'", "caps.wall_clock", "'5 minutes' is not a duration; write 90m, "),
    ("caps.wall_clock = []", "caps.wall_clock", "expected a duration such as 90m or a number of seconds, got a list"),
    ("validators.timeout = true", "validators.timeout", "expected a duration such as 90m or a number of seconds, got"),
    ("validators.timeout = -1", "validators.timeout", "expected a number >= 0"),
    ("validators.timeout = inf", "validators.timeout", "inf is not a finite number"),
    ("caps.dollars = nan", "caps.dollars", "nan is not a finite number"),
    ("hooks.notify = 'x'", "hooks.notify", "expected a list, got text"),
    ("hooks.notify = ['']", "hooks.notify[0]", "a command has at least the name of its program"),
    ("hooks.notify = [[]]", "hooks.notify[0]", "a command has at least the name of its program"),
    ("hooks.notify = ['x \"y']", "hooks.notify[0]", "not a command: no closing quotation"),
    ("hooks.notify = [['x', 1]]", "hooks.notify[0][1]", "expected text, got a whole number"),
    ("agents.a.environment.B = 1", "agents.a.environment.B", "expected text, got a whole number"),
    ("resume.on_issue = ''", "resume.on_issue", "expected text of length >= 1"),
]


@pytest.mark.parametrize(("text", "where", "what"), MISTAKES, ids=[where + text[:3] for text, where, _ in MISTAKES])
def test_a_mistake_is_named_by_its_path(text: str, where: str, what: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        settings(text)
    assert format_toml_path(raised.value.path) == where
    assert what in raised.value.problem


def test_what_is_required_may_come_from_another_layer() -> None:
    table = {"validators": {"commands": {"x": {"timeout": "5s"}}}}
    assert validate_value(table, Settings, require_all=False) == {"validators": {"commands": {"x": {"timeout": 5.0}}}}


@pytest.mark.parametrize("value", [date(2026, 1, 1), None, object()])
def test_whatever_a_flag_holds_is_a_mistake_and_no_crash(value: Any) -> None:
    with pytest.raises(InvalidValue):
        validate_value({"caps": {"iterations": value}}, Settings, require_all=False)


# --- what is told to others ---------------------------------------------------------------------------


def uncommented() -> str:
    lines = example_file().splitlines()
    return "\n".join(line.removeprefix("# ") for line in lines if not line.startswith("##"))


def test_the_example_says_nothing_until_it_is_uncommented() -> None:
    assert tomllib.loads(example_file()) == {}


def test_the_uncommented_example_is_good_and_has_every_key() -> None:
    document = tomllib.loads(uncommented())
    settings(uncommented())
    for table in table_docs():
        held: Any = document
        for part in table.name.split(".") if table.name else ():
            held = held["example" if part == NAME_PLACEHOLDER else part]
        assert {key.name for key in table.keys} <= held.keys(), table.name


def accepts(document: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(settings_schema()).is_valid(document))


def test_the_schema_accepts_the_example() -> None:
    assert accepts(tomllib.loads(uncommented()))


# TOML's own kinds, and what no schema says: JSON has no dates, 2.0 is a whole number, and quotes are not looked into.
BEYOND = ("1979", "07:32", "2.0", "inf", "nan", '"y')


@pytest.mark.parametrize("text", [text for text, _, _ in MISTAKES if not any(part in text for part in BEYOND)])
def test_the_schema_rejects_what_we_reject(text: str) -> None:
    assert not accepts(tomllib.loads(text))


def test_what_is_written_is_read_as_the_same() -> None:
    value = {"roles": {"a b": {"runtime": {"writable": ["x", 'y"\n']}}}, "caps": {"wall_clock": 5400.0}}
    text = to_toml(value, Settings)
    assert '"1h30m"' in text
    assert validate_value(tomllib.loads(f"all = {text}")["all"], Settings, require_all=True) == value


def test_every_key_is_explained() -> None:
    for table in table_docs():
        assert table.about.endswith(".")
        for key in table.keys:
            assert key.about, f"{table.name}.{key.name}"
            assert key.example != "None", f"{table.name}.{key.name}"
