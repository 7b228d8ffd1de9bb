"""What the shells may ask: of runs in the home, and of logs anywhere."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.core.log.codec import Line
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import LogFilter, analyze_log, follow_log, logs_under, read_log, view_run
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.errors import BadInput, NoSuchRun
from tests.cli.foreign import SEED_LOG, checkpoint, event, put, started
from tests.cli.runs import log_of, make_run, said, tasks

RUN = "auth-abc234"

ALL = LogFilter()


async def seqs(home: str, wanted: LogFilter = ALL, last: int | None = None) -> list[int]:
    return [
        found.line.seq async for found in read_log(Home(home), RUN, wanted, last=last) if isinstance(found.line, Line)
    ]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.torture)])
def test_every_single_byte_counts(home: str, every: int) -> None:
    """Whichever byte of a line is changed, `verify` names that line; the long tests change each, the others a part."""
    make_run(home, RUN, *tasks(1), said("Grüße"))
    log = log_of(home, RUN)
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = len(b"".join(lines[:3]))
    verdicts = _verdicts_of_flips(home, log, whole, range(start, start + len(lines[3]), every))
    assert len(verdicts) == 2 * len(range(0, len(lines[3]), every))
    assert set(verdicts.values()) == {4}


def _verdicts_of_flips(home: str, log: Path, whole: bytes, places: range) -> dict[tuple[int, int], int | None]:
    async def look() -> dict[tuple[int, int], int | None]:
        found: dict[tuple[int, int], int | None] = {}
        for place in places:
            for mask in (0x01, 0x80):
                flipped = bytearray(whole)
                flipped[place] ^= mask
                log.write_bytes(flipped)
                verdict = await verify_run(Home(home), RUN)
                found[place, mask] = verdict.damage[0].line if verdict.damage else None
        return found

    return asyncio.run(look())


@pytest.mark.parametrize("last", [0, 1, 2, 50, 1999, 2000, 5000])
async def test_the_last_lines_are_found_over_the_chunks_of_a_long_log(home: str, last: int) -> None:
    log = b"".join(event("x", seq, {"pad": "p" * 300}) for seq in range(2000))
    put(home, "runs", RUN, "events.jsonl", log=log)
    assert await seqs(home, last=last) == list(range(max(0, 2000 - last), 2000))


async def test_the_last_lines_are_counted_among_those_that_are_wanted(home: str) -> None:
    log = b"".join(event("rare" if seq % 700 == 0 else "x", seq, {"pad": "p" * 500}) for seq in range(2000))
    put(home, "runs", RUN, "events.jsonl", log=log)
    assert await seqs(home, LogFilter(("rare",)), last=2) == [700, 1400]
    assert await seqs(home, LogFilter(("r*",)), last=9) == [0, 700, 1400]


async def test_blank_lines_are_no_lines_and_unreadable_ones_are(home: str) -> None:
    put(home, "runs", RUN, "events.jsonl", log=started() + b"\n\nnoise\n\n" + event("x", 1) + b"torn")
    found = [type(line.line).__name__ async for line in read_log(Home(home), RUN, ALL)]
    assert found == ["Line", "Malformed", "Line"]
    assert [line.raw async for line in read_log(Home(home), RUN, ALL, last=2)] == [b"noise", event("x", 1).rstrip()]


async def test_a_cursor_is_the_position_after_its_line(home: str) -> None:
    put(home, "runs", RUN, "events.jsonl", log=SEED_LOG)
    cursors = [line.cursor async for line in read_log(Home(home), RUN, ALL)]
    assert cursors[0] == SEED_LOG.index(b"\n") + 1
    assert cursors[-1] == len(SEED_LOG)


async def test_following_can_be_stopped_at_any_line(home: str) -> None:
    put(home, "runs", RUN, "events.jsonl", log=SEED_LOG)
    following = follow_log(Home(home), RUN, ALL, last=3)
    first = await anext(following)
    assert isinstance(first.line, Line)
    assert first.line.seq == 8
    await following.aclose()


async def test_a_run_that_is_not_there_is_no_such_run(home: str) -> None:
    for asked in (view_run(Home(home), RUN), verify_run(Home(home), RUN), anext(read_log(Home(home), RUN, ALL))):
        with pytest.raises(NoSuchRun):
            await asked


async def test_a_view_tells_how_a_run_stands_and_how_it_would_go_on(home: str) -> None:
    put(home, "runs", RUN, "events.jsonl", log=SEED_LOG)
    view = await view_run(Home(home), RUN)
    assert (view.status, view.holder, view.analysis.decision.case) == ("interrupted", None, "auto")
    assert view.state.events == 11


async def test_a_last_line_without_its_newline_counts_once(home: str) -> None:
    path = put(home, "log", log=started() + checkpoint(1) + event("task.started", 2, {"taskId": "1"}).rstrip())
    analysis = await analyze_log(path)
    assert (analysis.events, list(analysis.tasks), analysis.malformed) == (3, ["1"], ())


async def test_a_last_line_without_its_newline_counts_in_the_session_that_is_looked_at(home: str) -> None:
    ended = started(sid="s2") + event("session.end", 1, sid="s2")
    path = put(home, "log", log=started() + ended + checkpoint(1).rstrip())
    analysis = await analyze_log(path)
    assert (analysis.sid, analysis.events) == ("s1", 2)
    assert analysis.checkpoint is not None


def test_logs_come_newest_first(home: str) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        os.utime(put(home, name, "events.jsonl", log=b""), (1000 - age, 1000 - age))
    assert [Path(log).parent.name for log in logs_under(home)] == ["new", "middle", "old"]


def test_a_folders_own_log_comes_before_those_below_it(home: str) -> None:
    own = put(home, "events.jsonl", log=b"")
    put(home, "feature", "events.jsonl", log=b"")
    put(home, ".claude", "progress", "feature", "events.jsonl", log=b"")
    assert logs_under(home) == [own]


def test_a_folder_without_logs_says_what_was_expected(home: str) -> None:
    os.mkdir(home)
    with pytest.raises(BadInput, match=r"holds no events\.jsonl, nor folders with one; name a log"):
        logs_under(home)
