"""The built-in agent as a child of the zygote, under the failpoint that its environment names."""

from holdfast.app.cli.programs import agent_builtin
from holdfast.leaf.failpoints import arm_failpoints


def run(arguments: list[str]) -> int:
    arm_failpoints()
    return agent_builtin.run(arguments)
