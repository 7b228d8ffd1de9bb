import os
from pathlib import Path

import pytest

from tests.cli.adopter import Adopter
from tests.cli.program import Program
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.postgres import PostgresServer
from tests.support.projects import Project


def stage_on(url: str, folder: str, nursery: Nursery | None) -> Stage:
    """A stage whose runs are in a database."""
    return Stage(Program(os.path.join(folder, "home"), folder, nursery, url), Project.make(folder), folder, nursery)


@pytest.fixture
def stage(postgres: PostgresServer, tmp_path: Path, warm: Nursery) -> Stage:
    return stage_on(postgres.new_store_url(), os.fspath(tmp_path), warm)


@pytest.fixture
def adopter(stage: Stage, tmp_path: Path) -> Adopter:
    folder = tmp_path / "user"
    folder.mkdir()
    return Adopter(stage.holdfast, stage, folder)
