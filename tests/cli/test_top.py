"""`holdfast top` over stored runs: what it shows, as they come, move and go."""

import asyncio
import shutil
from pathlib import Path

import pytest

from holdfast.app.tui.dashboard import Dashboard
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskFailed, TaskStarted
from holdfast.engine.home import Home
from holdfast.engine.queries.live.watch_runs import Overview
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from tests.cli.boards import board
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import DONE, log_of, make_run, tasks
from tests.cli.scenes import FIRST_WAVE, SECOND_WAVE

AUTH, DOCS, RATES = "auth-abc234", "docs-abc234", "rates-abc234"
NARROW, WIDE = (80, 24), (200, 50)


def stored(home: str) -> None:
    """One that asks, one that failed, one that is done."""
    make_run(home, AUTH, *FIRST_WAVE, *SECOND_WAVE)
    make_run(home, DOCS, *tasks(3), DONE, goal="Write the documentation", at="2026-02-14T13:00:00.000Z")
    failed = (TaskStarted(task_id="T-1"), TaskFailed(task_id="T-1", error="the limiter does not count"))
    make_run(home, RATES, *failed, SessionEnd(reason="failed"), goal="Rate limits", at="2026-02-14T12:00:00.000Z")


async def made(home: str, *more: str) -> None:
    await asyncio.to_thread(stored, home)
    for run in more:
        await asyncio.to_thread(make_run, home, run)


async def test_what_needs_you_comes_first_and_the_chosen_run_is_shown_in_full(home: str) -> None:
    await made(home)
    async with board(home, WIDE) as screen:
        text = await screen.until("holdfast 3 runs · 2 need you · $0.42", "asks: Run rm -rf build", "agents")
        assert [line.split()[1] for line in screen.lines[2:4]] == [AUTH, RATES]
        assert screen.lines[4].split()[0] == DOCS
        for words in (
            "T-3: Run rm -rf build",
            "a approves, d denies",
            "T-1       COMPLETE     Design the schema",
            "T-2 worker claude  interrupted",
            "T-1 worker claude",
            "12.3k tok $0.31",
            "wave 2  in progress",
            "r resumes it at wave-2",
        ):
            assert words in text, words
        await screen.press("down")
        await screen.until(
            "T-1: failed: the limiter does not count", "r resumes it and asks you to choose:", "skip Task #T-1"
        )


@pytest.mark.parametrize("size", [(40, 12), NARROW, WIDE])
async def test_it_fits_any_terminal(home: str, size: tuple[int, int]) -> None:
    name = "a-very-long-name-" * 8 + "abc234"
    await made(home, name)
    async with board(home, size) as screen:
        await screen.until("3 need you", "a-very-long-n", "asks: Run rm")
        assert len(screen.text.split("\n")) == size[1]


async def test_without_runs_it_says_what_to_type_and_shows_the_first_one_that_is_made(home: str) -> None:
    async with board(home) as screen:
        await screen.until("holdfast 0 runs", 'holdfast run "add OAuth login"')
        for key in ("a", "r", "x", "s"):
            await screen.press(key)
            await screen.until("no run is selected")
        await asyncio.to_thread(make_run, home, AUTH)
        await screen.until("holdfast 1 run", AUTH, "Add OAuth login")
        await screen.until_gone("add OAuth login")


async def test_a_run_is_seen_to_begin_to_move_and_to_die(home: str) -> None:
    await made(home)
    async with board(home, WIDE) as screen:
        await screen.until("2 need you")
        owner = owner_of(home, DOCS)
        running = await asyncio.to_thread(owner.__enter__)
        try:
            await screen.until("1 running")
            await screen.press("end", *["up"] * 9)
            while "documentation" not in screen.lines[6]:
                await screen.press("down")
            await asyncio.to_thread(running.say, "I have come so far.")
            await screen.until("“I have come so far.”")
            await asyncio.to_thread(running.kill)
            await screen.until("3 need you")
        finally:
            await asyncio.to_thread(owner.__exit__, None, None, None)


async def test_a_run_that_is_taken_away_while_it_is_looked_at_is_gone_and_the_next_is_shown(home: str) -> None:
    await made(home)
    async with board(home) as screen:
        await screen.until("asks: Run rm -rf build")
        await FileStore(home).discard(AUTH)
        await screen.until("holdfast 2 runs", "T-1: failed: the limiter does not count")
        assert AUTH not in screen.text


async def test_a_run_whose_log_is_deleted_by_hand_is_told_and_the_others_go_on(home: str) -> None:
    await made(home)
    async with board(home) as screen:
        await screen.until("asks: Run rm -rf build")
        await asyncio.to_thread(shutil.rmtree, run_folder(home, AUTH))
        await screen.until("holdfast 2 runs", RATES)


async def test_a_damaged_run_is_shown_as_far_as_it_can_be_read(home: str) -> None:
    await made(home)
    log = log_of(home, DOCS)
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"\n") + 1] + b"\xff\xfe no line at all\n" + whole[whole.index(b"\n") + 1 :])
    async with board(home) as screen:
        await screen.until("3 runs")
        await screen.press("end")
        await screen.until("1 unreadable line in the log: holdfast verify docs-abc234", "3 of 3 tasks")


async def test_a_run_that_cannot_be_read_at_all_is_one_clear_line(home: str) -> None:
    await made(home)
    log = log_of(home, RATES)
    log.unlink()
    log.mkdir()
    async with board(home) as screen:
        await screen.until("unreadable")
        await screen.press("home")
        while "cannot be read (" not in screen.text:
            await screen.press("down")
        assert "Is a directory); look for repairs with: holdfast doctor" in " ".join(screen.text.split())


async def test_what_goes_wrong_is_one_line(home: str) -> None:
    await made(home)
    async with board(home, WIDE) as screen:
        await screen.until("3 runs")
        await screen.press("end")
        await screen.until("3 of 3 tasks")
        for keys, words in (
            (("r",), "killed before its plan was recorded"),
            (("a",), "docs-abc234 has no open request"),
            (("x",), "docs-abc234 is not running"),
            (("s", "enter"), "the message is empty; nothing was sent"),
            (("enter",), "docs-abc234 is not running (done); r resumes it"),
        ):
            await screen.press(*keys)
            await screen.until(words)


async def test_a_home_that_cannot_be_made_is_one_line(home: str) -> None:
    Path(home).write_text("no folder\n", encoding="utf-8")
    async with board(home, WIDE) as screen:
        await screen.until(f"{home}/runs: Not a directory")


async def test_a_filter_shows_only_what_fits_and_escape_shows_all(home: str) -> None:
    await made(home)
    async with board(home) as screen:
        await screen.until("3 runs")
        await screen.press("slash")
        await screen.type("rate fail")
        await screen.until("3 runs, 1 shown", "Rate limits")
        assert AUTH not in screen.text
        await screen.type(" x")
        await screen.until("No run matches “rate fail x”; Esc shows all runs.")
        await screen.press("escape")
        await screen.until(AUTH, RATES, DOCS)


async def test_help_explains_the_keys_and_goes_away(home: str) -> None:
    async with board(home) as screen:
        await screen.until("0 runs")
        await screen.press("question_mark")
        await screen.until("continue the run in the background", "Esc cancels")
        await screen.press("escape")
        await screen.until("0 runs")


def test_once_as_it_is_now_for_scripts_and_pipes(holdfast: Program) -> None:
    assert "no runs yet" in holdfast("top").err
    stored(holdfast.home)
    first, second, third = holdfast("top", "--json").objects
    assert [first["id"], second["id"], third["id"]] == [AUTH, RATES, DOCS]
    assert (first["call"], first["needs_you"], first["want"]) == ("question", True, "permission")
    assert (second["call"], second["need"]) == ("trouble", "failed: the limiter does not count")
    assert (third["call"], third["needs_you"], third["needs"]) == ("over", False, 0)
    lines = holdfast("top").lines
    assert [line[:2] for line in lines] == ["  ", "? ", "! ", "  "]
    assert "Run rm -rf build" in lines[1]


async def test_changes_that_come_after_top_closed_are_not_drawn(home: str) -> None:
    app = Dashboard(Home(home))
    async with app.run_test():
        pass
    app._show_overview(Overview(()))
    app._show_message("too late")
