import os

import pytest

from tests.cli.program import Program


@pytest.fixture
def holdfast(home: str, tmp_path: os.PathLike[str]) -> Program:
    cwd = os.path.join(tmp_path, "work")
    os.mkdir(cwd)
    return Program(home, cwd)
