"""Runs that are minded: what goes wrong with one is told, and does not end the minding of it."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.engine.commands import supervise as keeping
from holdfast.engine.commands.supervise import supervise_runs
from holdfast.engine.home import Home
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.wait import until

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
    minding = asyncio.create_task(supervise_runs(Home(home), lambda _, words: said.append(words)))
    await until(lambda: len(said) == 1)
    assert "config.toml:1" in said[0]

    config.write_text("resume.back_off = 0.1\n", encoding="utf-8")
    await _cut_off(home)
    await until(lambda: len(said) == 2)
    assert "before its plan was recorded" in said[1]
    minding.cancel()


async def test_what_the_system_refuses_to_one_run_is_told_and_the_others_are_minded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has no place for its runner's words, another a log that cannot be read; a third comes later."""
    home, config = os.fspath(tmp_path / "home"), tmp_path / "config.toml"
    config.write_text("resume.back_off = 0.1\n", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_CONFIG", os.fspath(config))
    await FileStore(home).create(RUN)
    await _cut_off(home, RunCreated(run_id=RUN, goal="g"))
    in_the_way = Path(run_folder(home, RUN), "runner.log")
    in_the_way.mkdir()
    Path(run_folder(home, "bad-abc234"), "events.jsonl").mkdir(parents=True)
    said: list[tuple[str, str]] = []
    minding = asyncio.create_task(supervise_runs(Home(home), lambda run_id, words: said.append((run_id, words))))
    await until(lambda: len(said) == 2)
    assert sorted(run_id for run_id, _ in said) == [RUN, "bad-abc234"]
    assert all("Is a directory" in words for _, words in said)

    in_the_way.rmdir()
    await _cut_off(home)
    await FileStore(home).create("new-abc234")
    await _cut_off(home, RunCreated(run_id="new-abc234", goal="g"), run_id="new-abc234")
    await until(lambda: len(said) == 4)
    assert {run_id for run_id, words in said[2:] if "before its plan was recorded" in words} == {RUN, "new-abc234"}
    assert not minding.done()
    minding.cancel()


async def test_what_could_not_be_revived_is_tried_again_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = os.fspath(tmp_path / "home")
    monkeypatch.setattr(keeping, "_RETRY_DELAY_S", 0.05)
    await FileStore(home).create(RUN)
    await _cut_off(home, RunCreated(run_id=RUN, goal="g"))
    log = Path(run_folder(home, RUN), "events.jsonl")
    log.rename(tmp_path / "aside")
    log.mkdir()
    said: list[str] = []
    minding = asyncio.create_task(supervise_runs(Home(home), lambda _, words: said.append(words)))
    await until(lambda: len(said) == 1)
    await asyncio.sleep(0.3)
    assert len(said) == 1

    log.rmdir()
    (tmp_path / "aside").rename(log)
    await until(lambda: len(said) == 2)
    assert "before its plan was recorded" in said[1]
    minding.cancel()


@pytest.mark.parametrize("when", ["followed", "refused"])
async def test_a_run_that_is_taken_away_is_minded_no_more_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """One that came to its end is waited for at its log; one that could not go on, for the time to try again."""
    home, config = os.fspath(tmp_path / "home"), tmp_path / "config.toml"
    store = FileStore(home)
    monkeypatch.setenv("HOLDFAST_CONFIG", os.fspath(config))
    monkeypatch.setattr(keeping, "_RETRY_DELAY_S", 0.05)
    config.write_text("caps = 3\n" if when == "refused" else "", encoding="utf-8")
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(
            SessionStart(command="run"), RunCreated(run_id=RUN, goal="g"), SessionEnd(reason="all_done")
        )
    said: list[tuple[str, str]] = []
    minding = asyncio.create_task(supervise_runs(Home(home), lambda run_id, words: said.append((run_id, words))))
    await until(lambda: bool(said) if when == "refused" else bool(_minders()))
    minders = _minders()
    assert len(minders) == 1

    await store.discard(RUN)
    await until(lambda: all(minder.done() for minder in minders))
    assert all(run_id == RUN and "config.toml" in words for run_id, words in said)
    config.write_text("resume.back_off = 0.1\n", encoding="utf-8")
    await store.create("new-abc234")
    await _cut_off(home, RunCreated(run_id="new-abc234", goal="g"), run_id="new-abc234")
    await until(lambda: any(run_id == "new-abc234" for run_id, _ in said))
    assert not minding.done()
    minding.cancel()


async def test_what_comes_while_runs_cannot_be_listed_is_minded_when_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, aside = os.fspath(tmp_path / "home"), tmp_path / "aside"
    runs = Path(run_folder(home, RUN)).parent
    monkeypatch.setattr(keeping, "_RETRY_DELAY_S", 0.05)
    said: list[tuple[str, str]] = []
    minding = asyncio.create_task(supervise_runs(Home(home), lambda of, words: said.append((of, words))))
    await until(runs.is_dir)
    runs.rename(aside)
    runs.touch()
    (aside / "something").mkdir()  # it is told of that, and looks
    await until(lambda: bool(said))
    folder, words = said[0]
    assert folder == os.fspath(runs)
    assert words.startswith("new runs are not supervised: ")
    assert "Not a directory" in words

    runs.unlink()
    aside.rename(runs)
    await FileStore(home).create(RUN)
    await _cut_off(home, RunCreated(run_id=RUN, goal="g"))
    await until(lambda: any(of == RUN and "before its plan was recorded" in words for of, words in said))
    assert not minding.done()
    minding.cancel()


async def test_runs_that_are_put_back_are_minded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the disk that they are on is taken out, and comes again."""
    home, config, aside = os.fspath(tmp_path / "home"), tmp_path / "config.toml", tmp_path / "aside"
    runs = Path(run_folder(home, RUN)).parent
    monkeypatch.setenv("HOLDFAST_CONFIG", os.fspath(config))
    monkeypatch.setattr(keeping, "_RETRY_DELAY_S", 0.05)
    config.write_text("caps = 3\n", encoding="utf-8")
    await FileStore(home).create(RUN)
    await _cut_off(home, RunCreated(run_id=RUN, goal="g"))
    said: list[str] = []
    minding = asyncio.create_task(supervise_runs(Home(home), lambda _, words: said.append(words)))
    await until(lambda: bool(said))
    minders = _minders()
    runs.rename(aside)
    await until(lambda: all(minder.done() for minder in minders))
    config.write_text("resume.back_off = 0.1\n", encoding="utf-8")
    aside.rename(runs)
    await until(lambda: "before its plan was recorded" in said[-1])
    minding.cancel()


def _minders() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "_supervise"]  # type: ignore[union-attr]


async def _cut_off(home: str, *events: RunCreated, run_id: str = RUN) -> None:
    """A session without an end."""
    async with open_run(FileStore(home), run_id) as run:
        await run.begin_session(SessionStart(command="run"), *events)
