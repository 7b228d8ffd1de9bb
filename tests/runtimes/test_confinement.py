"""Facts of a confined agent, and of the terminals that are opened for it: what it can do, and what it cannot."""

import json
import os
import socket
import sys

import pytest
from msgspec import structs

from holdfast.leaf.errors import BadInput
from tests.agents.company import Company, text

VIAS = pytest.mark.parametrize("via", ["agent", "client"])


async def result_of(company: Company, command: str, via: str, **env: str) -> str:
    """What a command says, run by the agent itself or in a terminal that it asks for, and how it ended."""
    run = {"command": command, "env": env, **({"via": via} if via == "client" else {})}
    script = json.dumps({"turns": [[{"run": run}, {"say": "{{result}} ({{exit}})"}]]})
    async with company.playing(script) as (agent, opened):
        ended = await agent.prompt(opened.session_id, text())
        await agent.recorder.flush()
    assert ended.reason == "end_turn"
    return company.book.said()


async def test_work_in_the_worktree_is_done_and_ours(company: Company) -> None:
    script = """
        turns:
          - - write: {path: a/new.txt, text: one}
            - write: {path: b.txt, text: two, via: client}
            - run: cat a/new.txt b.txt > c.txt
            - run: {command: cat c.txt >> d.txt, via: client}
    """
    async with company.playing(script) as (agent, opened):
        assert (await agent.prompt(opened.session_id, text())).reason == "end_turn"
    assert company.read("d.txt") == "onetwo"
    assert os.stat(company.path("d.txt")).st_uid == os.getuid()


@VIAS
async def test_a_write_outside_fails(company: Company, via: str) -> None:
    outside = os.path.join(company.folder, "outside")
    said = await result_of(company, f"echo x > {outside}", via)
    assert "Read-only file system" in said
    assert not os.path.exists(outside)


@VIAS
async def test_the_temporary_folder_is_its_own(company: Company, via: str, tmp_path: os.PathLike[str]) -> None:
    name = os.path.basename(tmp_path)
    assert await result_of(company, f"echo mine > /tmp/{name} && cat /tmp/{name}", via) == "mine\n (0)"
    assert not os.path.exists(f"/tmp/{name}")


@VIAS
@pytest.mark.parametrize("network", [True, False], ids=["on", "off"])
async def test_the_network_is_there_or_not_as_it_was_chosen(company: Company, via: str, network: bool) -> None:
    company.runtime = structs.replace(company.runtime, network=network)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        call = f'import socket; socket.create_connection(("127.0.0.1", {port})); print("reached")'
        said = await result_of(company, f"{sys.executable} -S -c '{call}' 2>&1 | tail -n 1", via)
    assert ("reached" in said) == network
    assert ("Errno" in said) != network


@VIAS
async def test_our_secrets_and_our_processes_are_not_to_be_seen(
    company: Company, via: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_TOKEN", "hush")
    said = await result_of(company, "env; cat /proc/[0-9]*/environ; ls -d /proc/[0-9]*", via)
    assert "HOLDFAST_CONVERSATION" in said
    assert "hush" not in said
    assert f"/proc/{os.getpid()}\n" not in said


async def test_variables_of_a_terminal_are_not_those_of_what_makes_its_confinement(company: Company) -> None:
    """Loaded by a program of ours, the agent's library would be free."""
    traces = os.path.join(company.folder, "traces")
    os.mkdir(traces)
    said = await result_of(company, "true", "client", LD_DEBUG="files", LD_DEBUG_OUTPUT=f"{traces}/trace")
    assert "needed by /bin/sh" in said, "it is loaded where it cannot write"
    assert os.listdir(traces) == []


async def test_a_variable_is_no_option(company: Company) -> None:
    async with company.playing("turns: []") as (agent, _):
        with pytest.raises(BadInput):
            await agent.terminals.create("true", [], None, {"A": "x\0--bind\0/\0/"}, None)


async def test_a_terminal_can_stand_in_a_folder_of_the_worktree(company: Company) -> None:
    os.mkdir(company.path("below"))
    async with company.playing("turns: []") as (agent, _):
        name = await agent.terminals.create("pwd; echo x > ../above", [], "below", {}, None)
        assert (await agent.terminals[name].wait_for_exit()).text == company.path("below\n")
    assert company.read("above") == "x\n"


async def test_how_it_ended_is_told(company: Company) -> None:
    assert await result_of(company, "exit 3", "client") == " (3)"
    async with company.playing("turns: [[crash: {how: exit, code: 7}]]") as (agent, opened):
        with pytest.raises(Exception, match="it exited with code 7"):
            await agent.prompt(opened.session_id, text())
