from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.postgres import PostgresServer
from tests.support.temporal import TemporalServer, temporal_program, temporal_server


@pytest.fixture(scope="session")
def temporal() -> Iterator[TemporalServer]:
    """A real server. Started by the first test that needs it."""
    if temporal_program() is None:
        pytest.skip("NOT TESTED: placement by Temporal; there is no Temporal server for this platform")
    with temporal_server() as server:
        yield server


@pytest.fixture
def cluster(tmp_path: Path, postgres: PostgresServer, temporal: TemporalServer) -> Iterator[Cluster]:
    """No worker yet. The Temporal server is shared: a test's runs wait in its queues only for workers of the test."""
    found = Cluster(str(tmp_path), postgres.new_store_url(), temporal.new_namespace())
    try:
        yield found
    finally:
        found.close()
