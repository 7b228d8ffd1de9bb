"""`holdfast` as a child of the zygote: whatever it starts by its interpreter comes from there too."""

import os
import sys

from holdfast.app.cli.main import main
from holdfast.leaf.crashing import FILE, WHAT

STAND_IN, DOOM, DOOM_FILE = "TEST_STAND_IN", "TEST_DOOM", "TEST_DOOM_FILE"

# What is loaded late, by some commands only: children find it there.
MODULES = (
    "holdfast.app.cli.agent",
    "holdfast.app.cli.agent_playbook",
    "holdfast.app.cli.mcp",
    "holdfast.app.cli.resume",
    "holdfast.app.cli.run",
    "holdfast.app.mcp.server",
    "holdfast.agents.playbook.program",
    "holdfast.engine.sitting",
    "mcp.client.stdio",
)


def run(arguments: list[str]) -> int:
    """With the doom that the whole test is under: a process of ours takes it out of its environment, here it comes back."""
    sys.executable = os.environ[STAND_IN]
    if DOOM in os.environ:
        os.environ[WHAT], os.environ[FILE] = os.environ[DOOM], os.environ[DOOM_FILE]
    return main(arguments)
