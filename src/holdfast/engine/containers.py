"""Records which container engines a run has used, before its first container is created, for later sessions.

The config may change, and it would be the only other hint where an agent of an earlier session could still run.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.leaf.errors import Denied, HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace

if TYPE_CHECKING:
    from holdfast.agents.launch import Runtime

_FAILPOINT = failpoint_pair("container.note")
_FILE_NAME = "engines.json"


def record_engine(folder: str, runtime: "Runtime") -> None:
    """Durable when it returns. `folder` is the run's own."""
    if runtime.kind != "container":
        return
    from holdfast.agents.runtimes import container  # noqa: PLC0415 - `show` needs it only where a container was used

    known = _recorded_engines(folder)
    if (address := container.engine_address(runtime)) not in known:
        _FAILPOINT.before()
        make_directories(os.path.dirname(_engines_path(folder)))
        replace(_engines_path(folder), msgspec.json.encode([*known, address]))
        _FAILPOINT.after()


def end_containers(folder: str, run_id: str) -> None:
    """Kill every container of the run. An engine that does not answer is an error."""
    if not (known := _recorded_engines(folder)):
        return
    from holdfast.agents.runtimes import container  # noqa: PLC0415 - `show` needs it only where a container was used

    for address in known:
        try:
            container.end_run_containers(address, run_id)
        except HoldfastError as error:
            raise Denied(
                f"agents of {run_id} may be at work in containers: {error}; "
                f"if that engine was removed, delete {_engines_path(folder)}"
            ) from error


class OrphanContainer(NamedTuple):
    """A container that runs for a run without an owner. Without an id: an engine that does not answer."""

    address: str
    container: str | None
    problem: str | None = None


def running_containers(folder: str, run_id: str) -> list[OrphanContainer]:
    """Return the run's containers at the engines it has used. Calls no engine if it has used none."""
    if not (known := _recorded_engines(folder)):
        return []
    from holdfast.agents.runtimes import container  # noqa: PLC0415 - `show` needs it only where a container was used

    found: list[OrphanContainer] = []
    for address in known:
        try:
            found += [
                OrphanContainer(address, container_id) for container_id in container.running_containers(address, run_id)
            ]
        except HoldfastError as error:
            found.append(OrphanContainer(address, None, str(error)))
    return found


def _recorded_engines(folder: str) -> list[str]:
    try:
        with open(_engines_path(folder), "rb") as file:
            return msgspec.json.decode(file.read(), type=list[str])
    except FileNotFoundError:
        return []


def _engines_path(folder: str) -> str:
    return os.path.join(folder, "agents", _FILE_NAME)
