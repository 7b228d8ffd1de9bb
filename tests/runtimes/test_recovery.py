"""Nothing is left of a confined agent when it, Holdfast or both die, and the conversation continues."""

import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.launch import Runtime
from holdfast.core.events.session import SessionStart
from holdfast.engine.agents.conversations import Conversations
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.containers import end_containers
from holdfast.engine.workspace.effects import fence
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.conversations import AGENT, ASK, Place, say_until_killed
from tests.support.pids import children_of
from tests.support.podman import Podman
from tests.support.processes import child
from tests.support.wait import until

FACT = "the word is kelp"
KNOW = "What do you know?"


def running(word: str) -> list[int]:
    """The processes of this machine that have it in their command line, in whatever namespace."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [int(pid)] if word.encode() in file.read() else []
        except OSError:
            continue
    return found


def book(daemon: str) -> dict[str, Any]:
    """It leaves a daemon behind, that is nobody's child and has no environment."""
    leave = {"command": f"exec sleep 600.{daemon}", "apart": "daemon", "background": True, "clear_env": True}
    return {
        "agent": {"load": "works", "resume": "absent", "ignores": ["eof", "sigterm"]},
        "turns": [
            {"when": "What do you know", "steps": [{"echo_memory": True}]},
            {"when": "^leave$", "steps": [{"run": leave}, {"tool": {"id": "t", "title": "Wait"}}, {"hang": "deaf"}]},
            {"when": "^die$", "steps": [{"run": leave}, {"tool": {"id": "t", "title": "Die"}}, {"crash": "kill"}]},
        ],
        "otherwise": [{"say": "fine"}],
    }


@pytest.fixture
def daemon(place: Place) -> str:
    word = str(secrets.randbelow(10**9) + 10**9)
    place.play(book(word))
    return word


async def test_a_killed_agents_turn_is_interrupted_and_its_session_comes_back(place: Place, daemon: str) -> None:
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        assert (await conversations.send_prompt(name, FACT, place.cwd)).reason == "end_turn"
        assert (await conversations.send_prompt(name, "die", place.cwd)).reason == "interrupted"
        assert running(daemon) == []
        assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert await place.rungs() == ["fresh", "session/load"]
    assert FACT in (await place.said())[-1]
    assert await place.interrupted_calls() == ["t"]


async def test_what_was_spawned_is_killed_and_the_session_comes_back(place: Place, daemon: str) -> None:
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        pid = conversations.state(name).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: conversations.resume_need(name)[0])
        assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert await place.rungs() == ["fresh", "session/load"]
    assert FACT in (await place.said())[-1]


async def test_nothing_outlives_our_own_sigkill_though_nobody_looks(place: Place, daemon: str) -> None:
    with child(say_until_killed, place, [FACT, "leave"]) as runner:
        name = runner.hear()
        assert name is not None
        await place.until_called("t")
        assert running(daemon)
        runner.kill()
        await until(lambda: not running(daemon) and not place.processes())
    async with place.session() as (_, _, conversations):
        assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert await place.rungs() == ["fresh", "session/load"]
    assert FACT in (await place.said())[-1]


async def test_the_fence_ends_what_lives_though_it_hides_its_environment(place: Place, daemon: str) -> None:
    """Found from outside by marks and labels; the runner lives and is stopped, so that nobody dies of its death."""
    with child(say_until_killed, place, ["leave"]) as runner:
        await place.until_called("t")
        own = os.readlink("/proc/self/ns/pid")
        inner = [process for process in place.processes() if os.readlink(f"/proc/{process.pid}/ns/pid") != own]
        assert len(inner) >= 2
        os.kill(runner.pid, signal.SIGSTOP)
        fence(place.run_id)
        end_containers(run_folder(place.home, place.run_id), place.run_id)
        assert running(daemon) == []
        assert place.processes() == []


async def test_when_all_of_ours_are_killed_at_once_the_next_session_ends_the_rest(
    place: Place, daemon: str, runtime: Runtime
) -> None:
    with child(say_until_killed, place, [FACT, "leave"]) as runner:
        name = runner.hear()
        assert name is not None
        await place.until_called("t")
        os.kill(runner.pid, signal.SIGSTOP)
        for pid in children_of(runner.pid):
            os.kill(pid, signal.SIGKILL)
        runner.kill()
    if runtime.kind == "container":
        assert running(daemon), "a container needs none of us to live"
    async with place.session() as (_, _, conversations):
        assert running(daemon) == []
        assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert FACT in (await place.said())[-1]


async def test_a_confined_agent_can_report(place: Place) -> None:
    report = {"tool": "report_blocker", "arguments": {"reason": "there is no key"}, "say": True}
    place.play({"turns": [[{"mcp_tools": {}}, {"say": "{{result}}"}, {"mcp": report}]]})
    tools = (sys.executable, "-m", "holdfast", "mcp", "--run", place.run_id, "--role", "worker", "--home", place.home)
    context = place.context()._replace(tools=lambda *_: tools)
    async with open_run(FileStore(place.home), place.run_id) as run:
        await run.begin_session(SessionStart(command="run"))
        async with Conversations(run, context, PermissionBroker(run, ASK)) as conversations:
            name = await conversations.open(AGENT, role="worker")
            turn = await conversations.send_prompt(name, "report", place.cwd)
            assert turn.reason == "end_turn", json.dumps(await place.said())
            received = await run.consume_inbox()
    assert [(message.kind, message.sender) for message in received] == [("signal.report_blocker", name)]


@pytest.mark.containers
@pytest.mark.timeout(400)
def test_nobody_is_started_beside_an_agent_whose_container_could_not_be_ended(
    podman: Podman, contained: Runtime, tmp_path: Path
) -> None:
    """Its engine was away when it was to end it; and of its processes nothing is to be seen, as on another machine."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "tests.support.unseen_container"]
    command += [os.fspath(tmp_path), podman.socket, *contained.readable]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as talking:
        assert talking.stdin is not None
        assert talking.stdout is not None
        assert talking.stdout.readline().startswith("refused: the container engine at ")
        assert talking.stdout.readline() == "at work\n"
        assert len(podman.containers()) == 1
        talking.stdin.close()
        assert talking.wait() == 0
    assert podman.containers() == []
