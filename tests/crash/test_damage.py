"""Damage in acknowledged history is no torn write: it is left where it is, passed over, and noted."""

import pytest

from holdfast.core.events.session import SessionStart
from holdfast.core.events.task import TaskCompleted
from holdfast.core.log.codec import CODEC, Line, parse
from holdfast.store.base import Position
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.events import START, Label, label_of, labels_in, numbered
from tests.support.logs import assert_chained, folded, whole
from tests.support.run_files import RUN, content, lock_file, log_file, put_content, remove, snapshot_file, torn_pieces
from tests.support.variants import first

RESUME = SessionStart(command="resume")

LINES = 9


async def written(home: str) -> list[bytes]:
    """The lines of a log of single and of shared commits; the last three are its last commit."""
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.append(numbered("a", 1))
        await run.append(numbered("a", 2), numbered("a", 3), numbered("a", 4))
        await run.append(numbered("a", 5))
        await run.append(numbered("a", 6), numbered("a", 7), numbered("a", 8))
    remove(snapshot_file(home))
    lines = (await whole(store, RUN)).splitlines(keepends=True)
    assert len(lines) == LINES
    return lines


def readable_labels(data: bytes) -> list[Label]:
    """As `labels_in`, in a log where anything may be damaged."""
    found = []
    for raw in data.split(b"\n"):
        line = parse(raw)
        event = CODEC.event(line) if isinstance(line, Line) else None
        if isinstance(event, TaskCompleted):
            found.append(label_of(event))
    return found


async def assert_kept(home: str, damaged: bytes, malformed: int) -> None:
    """Nothing is cut, the notes are there, and the log goes on, twice."""
    store = FileStore(home)
    put_content(log_file(home), damaged)
    for turn in range(2):
        async with open_run(store, RUN) as run:
            assert run.state == folded(await whole(store, RUN))
            assert len(run.state.malformed) == malformed
            await run.begin_session(RESUME, numbered("after", turn))
    data = content(log_file(home))
    assert data.startswith(damaged)
    assert torn_pieces(log_file(home)) == {}
    assert readable_labels(data) == [*readable_labels(damaged), ("after", 0), ("after", 1)]
    with pytest.raises(AssertionError, match="chain"):
        assert_chained(data)


@pytest.mark.parametrize("place", range(LINES - 3))
@pytest.mark.parametrize(
    "garbage", [b"garbage\n", b"\0" * 4096 + b"\n", b"{}\n", b"\xff\xfe\n", b'{"v":1\n', b"}{\n", b"[" * 9999 + b"\n"]
)
async def test_a_line_that_is_no_event_is_passed_over(home: str, place: Position, garbage: bytes) -> None:
    lines = await written(home)
    damaged = b"".join((*lines[:place], garbage, *lines[place:]))
    assert labels_in(damaged) == labels_in(b"".join(lines))
    await assert_kept(home, damaged, malformed=1)


@pytest.mark.parametrize("place", range(LINES - 3))
@pytest.mark.parametrize("kind", ["zeros", "half", "middle", "glued"])
async def test_an_acknowledged_line_that_is_damaged_takes_no_other_along(home: str, place: int, kind: str) -> None:
    lines = await written(home)
    line = lines[place]
    others = labels_in(b"".join((*lines[:place], *lines[place + 1 :])))
    lines[place] = {
        "zeros": b"\0" * (len(line) - 1) + b"\n",
        "half": line[: len(line) // 2] + b"\n",
        "middle": line[:50] + b"\0" * 100 + line[150:],
        "glued": b"garbage" + line,
    }[kind]
    damaged = b"".join(lines)
    await assert_kept(home, damaged, malformed=1)
    assert readable_labels(damaged) == others


@pytest.mark.parametrize("step", first(11, 1))
@pytest.mark.parametrize("bit", [0x01, 0x20])
async def test_a_flipped_bit_anywhere_in_history_cuts_nothing_off(home: str, bit: int, step: int) -> None:
    """At every byte of an acknowledged commit; in the short suite, at some. The chain shows it, whatever it did."""
    lines = await written(home)
    store, path = FileStore(home), log_file(home)
    whole_log = bytearray(b"".join(lines))
    start, end = len(b"".join(lines[:2])), len(b"".join(lines[:5]))
    for place in range(start, end, step):
        damaged = bytearray(whole_log)
        damaged[place] ^= bit
        put_content(path, bytes(damaged))
        remove(snapshot_file(home))
        async with open_run(store, RUN) as run:
            assert run.state.lines in (LINES - 1, LINES, LINES + 1)
            await run.begin_session(RESUME)
        assert content(path).startswith(damaged)
        with pytest.raises(AssertionError, match="chain"):
            assert_chained(bytes(damaged))
    assert torn_pieces(path) == {}


@pytest.mark.parametrize("place", range(LINES - 3, LINES))
async def test_damage_in_the_last_commit_is_set_aside_with_its_call(home: str, place: int) -> None:
    """There it cannot be told from a torn write; but nothing is destroyed."""
    lines = await written(home)
    lines[place] = b"\0" * len(lines[place][:-1]) + b"\n"
    damaged = b"".join(lines)
    put_content(log_file(home), damaged)
    async with open_run(FileStore(home), RUN) as run:
        await run.begin_session(RESUME)
        assert len(run.state.repairs) == 1
    assert list(torn_pieces(log_file(home)).values()) == [b"".join(lines[-3:])]
    assert content(log_file(home)).startswith(b"".join(lines[:-3]))


async def test_a_damaged_lock_or_snapshot_keeps_no_run_from_opening(home: str) -> None:
    lines = await written(home)
    for garbage in (b"", b"\0" * 300, b"{", b"[]", b'{"epoch":"many"}', b"\xff"):
        put_content(snapshot_file(home), garbage)
        put_content(lock_file(home), garbage)
        async with open_run(FileStore(home), RUN) as run:
            assert run.state == folded(b"".join(lines))


async def test_damage_before_half_a_call_is_not_cut_off_with_it(home: str) -> None:
    """The commit that was torn begins after it."""
    lines = await written(home)
    damaged = [*lines[:2], lines[2][:20] + b"\0\0\0" + lines[2][23:], *lines[3:5]]
    put_content(log_file(home), b"".join([*damaged, lines[6]]))
    async with FileStore(home).own(RUN) as lease:
        await lease.repair()
    assert content(log_file(home)) == b"".join(damaged)
    assert list(torn_pieces(log_file(home)).values()) == [lines[6]]
