import os

import pytest

from tests.support.conversations import Place
from tests.support.projects import Project


@pytest.fixture
def project(tmp_path: os.PathLike[str]) -> Project:
    return Project.make(os.fspath(tmp_path))


@pytest.fixture
async def place(tmp_path: os.PathLike[str]) -> Place:
    return await Place.make(os.fspath(tmp_path))
