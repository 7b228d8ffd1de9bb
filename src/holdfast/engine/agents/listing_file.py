"""The file in which our MCP server records that the agent has listed its tools.

Separate from the wait for it because every MCP server loads this module.
"""

import os
from contextlib import suppress

from holdfast.core.messages.signals import TOOLS_LISTED

_HEAD_BYTES = 4_096  # the list is requested before any report is made


def announce_tools(path: str) -> None:
    """Record the listing, for the server. If that fails, the first prompt waits for the timeout instead."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, TOOLS_LISTED + b"\n")
        finally:
            os.close(file)


def forget_listed(path: str) -> None:
    """Call this before another agent is started."""
    with suppress(OSError):
        os.unlink(path)


def is_listed(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return TOOLS_LISTED in file.read(_HEAD_BYTES).split(b"\n")
    except OSError:
        return False
