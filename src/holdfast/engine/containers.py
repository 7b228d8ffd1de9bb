"""Which container engines a run has used: written down before the first container is made, for whoever comes after us.

The config may change, and with it the only hint where an agent of an earlier session could still be at work.
"""

import os

import msgspec

from holdfast.agents.launch import Runtime
from holdfast.agents.runtimes.container import address_of, end_run
from holdfast.leaf.crashing import around
from holdfast.leaf.errors import Denied, HoldfastError
from holdfast.store.disk import make_directories, replace

_CRASH = around("container.note")
_FILE = "engines.json"


def remember(folder: str, runtime: Runtime) -> None:
    """Durable when it returns. `folder` is the run's own."""
    known = _known(folder)
    if runtime.kind == "container" and (address := address_of(runtime)) not in known:
        _CRASH.before()
        make_directories(os.path.dirname(_path(folder)))
        replace(_path(folder), msgspec.json.encode([*known, address]))
        _CRASH.after()


def end_containers(folder: str, run_id: str) -> None:
    """Nothing of the run is at work in a container when this returns; an engine that cannot tell is an error."""
    for address in _known(folder):
        try:
            end_run(address, run_id)
        except HoldfastError as error:
            raise Denied(
                f"agents of {run_id} may be at work in containers: {error}; "
                f"if that engine is gone for good, delete {_path(folder)}"
            ) from error


def _known(folder: str) -> list[str]:
    try:
        with open(_path(folder), "rb") as file:
            return msgspec.json.decode(file.read(), type=list[str])
    except FileNotFoundError:
        return []


def _path(folder: str) -> str:
    return os.path.join(folder, "agents", _FILE)
