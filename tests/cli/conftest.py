import os

import pytest

from tests.cli.program import Program
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.projects import Project


@pytest.fixture
def holdfast(home: str, tmp_path: os.PathLike[str], warm: Nursery) -> Program:
    cwd = os.path.join(tmp_path, "work")
    os.mkdir(cwd)
    return Program(home, cwd, warm)


@pytest.fixture
def project(tmp_path: os.PathLike[str]) -> Project:
    return Project.make(os.fspath(tmp_path))


@pytest.fixture
def stage(holdfast: Program, project: Project, tmp_path: os.PathLike[str], warm: Nursery) -> Stage:
    return Stage(holdfast, project, os.fspath(tmp_path), warm)
