import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.crash_suite.warm_programs import Nursery, nursery
from tests.support.memory import in_memory
from tests.support.postgres import PostgresServer, postgres_server, programs_folder

# The same examples every time: a gate that decides by chance is none. `make torture` looks further.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")

# Begun in the background of a script, we ignore Ctrl-C, and so would every program that the tests begin.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was imported stays. To look through it for garbage again and again takes a fifth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: most tests sync a lot, and would wait for each other's syncs. Those about a disk ask for one."""
    with in_memory() as folder:
        yield Path(folder).resolve()


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disk")


@pytest.fixture
def home(tmp_path: os.PathLike[str]) -> str:
    return os.path.join(tmp_path, "home")


@pytest.fixture(scope="session")
def warm() -> Iterator[Nursery]:
    """Where programs come from that need no start-up."""
    with in_memory() as folder, nursery(folder) as found:
        yield found


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server for the stores of tests. Started by the first test that needs it."""
    if programs_folder() is None:
        pytest.skip("NOT TESTED: the store on Postgres; there is no Postgres for this platform")
    with postgres_server() as server:
        yield server
