"""Facts of containers alone: whose image, which engine, and what is found again by its labels."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from msgspec import structs

from holdfast.agents.acp.driver import AgentExited, Deadlines
from holdfast.agents.launch import Launch, Runtime
from holdfast.agents.process.tree import spawn
from holdfast.agents.runtimes.container import REQUEST_VARIABLE
from holdfast.agents.runtimes.engine import ContainerEngine, ContainerRequest
from holdfast.engine.containers import end_containers, record_engine
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.process.env_markers import RUN_MARK
from tests.agents.company import Company, text
from tests.support.podman import IMAGE, Podman
from tests.support.wait import until

containers = pytest.mark.containers


@pytest.fixture
def cwd(tmp_path: os.PathLike[str]) -> str:
    return os.fspath(tmp_path)


def launched(runtime: Runtime, cwd: str, script: str, **more: Any) -> Launch:
    return Launch(("/bin/sh", "-c", script), cwd, {RUN_MARK: "run-x"}, f"test/{cwd}", runtime=runtime, **more)


def made_of(podman: Podman) -> ContainerRequest:
    return ContainerRequest(
        parent=os.getpid(),
        address=f"unix://{podman.socket}",
        image=IMAGE,
        command=("true",),
        cwd="/",
        environment={},
        labels={"holdfast.run": "run-x"},
        places=[],
        network=False,
    )


def go_between(order: ContainerRequest) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, REQUEST_VARIABLE: msgspec.json.encode(order).decode()}
    command = [sys.executable, "-m", "holdfast.agents.runtimes.container_proxy"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


async def refusal(launch: Launch) -> str:
    with pytest.raises((BadInput, Denied)) as raised:
        async with spawn(launch):
            pass
    return str(raised.value)


async def test_an_image_must_be_named(cwd: str) -> None:
    assert "set runtime.image" in await refusal(launched(Runtime(kind="container"), cwd, "true"))


async def test_without_the_package_it_is_told_what_to_install(cwd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    said = await refusal(launched(Runtime(kind="container", image="x"), cwd, "true"))
    assert "pip install 'holdfast[container]'" in said


async def test_an_engine_that_is_not_there_is_told_of(cwd: str) -> None:
    nowhere = Runtime(kind="container", image="x", socket=os.path.join(cwd, "nowhere.sock"))
    said = await refusal(launched(nowhere, cwd, "true"))
    assert f"the container engine at unix://{cwd}/nowhere.sock cannot accept a connection" in said
    assert "DOCKER_HOST" in said


async def test_a_run_does_not_go_on_while_its_engine_cannot_tell_what_lives(cwd: str) -> None:
    nowhere = Runtime(kind="container", image="x", socket=os.path.join(cwd, "nowhere.sock"))
    end_containers(cwd, "run-x")
    record_engine(cwd, nowhere)
    record_engine(cwd, nowhere)
    with pytest.raises(Denied, match=r"agents of run-x may be at work .* delete .*engines\.json"):
        end_containers(cwd, "run-x")
    os.unlink(os.path.join(cwd, "agents", "engines.json"))
    end_containers(cwd, "run-x")


@containers
async def test_no_image_is_pulled(contained: Runtime, cwd: str, podman: Podman) -> None:
    runtime = structs.replace(contained, image="localhost/of-somebody:9")
    assert "docker pull localhost/of-somebody:9" in await refusal(launched(runtime, cwd, "true"))
    assert podman.containers() == []


@containers
async def test_outputs_are_kept_apart_and_whole(contained: Runtime, cwd: str) -> None:
    complaints = os.path.join(cwd, "stderr")
    script = "seq 200000; echo trouble >&2; read line; echo got $line"
    async with spawn(launched(contained, cwd, script, stderr=complaints)) as tree:
        tree.stdin.write(b"word\n")
        said = (await tree.stdout.read()).decode().splitlines()
        assert await tree.wait_for_exit() == "it exited with code 0"
    assert said == [*map(str, range(1, 200001)), "got word"]
    with open(complaints, encoding="ascii") as file:
        assert file.read() == "trouble\n"


@containers
async def test_a_program_that_is_not_in_the_image_is_told_of(contained: Runtime, cwd: str) -> None:
    launch = launched(contained, cwd, "true")._replace(command=("/no/such/program",))
    async with spawn(launch) as tree:
        said = (await tree.stdout.read()).decode()
        await tree.wait_for_exit()
        assert tree.exit_code not in (0, None)
    assert "No such file or directory" in said


@containers
def test_what_the_engine_refuses_is_one_line_and_a_code(podman: Podman) -> None:
    done = go_between(structs.replace(made_of(podman), image="localhost/of-somebody:9"))
    assert done.returncode == 125
    assert "refused to make a container" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert podman.containers() == []


@containers
def test_nothing_is_made_for_somebody_who_is_dead_already(podman: Podman) -> None:
    assert go_between(structs.replace(made_of(podman), parent=1)).returncode == 128 + signal.SIGTERM
    assert podman.containers() == []


@containers
async def test_a_container_that_was_made_and_never_started_is_taken_away(
    contained: Runtime, cwd: str, podman: Podman
) -> None:
    record_engine(cwd, contained)
    order = made_of(podman)
    with ContainerEngine(order.address) as engine:
        engine.create(order)
        engine.create(structs.replace(order, labels={"holdfast.run": "run-y"}))
    end_containers(cwd, "run-x")
    assert len(podman.containers()) == 1, "that of another run is left alone"
    record_engine(cwd, contained)
    end_containers(cwd, "run-y")
    assert podman.containers() == []


@containers
async def test_nothing_is_left_at_the_engine(contained: Runtime, cwd: str, podman: Podman) -> None:
    """The agent is killed while a command of its runs in a terminal."""
    company = Company(cwd)
    company.runtime, company.deadlines = contained, Deadlines(start=90, session=90)
    async with company.playing("turns: [[run: {command: sleep 600, via: client}]]") as (agent, opened):
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, text()))
        await until(lambda: bool(agent.terminals._open))
        assert podman.containers() != []
        os.kill(agent.tree.identity.pid, signal.SIGKILL)
        with pytest.raises(AgentExited):
            await turn
    assert podman.containers() == []
