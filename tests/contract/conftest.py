import pytest

from holdfast.store.base import Store
from tests.contract.backends import Backend, Files, Memory

RUN = "run-aaaaaa"


@pytest.fixture(params=["files", "memory"])
def backend(request: pytest.FixtureRequest, home: str) -> Backend:
    return Files(home) if request.param == "files" else Memory()


@pytest.fixture
async def store(backend: Backend) -> Store:
    """A store that holds one empty run."""
    store = backend.store()
    await store.create(RUN)
    return store
