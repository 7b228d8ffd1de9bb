import fcntl
import os
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def alone_with_watches() -> Iterator[None]:
    """Nobody else who asks for this counts the kernel's watches, or takes all of them, meanwhile."""
    path = os.path.join(tempfile.gettempdir(), f"holdfast-tests-watches-{os.getuid()}")
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
