"""Runs `holdfast attach` in the dashboard's terminal while the dashboard is suspended."""

import signal
import subprocess
import sys

from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_INTERRUPTED
from holdfast.leaf.process.own_program import holdfast_command


def attach_here(home: Home, run_id: str) -> None:
    """Ctrl-C returns at once. If `attach` ends by itself, wait for Enter, so that its last lines can be read."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        command = holdfast_command("attach", run_id)
        code = subprocess.run(command, env=home.environment, check=False).returncode
        if code != EXIT_INTERRUPTED:
            sys.stderr.write("\nPress Enter to return to the dashboard ")
            sys.stderr.flush()
            sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
