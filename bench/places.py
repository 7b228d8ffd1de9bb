"""The bench's folder: logs of a million events are created once and reused.

`$BENCH_DIR` moves it. It must be on a real disk: a sync to memory costs nothing, which would distort the ratios.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def bench_folder() -> str:
    folder = os.environ.get("BENCH_DIR") or os.path.join(tempfile.gettempdir(), "holdfast-bench")
    os.makedirs(folder, exist_ok=True)
    return os.path.abspath(folder)


@contextmanager
def scratch() -> Iterator[str]:
    """Yield a temporary folder on the bench's disk."""
    folder = tempfile.mkdtemp(prefix="scratch-", dir=bench_folder())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
