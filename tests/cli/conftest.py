import os
from pathlib import Path

import pytest

from tests.cli.adopter import Adopter
from tests.cli.program import Program
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.projects import Project


@pytest.fixture
def holdfast(home: str, tmp_path: os.PathLike[str], warm: Nursery, request: pytest.FixtureRequest) -> Program:
    """On files; on a database when HOLDFAST_TEST_STORE says so, to see what of the commands works there."""
    cwd = os.path.join(tmp_path, "work")
    os.mkdir(cwd)
    on_postgres = os.environ.get("HOLDFAST_TEST_STORE") == "postgres"
    return Program(home, cwd, warm, request.getfixturevalue("postgres").new_store_url() if on_postgres else None)


@pytest.fixture
def project(tmp_path: os.PathLike[str]) -> Project:
    return Project.make(os.fspath(tmp_path))


@pytest.fixture
def stage(holdfast: Program, project: Project, tmp_path: os.PathLike[str], warm: Nursery) -> Stage:
    return Stage(holdfast, project, os.fspath(tmp_path), warm)


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def adopter(holdfast: Program, stage: Stage, user_home: Path) -> Adopter:
    return Adopter(holdfast, stage, user_home)
