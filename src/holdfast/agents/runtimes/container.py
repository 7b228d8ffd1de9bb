"""An agent in a container of the user's image, through the Docker API of any engine.

The spawned process is a proxy: it creates the container, forwards input and outputs, exits with its exit code, and
removes it when we die. If the proxy is killed as well, the container is found by its labels.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec

import msgspec

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, Runtime, SpawnCommand
from holdfast.agents.runtimes.engine import ContainerEngine, ContainerRequest
from holdfast.agents.runtimes.mounts import mounted_paths
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from holdfast.leaf.process.environment import without_relative_pythonpath
from holdfast.leaf.process.own_program import holdfast_command

REQUEST_VARIABLE = "HOLDFAST_CONTAINER"  # the proxy's request: other users could read it in its arguments

_RUN_LABEL, _CONVERSATION_LABEL = "holdfast.run", "holdfast.conversation"
_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"


def engine_address(runtime: Runtime) -> str:
    """Return the address of the container engine."""
    address = runtime.socket or os.environ.get("DOCKER_HOST") or _DEFAULT_ADDRESS
    return f"unix://{address}" if address.startswith("/") else address


def spawn_command(launch: Launch) -> SpawnCommand:
    """Return the proxy's command. Never pulls an image: that is the user's choice."""
    image = launch.runtime.image
    if image is None:
        raise BadInput("an agent in a container needs an image that contains the agent; set runtime.image")
    address = engine_address(launch.runtime)
    with _connect(address) as engine:
        engine.check_image(image)
    request = ContainerRequest(
        parent=os.getpid(),
        address=address,
        image=image,
        command=launch.command,
        cwd=os.path.realpath(launch.cwd),
        environment={**launch.environment, **launch.env_markers},
        labels=_labels(launch.env_markers),
        places=[(mount.path, mount.is_writable) for mount in mounted_paths(launch)],
        network=launch.runtime.network,
    )
    return SpawnCommand(
        holdfast_command(module="holdfast.agents.runtimes.container_proxy"),
        {
            **without_relative_pythonpath(plain_environment()),
            **launch.env_markers,
            REQUEST_VARIABLE: msgspec.json.encode(request).decode(),
        },
    )


def end_agent_container(launch: Launch) -> None:
    """Remove all containers of this agent."""
    with _connect(engine_address(launch.runtime)) as engine:
        engine.remove_all(_labels({CONVERSATION_MARK: launch.mark}))


def find_container(runtime: Runtime, mark: str) -> str | None:
    """Return the id of the container of the agent with this mark."""
    with _connect(engine_address(runtime)) as engine:
        return next(iter(engine.find_containers(_labels({CONVERSATION_MARK: mark}))), None)


def running_containers(address: str, run_id: str) -> list[str]:
    """Return the ids of a run's running containers."""
    with _connect(address) as engine:
        return engine.find_containers(_labels({RUN_MARK: run_id}), only_running=True)


def end_run_containers(address: str, run_id: str) -> None:
    """Remove the containers of all agents of a run, including those of earlier sessions."""
    with _connect(address) as engine:
        engine.remove_all(_labels({RUN_MARK: run_id}))


def _labels(marks: Mapping[str, str]) -> dict[str, str]:
    names = {RUN_MARK: _RUN_LABEL, CONVERSATION_MARK: _CONVERSATION_LABEL}
    return {names[mark]: value for mark, value in marks.items()}


def _connect(address: str) -> ContainerEngine:
    if find_spec("docker") is None:
        raise BadInput("containers need an extra package; install it with: pip install 'holdfast[container]'")
    return ContainerEngine(address)
