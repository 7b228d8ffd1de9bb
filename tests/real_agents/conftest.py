import os
from collections.abc import Iterator

import pytest

from tests.real_agents.setups import SETUPS
from tests.real_agents.stage import Stage
from tests.support.model_server.server import ModelServer

AGENTS = os.environ.get("AGENTS", "").split() or list(SETUPS)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=AGENTS)
async def stage(request: pytest.FixtureRequest, model: ModelServer, tmp_path: os.PathLike[str]) -> Stage:
    return await Stage.make(request.param, model, os.fspath(tmp_path))
