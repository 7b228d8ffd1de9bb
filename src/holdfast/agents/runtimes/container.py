"""An agent in a container of the user's image, through the Docker API of any engine that has it.

What is spawned here is a go-between: it makes the container, passes its input and outputs, ends with its exit code, and
takes it away when we die. Should the go-between be killed as well, the labels are what the container is found by.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec

import msgspec

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, Runtime, Spawn
from holdfast.agents.runtimes.engine import Engine, Order
from holdfast.agents.runtimes.mounts import places_of
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from holdfast.leaf.process.environment import without_relative_modules
from holdfast.leaf.process.own_program import own_program

ORDER = "HOLDFAST_CONTAINER"  # the variable with what the go-between is to make: in its arguments anybody could read it

_RUN_LABEL, _CONVERSATION_LABEL = "holdfast.run", "holdfast.conversation"
_DEFAULT = "unix:///var/run/docker.sock"


def address_of(runtime: Runtime) -> str:
    """Where the container engine listens."""
    address = runtime.socket or os.environ.get("DOCKER_HOST") or _DEFAULT
    return f"unix://{address}" if address.startswith("/") else address


def spawned(launch: Launch) -> Spawn:
    """The go-between. Nothing is pulled: which image comes onto the user's machine is the user's choice."""
    image = launch.runtime.image
    if image is None:
        raise BadInput("an agent in a container needs an image; name one that has the agent in it: image = …")
    address = address_of(launch.runtime)
    with _engine(address) as engine:
        engine.must_have(image)
    order = Order(
        parent=os.getpid(),
        address=address,
        image=image,
        command=launch.command,
        cwd=os.path.realpath(launch.cwd),
        environment={**launch.environment, **launch.marks},
        labels=_labels(launch.marks),
        places=[(place.path, place.writable) for place in places_of(launch)],
        network=launch.runtime.network,
    )
    return Spawn(
        own_program(module="holdfast.agents.runtimes.container_proxy"),
        {**without_relative_modules(plain_environment()), **launch.marks, ORDER: msgspec.json.encode(order).decode()},
    )


def end(launch: Launch) -> None:
    """Nothing of this agent is left at the engine when this returns."""
    with _engine(address_of(launch.runtime)) as engine:
        engine.end(_labels({CONVERSATION_MARK: launch.mark}))


def container_of(runtime: Runtime, mark: str) -> str | None:
    """The id of the container of the agent that has this mark."""
    with _engine(address_of(runtime)) as engine:
        return next(iter(engine.found(_labels({CONVERSATION_MARK: mark}))), None)


def running_of(address: str, run_id: str) -> list[str]:
    """The ids of the containers of a run that are at work."""
    with _engine(address) as engine:
        return engine.found(_labels({RUN_MARK: run_id}), running=True)


def end_run(address: str, run_id: str) -> None:
    """The same, of all agents of a run: also of those that an earlier session of ours started."""
    with _engine(address) as engine:
        engine.end(_labels({RUN_MARK: run_id}))


def _labels(marks: Mapping[str, str]) -> dict[str, str]:
    names = {RUN_MARK: _RUN_LABEL, CONVERSATION_MARK: _CONVERSATION_LABEL}
    return {names[mark]: value for mark, value in marks.items()}


def _engine(address: str) -> Engine:
    if find_spec("docker") is None:
        raise BadInput("containers need one package more; install it: pip install 'holdfast[container]'")
    return Engine(address)
