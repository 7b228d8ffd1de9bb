"""`holdfast attach`, in the terminal of the dashboard, which is out of the way meanwhile."""

import os
import signal
import subprocess
import sys

from holdfast.leaf.errors import INTERRUPTED
from holdfast.leaf.process.own_program import own_program


def attach_here(home: str, run_id: str) -> None:
    """Ctrl-C is meant for the one who watches, and leads back at once; an end of its own is to be read first."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        command = own_program("attach", run_id)
        code = subprocess.run(command, env={**os.environ, "HOLDFAST_HOME": home}, check=False).returncode
        if code != INTERRUPTED:
            sys.stderr.write("\nEnter goes back to the dashboard ")
            sys.stderr.flush()
            sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
