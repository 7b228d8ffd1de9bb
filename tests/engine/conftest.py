import os

import pytest

from tests.support.projects import Project


@pytest.fixture
def project(tmp_path: os.PathLike[str]) -> Project:
    return Project.make(os.fspath(tmp_path))
