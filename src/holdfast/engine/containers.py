"""Which container engines a run has used: written down before the first container is made, for whoever comes after us.

The config may change, and with it the only hint where an agent of an earlier session could still be at work.
"""

import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.leaf.errors import Denied, HoldfastError
from holdfast.leaf.failpoints import around
from holdfast.store.files.disk import make_directories, replace

if TYPE_CHECKING:
    from holdfast.agents.launch import Runtime

_CRASH = around("container.note")
_FILE = "engines.json"


def remember(folder: str, runtime: "Runtime") -> None:
    """Durable when it returns. `folder` is the run's own."""
    if runtime.kind != "container":
        return
    from holdfast.agents.runtimes import container  # noqa: PLC0415 - `show` needs it only where a container was used

    known = _known(folder)
    if (address := container.address_of(runtime)) not in known:
        _CRASH.before()
        make_directories(os.path.dirname(_path(folder)))
        replace(_path(folder), msgspec.json.encode([*known, address]))
        _CRASH.after()


def end_containers(folder: str, run_id: str) -> None:
    """Nothing of the run is at work in a container when this returns; an engine that cannot tell is an error."""
    if not (known := _known(folder)):
        return
    from holdfast.agents.runtimes import container  # noqa: PLC0415 - `show` needs it only where a container was used

    for address in known:
        try:
            container.end_run(address, run_id)
        except HoldfastError as error:
            raise Denied(
                f"agents of {run_id} may be at work in containers: {error}; "
                f"if that engine is gone for good, delete {_path(folder)}"
            ) from error


class Orphan(NamedTuple):
    """A container that is at work for a run that nobody owns. Without an id, an engine that cannot tell."""

    address: str
    container: str | None
    problem: str | None = None


def running_containers(folder: str, run_id: str) -> list[Orphan]:
    """What is at work for the run at the engines that it has used. Asks nobody when it has used none."""
    if not (known := _known(folder)):
        return []
    from holdfast.agents.runtimes import container  # noqa: PLC0415 - `show` needs it only where a container was used

    found: list[Orphan] = []
    for address in known:
        try:
            found += [Orphan(address, one) for one in container.running_of(address, run_id)]
        except HoldfastError as error:
            found.append(Orphan(address, None, str(error)))
    return found


def _known(folder: str) -> list[str]:
    try:
        with open(_path(folder), "rb") as file:
            return msgspec.json.decode(file.read(), type=list[str])
    except FileNotFoundError:
        return []


def _path(folder: str) -> str:
    return os.path.join(folder, "agents", _FILE)
