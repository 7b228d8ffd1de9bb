"""Who is another process every moment: it forks, leaves, and its child does the same."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HOPPER = """
import os, sys, time
while os.path.exists(sys.argv[1]):
    if os.fork():
        os._exit(0)
    time.sleep(0.001)
"""


@contextmanager
def hopping(folder: str | os.PathLike[str]) -> Iterator[tuple[str, ...]]:
    """The command that begins it. The first of them ends at once; the last, when the context does."""
    may_go_on = os.path.join(folder, "may hop on")
    with open(may_go_on, "x", encoding="utf-8"):
        pass
    try:
        yield (sys.executable, "-IS", "-c", _HOPPER, may_go_on)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(may_go_on)
