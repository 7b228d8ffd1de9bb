import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.crash_suite.builtin_runs import modelled_nursery
from tests.support.crash_suite.scenarios import SCENARIOS
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.effect_crash import Play, Prepared
from tests.support.effect_stage import Stage
from tests.support.memory import in_memory


@pytest.fixture(scope="session")
def suites(warm: Nursery) -> Iterator[FailpointSuites]:
    """Where whole runs are killed; each is begun once and kept, for it knows how the undisturbed one ends."""
    known: dict[str, FailpointSuite] = {}

    def suite(name: str) -> FailpointSuite:
        if name not in known:
            script = SCENARIOS[name].model
            own = warm if script is None else opened.enter_context(modelled_nursery(folder, script))
            known[name] = FailpointSuite(folder, SCENARIOS[name], own)
        return known[name]

    with in_memory() as folder, ExitStack() as opened:
        yield suite


@pytest.fixture(scope="session")
def plays() -> Iterator[tuple[str, dict[str, Play]]]:
    """Where the plays are, and those that were prepared already: it takes longer than to play them."""
    with in_memory() as folder:
        yield folder, {}


@pytest.fixture
def prepared(plays: tuple[str, dict[str, Play]], monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """The play of a kind of effect, at its beginning; this process is on its stage too."""
    folder, known = plays

    async def prepare(kind: str) -> Play:
        stage = Stage(os.path.join(folder, kind))
        for name, value in stage.environment.items():
            monkeypatch.setenv(name, value)
        if kind not in known:
            known[kind] = await Play.prepare(stage, kind)
        known[kind].set_back()
        return known[kind]

    return prepare


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage with nothing on it yet."""
    with in_memory() as folder:
        stage = Stage(os.path.join(folder, "stage"))
        for name, value in stage.environment.items():
            monkeypatch.setenv(name, value)
        yield stage
