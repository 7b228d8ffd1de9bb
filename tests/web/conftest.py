import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.memory import in_memory
from tests.support.ports import reserved_port
from tests.support.projects import Project
from tests.web.server import Server

RUN = "add-login-abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of a home with one run, which supervises nothing. The tests of a file share it."""
    with in_memory() as folder:
        home = str(Path(folder, "home"))
        Path(home).mkdir()
        make_run(home, RUN)
        with Server.start(home, "--no-watch") as started:
            yield started


@pytest.fixture
def port() -> Iterator[int]:
    """For a server whose successor listens on the same one."""
    with reserved_port() as reserved:
        yield reserved


@pytest.fixture
def stage(home: str, tmp_path: Path, warm: Nursery) -> Stage:
    """A user's project and a home, in which runs are started as programs."""
    work = tmp_path / "work"
    work.mkdir()
    project = Project.make(os.fspath(tmp_path))
    return Stage(Program(home, os.fspath(work), warm), project, os.fspath(tmp_path), warm)


@pytest.fixture
def stage_server(stage: Stage) -> Iterator[Server]:
    """A server of that home, which supervises nothing."""
    os.makedirs(stage.home, exist_ok=True)
    with Server.start(stage.home, "--no-watch") as started:
        yield started
