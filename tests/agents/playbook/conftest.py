import os
from collections.abc import AsyncIterator

import pytest

from tests.agents.playbook.driver import Stagehand


@pytest.fixture
async def stage(tmp_path: os.PathLike[str]) -> AsyncIterator[Stagehand]:
    hand = Stagehand(os.fspath(tmp_path))
    try:
        yield hand
    finally:
        await hand.close()
