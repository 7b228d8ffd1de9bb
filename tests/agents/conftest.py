import os

import pytest

from tests.agents.company import Company


@pytest.fixture
async def company(tmp_path: os.PathLike[str]) -> Company:
    return Company(os.fspath(tmp_path))
