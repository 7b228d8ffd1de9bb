"""Facts of the registry: who can be started, and which secrets they get."""

import os
import re
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.agents.environment import without_secrets
from holdfast.agents.registry import (
    BUILT_IN,
    AgentDefinition,
    environment_for,
    find_agent,
    install_advice,
    known_agents,
    withheld_secrets,
)
from holdfast.leaf.errors import BadInput


def test_a_known_agent_is_found_by_its_name() -> None:
    assert find_agent("claude").command == ("claude-agent-acp",)


def test_words_after_a_name_go_to_its_command() -> None:
    assert find_agent("gemini -m flash").command == ("gemini", "--acp", "-m", "flash")


def test_a_playbook_is_an_agent() -> None:
    entry = find_agent("playbook:my plays/a.yaml")
    assert entry.command[:4] == (sys.executable, "-P", "-m", "holdfast")
    assert entry.command[-1] == os.path.abspath("my plays/a.yaml")
    assert entry.is_installed()


@pytest.mark.parametrize("name", ["", "  ", "nobody", "playbook", "playbook:"])
def test_an_unknown_agent_is_told_of_with_those_that_there_are(name: str) -> None:
    with pytest.raises(BadInput, match="claude"):
        find_agent(name)


def test_the_users_own_agents_come_before_ours() -> None:
    own = {"claude": AgentDefinition(command=("my-claude",)), "mine": AgentDefinition(command=("mine",))}
    assert find_agent("claude", own).command == ("my-claude",)
    assert find_agent("mine --fast", own).command == ("mine", "--fast")
    assert [name for name, _ in known_agents(own)] == sorted({*BUILT_IN, "mine"})


def test_an_agent_gets_only_the_secrets_that_it_names_and_its_own_settings() -> None:
    entry = AgentDefinition(command=("x",), secrets=("A_KEY", "B_KEY"), environment={"MODEL": "small"})
    assert environment_for(entry, {"A_KEY": "a", "C_KEY": "c", "HOME": "/"}) == {"A_KEY": "a", "MODEL": "small"}


def test_every_secret_that_some_agent_names_is_kept_from_the_others() -> None:
    named = {name: "value" for entry in BUILT_IN.values() for name in entry.secrets}
    assert without_secrets(named) == {}


def test_agents_get_every_key_that_the_docs_tell_users_to_set() -> None:
    rows = re.findall(r"^\| (\w+) \| `[^`]+` \|(.*)$", Path("docs/agents.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = {agent: re.findall(r"`([A-Z_]+_(?:KEY|TOKEN))`", cells) for agent, cells in rows}
    assert told["kimi"], "the table is read"
    for agent, names in told.items():
        assert set(names) <= set(BUILT_IN[agent].secrets)


def test_withheld_are_all_secrets_but_those_of_the_entry() -> None:
    entry = AgentDefinition(command=("x",), secrets=("A_KEY",), environment={"B_KEY": "own"})
    ours = {"A_KEY": "a", "B_KEY": "b", "C_KEY": "c", "EMPTY_KEY": "", "HOME": "/", "MAX_TOKENS": "5"}
    assert withheld_secrets(entry, ours) == ["C_KEY"]


def test_what_any_program_needs_is_no_secret() -> None:
    plain = dict.fromkeys(("PATH", "HOME", "LANG", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "TERM"), "x")
    assert without_secrets(plain) == plain


def test_a_missing_program_is_told_of_with_the_way_to_install_it() -> None:
    entry = AgentDefinition(command=("no-such-program",), install="npm install it")
    assert not entry.is_installed()
    assert install_advice(entry) == "no-such-program is not installed; install it with: npm install it"


@pytest.mark.parametrize("wrong", [b'{"command": []}', b'{"command": ["x"], "colour": "red"}', b"{}"])
def test_an_entry_that_cannot_be_started_is_refused(wrong: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=AgentDefinition)
