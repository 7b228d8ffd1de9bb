"""Any story of a run on a real repository: agents, their user, Holdfast, and crashes in the middle of everything.

However they follow on one another: no line of an agent's is lost by Holdfast, the user's own checkout is as they made
it, nothing is done twice, every effect has its outcome, no lock is left, and log and repository are whole.

`HOLDFAST_STORY=17 pytest tests/property/test_workspace_story.py` plays one story again; what it was is told on failure.
"""

import os
from collections.abc import Iterator

import pytest

from tests.support.memory import in_memory
from tests.support.story import Story


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place where a sync costs nothing, and a git that is nobody's."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with in_memory() as place:
        yield place


def _seeds(*usual: int) -> list[int]:
    asked = os.environ.get("HOLDFAST_STORY")
    return [int(asked)] if asked else list(range(*usual))


@pytest.mark.parametrize("seed", _seeds(5))
async def test_no_story_loses_anything(folder: str, seed: int) -> None:
    await Story(folder, seed).play(25)


@pytest.mark.torture
@pytest.mark.parametrize("seed", _seeds(5, 12))
async def test_no_other_story_loses_anything(folder: str, seed: int) -> None:
    await Story(folder, seed).play(25)


@pytest.mark.torture
@pytest.mark.parametrize("seed", _seeds(1000, 1400))
async def test_no_long_story_loses_anything(folder: str, seed: int) -> None:
    await Story(folder, seed).play(60)
