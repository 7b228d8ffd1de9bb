"""An agent as an ordinary process of the user."""

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, SpawnCommand


def spawn_command(launch: Launch) -> SpawnCommand:
    return SpawnCommand(launch.command, {**plain_environment(), **launch.environment, **launch.env_markers})
