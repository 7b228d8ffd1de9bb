"""Whether an agent can start here: its programs, Node.js, its login, its model."""

import os
from pathlib import Path

import msgspec
import pytest

from holdfast.agents.launch import Runtime
from holdfast.agents.readiness import find_login, node_of, start_problem
from holdfast.agents.registry import BUILT_IN, AgentDefinition, find_agent

NODE_SCRIPT = "#!/usr/bin/env node\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, and a home without logins."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in list(os.environ):
        if name.endswith(("_KEY", "_TOKEN", "_HOME", "_MODEL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def install(folder: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def install_node(folder: Path, version: str) -> None:
    install(folder, "node", f"#!/bin/sh\necho v{version}\n")


def test_missing_program_comes_with_its_install_command(programs: Path) -> None:
    problem = start_problem(BUILT_IN["kimi"])
    assert problem == "kimi is not installed; install it with: npm install -g @moonshot-ai/kimi-code"


def test_second_program_of_an_agent_is_needed_too(programs: Path) -> None:
    install(programs, "pi-acp")
    problem = start_problem(BUILT_IN["pi"])
    assert problem is not None
    assert problem.startswith("pi-acp needs pi, which is not installed; install it with: npm install -g pi-acp ")
    install(programs, "pi")
    assert start_problem(BUILT_IN["pi"]) is None


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("20.20.2", "kimi needs Node.js 22.19 or newer, and node is 20.20.2; update it with: npm install -g node@24"),
        ("22.18.0", "kimi needs Node.js 22.19 or newer, and node is 22.18.0; update it with: npm install -g node@24"),
        ("22.19.0", None),
        ("24.1.0", None),
    ],
)
def test_node_is_compared_with_what_the_agent_needs(programs: Path, version: str, problem: str | None) -> None:
    install(programs, "kimi", NODE_SCRIPT)
    install_node(programs, version)
    assert start_problem(BUILT_IN["kimi"]) == problem


def test_node_that_is_missing_is_named(programs: Path) -> None:
    install(programs, "kimi", NODE_SCRIPT)
    problem = start_problem(BUILT_IN["kimi"])
    assert problem == "kimi needs Node.js 22.19 or newer, and there is no node on PATH; install Node.js"


def test_program_that_is_no_script_of_node_needs_none(programs: Path) -> None:
    """As the native builds of some agents are, and wrappers that bring their own."""
    install(programs, "kimi")
    install_node(programs, "12.0.0")
    assert start_problem(BUILT_IN["kimi"]) is None
    assert node_of(str(programs / "no such program")) is None


def test_agent_in_a_container_is_not_looked_for_here(programs: Path) -> None:
    contained = msgspec.structs.replace(BUILT_IN["kimi"], runtime=Runtime(kind="container", image="x"))
    assert start_problem(contained) is None


def test_sandbox_without_bubblewrap_is_a_problem(programs: Path) -> None:
    install(programs, "goose")
    problem = start_problem(msgspec.structs.replace(BUILT_IN["goose"], runtime=Runtime(kind="sandbox")))
    assert problem is not None
    assert "apt install bubblewrap" in problem


def test_builtin_says_what_it_lacks(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert start_problem(find_agent("builtin")) == (
        "builtin: no model: give --model PROVIDER:NAME or set HOLDFAST_MODEL"
    )
    assert "set ANTHROPIC_API_KEY, or name an endpoint" in str(start_problem(find_agent("builtin"), "anthropic:claude"))
    assert "is no model; give PROVIDER:NAME" in str(start_problem(find_agent("builtin"), "claude"))
    assert start_problem(find_agent("builtin --base-url http://127.0.0.1:1"), "openai:x") is None
    monkeypatch.setenv("HOLDFAST_MODEL", "openai:x")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert start_problem(find_agent("builtin")) is None
    other = msgspec.structs.replace(find_agent("builtin"), secrets=())
    assert "[agents.builtin] secrets" in str(start_problem(other))


def test_playbook_is_read_before_it_plays(programs: Path, tmp_path: Path) -> None:
    assert "No such file" in str(start_problem(find_agent(f"playbook:{tmp_path}/none.yaml")))
    (tmp_path / "bad.yaml").write_text("turn: []\n")
    assert "bad.yaml:1" in str(start_problem(find_agent(f"playbook:{tmp_path}/bad.yaml")))


def test_login_is_a_key_or_a_file(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codex = BUILT_IN["codex"]
    assert find_login(codex) is None
    file = tmp_path / "home" / ".codex" / "auth.json"
    file.parent.mkdir(parents=True)
    file.touch()
    assert str(find_login(codex)) == "login in ~/.codex/auth.json"
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "other"))
    assert find_login(codex) is None
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert str(find_login(codex)) == "key in OPENAI_API_KEY"


def test_every_known_agent_says_how_to_install_it_and_to_log_in() -> None:
    for name, entry in BUILT_IN.items():
        assert entry.install, name
        assert entry.secrets, name
        assert entry.model_variable or (entry.login_command and entry.login_files), name
    assert AgentDefinition(command=("x",)).node == ()
