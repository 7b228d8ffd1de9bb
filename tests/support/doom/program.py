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
    """Under the doom of the whole test: Holdfast does not pass it on, so it is put back for each process here."""
    sys.executable = os.environ[STAND_IN]
    if DOOM in os.environ:
        os.environ[WHAT], os.environ[FILE] = os.environ[DOOM], os.environ[DOOM_FILE]
    return main(arguments)
