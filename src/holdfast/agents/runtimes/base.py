"""The interface of all runtimes.

A runtime turns a launch into a process to spawn, which dies with the agent, and it can end an agent that it did not
start. Processes on this machine carry markers; only a container may run elsewhere, and is found by its labels.
"""

from holdfast.agents.launch import Launch, SpawnCommand
from holdfast.agents.runtimes import local
from holdfast.leaf.errors import BadInput


def spawn_command(launch: Launch) -> SpawnCommand:
    """Return the process to start on this machine. Raises `BadInput` when the runtime is not available."""
    strings = (*launch.command, *launch.environment, *launch.environment.values())
    if any("\0" in string for string in strings):  # NUL ends an argument
        raise BadInput(f"cannot start {launch.command[0]!r}: its arguments or variables contain a NUL character")
    match launch.runtime.kind:
        case "local":
            return local.spawn_command(launch)
        case "sandbox":
            from holdfast.agents.runtimes import sandbox  # noqa: PLC0415 - most runs use one runtime

            return sandbox.spawn_command(launch)
        case "container":
            from holdfast.agents.runtimes import container  # noqa: PLC0415 - most runs use one runtime

            return container.spawn_command(launch)
        case "tmux":
            from holdfast.agents.runtimes import tmux  # noqa: PLC0415 - most runs use one runtime

            return tmux.spawn_command(launch)


def end_container(launch: Launch) -> None:
    """End the agent's container, if it has one. Call this when the spawned process is dead."""
    if launch.runtime.kind == "container":
        from holdfast.agents.runtimes import container  # noqa: PLC0415 - few agents are in one

        container.end_agent_container(launch)
