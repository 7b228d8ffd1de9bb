"""An agent as a process of the user's, like any other program that they start."""

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch, Spawn


def spawned(launch: Launch) -> Spawn:
    return Spawn(launch.command, {**plain_environment(), **launch.environment, **launch.marks})
