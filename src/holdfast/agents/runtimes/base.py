"""One interface for whatever an agent runs in.

A runtime turns a launch into the process that is spawned, whose death is the agent's, and it can end all of an agent
without having started it. What runs on this machine carries marks and is found by them; only a container may be
anywhere, and is found by its labels.
"""

from holdfast.agents.launch import Launch, Spawn
from holdfast.agents.runtimes import container, local, sandbox, tmux
from holdfast.leaf.errors import BadInput


def spawned(launch: Launch) -> Spawn:
    """What is started on this machine. `BadInput` when the runtime is not here."""
    words = (*launch.command, *launch.environment, *launch.environment.values())
    if any("\0" in word for word in words):  # it ends an argument wherever arguments are written one after the other
        raise BadInput(f"{launch.command[0]!r} cannot be started: there is a NUL character in its words or variables")
    match launch.runtime.kind:
        case "local":
            return local.spawned(launch)
        case "sandbox":
            return sandbox.spawned(launch)
        case "container":
            return container.spawned(launch)
        case "tmux":
            return tmux.spawned(launch)


def end_unseen(launch: Launch) -> None:
    """End what no process of this machine may show. Call it when what was spawned is dead."""
    if launch.runtime.kind == "container":
        container.end(launch)
