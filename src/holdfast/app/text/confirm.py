"""Asks a yes-or-no question on the terminal."""

import signal
import sys


def is_confirmed(question: str) -> bool:
    """Whether the answer is yes. Ctrl-C ends the command at once, also in a coroutine: asyncio would wait for Enter."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.stderr.write(f"{question}? [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        sys.stderr.write("\ncancelled; nothing changed\n")
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
