"""Runs that are minded: what goes wrong with one is told, and does not end the minding of it."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.engine.keeping import keep_alive
from holdfast.store.files import FileStore
from holdfast.store.run import open_run
from tests.support.waiting import until

RUN = "auth-abc234"


async def test_a_config_that_cannot_be_read_is_told_and_the_run_is_minded_again_when_it_was_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, config = os.fspath(tmp_path / "home"), tmp_path / "config.toml"
    monkeypatch.setenv("HOLDFAST_CONFIG", os.fspath(config))
    config.write_text("caps = 3\n", encoding="utf-8")
    await FileStore(home).create(RUN)
    await _cut_off(home, RunCreated(run_id=RUN, goal="g"))
    said: list[str] = []
    minding = asyncio.create_task(keep_alive(home, lambda _, words: said.append(words)))
    await until(lambda: len(said) == 1)
    assert "config.toml:1" in said[0]

    config.write_text("", encoding="utf-8")
    await _cut_off(home)
    await until(lambda: len(said) == 2)
    assert "before its plan was made" in said[1]
    minding.cancel()


async def _cut_off(home: str, *events: RunCreated) -> None:
    """A sitting without an end."""
    async with open_run(FileStore(home), RUN) as run:
        await run.begin(SessionStart(command="run"), *events)
