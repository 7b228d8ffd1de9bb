"""The agents there are, and what each is measured to do: by talking to it, killing it, and asking what it remembers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.agents.matrix import AgentMeasurement, proven_abilities, save_measurement
from holdfast.engine.home import Home
from tests.cli.program import Program

REMEMBERS: list[dict[str, Any]] = [{"when": "Which word", "steps": [{"echo_memory": True}]}]
OK = [{"say": "OK"}]


@pytest.fixture
def agent(holdfast: Program) -> str:
    return f"playbook:{holdfast.cwd}/book.yaml"


def play(holdfast: Program, book: dict[str, Any]) -> None:
    (Path(holdfast.cwd) / "book.yaml").write_text(json.dumps({"turns": REMEMBERS, "otherwise": OK, **book}))


def probe(holdfast: Program, agent: str, *more: str, code: int = 0, cold: bool = False) -> Any:
    return holdfast("agents", "probe", agent, *more, code=code, cold=cold, env=_memory(holdfast))


def _memory(holdfast: Program) -> dict[str, str]:
    return {"HOLDFAST_PLAYBOOK_STATE": os.path.join(holdfast.cwd, "memory")}


@pytest.mark.parametrize(
    ("can", "showed", "told"),
    [
        ({"load": "works", "resume": "works"}, {"load": True, "resume": True}, "resume works, load works"),
        ({"load": "starts_new", "resume": "absent"}, {"load": False}, "resume not offered, load fails"),
        ({"load": "absent", "resume": "starts_new"}, {"resume": False}, "resume fails, load not offered"),
        (
            {"load": "gone", "resume": {"how": "absent", "advertised": True}},
            {"load": False, "resume": False},
            "resume fails, load fails",
        ),
        ({"load": "absent", "resume": "absent"}, {}, "resume not offered, load not offered"),
    ],
)
def test_a_probe_finds_out_what_is_true_and_the_ladder_is_told(
    holdfast: Program, agent: str, can: dict[str, Any], showed: dict[str, bool], told: str
) -> None:
    play(holdfast, {"agent": {"name": "player", "version": "7", **can}})
    outcome = probe(holdfast, agent)
    assert outcome.out == f"{told}, reports no cost\n"
    assert "player 7 answered in" in outcome.err
    assert proven_abilities(Home(holdfast.home)) == {agent: showed}


@pytest.mark.parametrize("cost", [None, 0.0, 0.25])
def test_a_probe_finds_out_whether_an_agent_tells_its_cost(holdfast: Program, agent: str, cost: float | None) -> None:
    told = {"usage": {"used": 10, "size": 100, **({"cost": cost} if cost is not None else {})}}
    play(holdfast, {"agent": {"load": "absent", "resume": "absent"}, "otherwise": [told, {"say": "OK"}]})
    row = probe(holdfast, agent, "--json").object
    assert (row["turn"], row["cost"]) == (True, cost is not None)


def test_an_agent_that_never_saves_is_seen_to_forget(holdfast: Program, agent: str) -> None:
    play(holdfast, {"agent": {"load": "works", "resume": "works"}, "sessions": {"save": "never"}})
    row = probe(holdfast, agent, "--json").object
    assert (row["turn"], row["load"], row["resume"]) == (True, False, False)
    assert row["unknown_session"] == "-32002"
    assert any("session/load" in note for note in row["notes"])


def test_a_probe_tells_how_much_was_replayed(holdfast: Program, agent: str) -> None:
    play(holdfast, {"agent": {"load": "works", "resume": "absent"}})
    row = probe(holdfast, agent, "--json").object
    assert row["replayed"] == 2
    assert row["agent"] == agent


@pytest.mark.parametrize(("saved", "knows"), [("step", "all"), ("turn", "earlier turns")])
def test_a_probe_tells_what_is_left_of_a_turn_in_which_it_was_killed(
    holdfast: Program, agent: str, saved: str, knows: str
) -> None:
    cut = {"when": "word too", "steps": [{"say": "Once upon"}, {"hang": "deaf"}]}
    book = {"agent": {"resume": "absent"}, "sessions": {"save": saved, "interrupted": "next"}}
    play(holdfast, {**book, "turns": [cut, *REMEMBERS]})
    row = probe(holdfast, agent, "--json").object
    assert row["after_cut"] == knows
    assert row["notes"] == []


def test_a_probe_of_an_agent_that_cannot_come_back_cuts_off_no_turn(holdfast: Program, agent: str) -> None:
    play(holdfast, {"agent": {"load": "gone", "resume": "absent"}})
    row = probe(holdfast, agent, "--json").object
    assert (row["turn"], row["load"], row["after_cut"]) == (True, False, None)


@pytest.mark.parametrize(
    ("can", "showed"),
    [
        ({"fork": "works", "list": "works"}, (True, True)),
        ({"fork": "refuses", "list": "refuses"}, (False, False)),
        ({"fork": "absent", "list": "absent"}, (None, None)),
    ],
)
def test_a_probe_forks_and_lists_where_that_is_offered(
    holdfast: Program, agent: str, can: dict[str, Any], showed: tuple[bool | None, bool | None]
) -> None:
    play(holdfast, {"agent": {"resume": "absent", **can}})
    row = probe(holdfast, agent, "--json").object
    assert (row["fork"], row["sessions"]) == showed
    assert row["memory_mb"] > 0


def test_an_agent_that_dies_in_its_turn_has_no_turn_that_worked(holdfast: Program, agent: str) -> None:
    play(holdfast, {"agent": {"load": "works", "resume": "absent"}, "otherwise": [{"crash": "kill"}]})
    outcome = probe(holdfast, agent)
    assert outcome.out == "no turn worked\n"
    assert "a turn: the agent died in session/prompt: it was killed by SIGKILL" in outcome.err
    assert proven_abilities(Home(holdfast.home)) == {agent: {}}


def test_an_agent_that_dies_at_once_is_one_clear_line_and_nothing_is_kept(holdfast: Program, agent: str) -> None:
    play(holdfast, {"start": [{"crash": {"how": "exit", "code": 3}}]})
    outcome = probe(holdfast, agent, code=1, cold=True)
    assert outcome.complaint == "the agent died in initialize: it exited with code 3"
    assert proven_abilities(Home(holdfast.home)) == {}


def test_a_probe_replaces_the_row_of_its_agent_and_keeps_the_others(holdfast: Program, agent: str) -> None:
    save_measurement(
        Home(holdfast.home), AgentMeasurement(agent="codex", when="2026-02-14T10:00:00.000Z", turn=True, load=True)
    )
    save_measurement(
        Home(holdfast.home),
        AgentMeasurement(agent=agent, when="2026-02-14T10:00:00.000Z", turn=True, load=True, resume=True),
    )
    play(holdfast, {"agent": {"load": "gone", "resume": "absent"}})
    probe(holdfast, agent)
    assert proven_abilities(Home(holdfast.home)) == {agent: {"load": False}, "codex": {"load": True}}


@pytest.mark.parametrize("name", ["nobody", "", " "])
def test_an_agent_that_nobody_knows_is_one_clear_line(holdfast: Program, name: str) -> None:
    assert f"there is no agent {name!r}" in holdfast("agents", "probe", name, code=2).complaint


def test_which_agent_to_probe_must_be_said(holdfast: Program) -> None:
    assert "probe needs a NAME" in holdfast("agents", "probe", code=2).complaint


def test_ls_tells_what_is_installed_and_how_to_install_the_rest(holdfast: Program) -> None:
    bin_folder = Path(holdfast.cwd) / "bin"
    bin_folder.mkdir()
    (bin_folder / "goose").write_text("#!/bin/sh\n")
    (bin_folder / "goose").chmod(0o755)
    lines = holdfast("agents", "ls", env={"PATH": str(bin_folder)}).lines
    (goose,) = [line for line in lines if line.startswith("goose")]
    assert "installed" in goose
    assert goose.endswith("not probed")
    (claude,) = [number for number, line in enumerate(lines) if line.startswith("claude")]
    assert "missing" in lines[claude]
    assert lines[claude + 1].strip().startswith("npm install -g @agentclientprotocol/claude-agent-acp")


def test_ls_shows_what_was_measured(holdfast: Program) -> None:
    os.makedirs(holdfast.home)
    row = {"agent": "codex", "when": "2026-02-14T10:00:00.000Z", "turn": True, "load": True, "resume": False}
    (Path(holdfast.home) / "agents.json").write_text(json.dumps({"codex": row}))
    (line,) = [line for line in holdfast("agents", "ls").lines if line.startswith("codex")]
    assert "resume fails, load works" in line
    found = {one["name"]: one for one in holdfast("agents", "ls", "--json").objects}
    assert found["codex"]["row"]["load"] is True
    assert found["claude"]["row"] is None
    assert found["claude"]["command"] == ["claude-agent-acp"]


def test_a_matrix_that_cannot_be_read_is_as_none(holdfast: Program) -> None:
    os.makedirs(holdfast.home)
    (Path(holdfast.home) / "agents.json").write_text("{torn")
    assert "not probed" in holdfast("agents", "ls").out


def test_a_list_loads_nothing_that_speaks_the_protocol() -> None:
    """A list speaks to no agent."""
    script = (
        "import sys; from holdfast.app.cli.setup.agents import run; run(['ls']); "
        "sys.exit('holdfast.agents.acp.driver' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
