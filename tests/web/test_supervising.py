"""A server resumes what was interrupted, as `holdfast watch` does, unless it is told not to."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.app.web.site import Site
from holdfast.app.web.supervision import Supervision
from holdfast.engine.home import Home
from tests.cli.program import Program
from tests.cli.test_run_watched import cut_off
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.projects import Project
from tests.support.wait import until
from tests.web.server import Server


@pytest.fixture
def stage(home: str, tmp_path: Path, warm: Nursery) -> Stage:
    work = tmp_path / "work"
    work.mkdir()
    project = Project.make(os.fspath(tmp_path))
    return Stage(Program(home, os.fspath(work), warm), project, os.fspath(tmp_path), warm)


def test_a_killed_run_is_resumed_by_the_server(stage: Stage) -> None:
    run = cut_off(stage, once=True)
    with Server.start(stage.home, environment=stage.holdfast.environment()) as server:
        asyncio.run(until(lambda: server.get(f"/runs/{run}").json["status"] == "done"))
    assert stage.file(run, "one.txt") == "1"


class OddHome(Home):
    def file(self, *_: str) -> str:
        raise RuntimeError("an odd home")


async def test_a_bug_ends_resuming_aloud_and_not_for_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = cast("Site", SimpleNamespace(home=OddHome(tmp_path), is_supervising=False))
    resuming = asyncio.create_task(Supervision(site).run())
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return bool(told)

    await until(is_told)
    assert told == "runs are not resumed now: a bug in Holdfast: RuntimeError('an odd home')\n"
    assert not resuming.done()
    resuming.cancel()
