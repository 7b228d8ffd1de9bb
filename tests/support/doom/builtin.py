"""The built-in agent as a child of the zygote, under the doom that its environment names."""

from holdfast.app.cli import agent_builtin
from holdfast.leaf.crashing import arm


def run(arguments: list[str]) -> int:
    arm()
    return agent_builtin.run(arguments)
