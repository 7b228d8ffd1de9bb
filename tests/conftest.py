import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.doom.nursery import Nursery, nursery

# The same examples every time: a gate that decides by chance is none. `make torture` looks further.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")

_MEMORY = "/dev/shm"


@pytest.fixture
def home(tmp_path: os.PathLike[str]) -> str:
    return os.path.join(tmp_path, "home")


@pytest.fixture
def quick_home() -> Iterator[str]:
    """A home where a sync costs nothing, for tests that make thousands and cut no power."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None) as folder:
        yield os.path.join(folder, "home")


@pytest.fixture(scope="session")
def warm() -> Iterator[Nursery]:
    """Where programs come from that need no start-up."""
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if os.path.isdir(_MEMORY) else None) as folder,
        nursery(folder) as found,
    ):
        yield found
