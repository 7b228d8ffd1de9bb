import pytest

from holdfast.store.base import Store
from tests.contract.backends import Backend, Files, Memory, Postgres
from tests.support.postgres import PostgresServer

RUN = "run-aaaaaa"


@pytest.fixture(params=["files", "memory", "postgres"])
def backend(request: pytest.FixtureRequest, home: str) -> Backend:
    if request.param == "files":
        return Files(home)
    if request.param == "memory":
        return Memory()
    server: PostgresServer = request.getfixturevalue("postgres")
    return Postgres(server.new_store_url(), home)


@pytest.fixture
async def store(backend: Backend) -> Store:
    """A store that holds one empty run."""
    store = backend.store()
    await store.create(RUN)
    return store
