import os
import tempfile
from collections.abc import Iterator

import pytest

from tests.agents.builtin.driving import Bench, Zygote, zygote
from tests.support.model_server.server import ModelServer


@pytest.fixture(scope="session")
def forked() -> Iterator[Zygote]:
    with tempfile.TemporaryDirectory() as folder, zygote(folder) as running:
        yield running


@pytest.fixture(scope="session")
def serving() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def model(serving: ModelServer) -> Iterator[ModelServer]:
    """The scripted model; a call that the script does not know fails the test."""
    serving.reset()
    yield serving
    assert serving.unexpected == []
    serving.reset()


@pytest.fixture
def bench(forked: Zygote, tmp_path: os.PathLike[str]) -> Bench:
    places = [os.path.join(tmp_path, name) for name in ("worktree", "home")]
    for place in places:
        os.mkdir(place)
    return Bench(forked, places[0], places[1], os.path.join(tmp_path, "stderr"))
