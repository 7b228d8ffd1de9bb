import os
import tempfile
from collections.abc import Iterator

import pytest

from tests.support.git_stage import Stage

_MEMORY = "/dev/shm"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """An empty stage, of which this process makes use too."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None) as folder:
        stage = Stage(os.path.join(folder, "stage"))
        for name, value in stage.environment.items():
            monkeypatch.setenv(name, value)
        yield stage
