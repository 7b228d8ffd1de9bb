"""Checks what a writer needs of a file system: real syncs, atomic renames, appends that never overwrite each other."""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from holdfast.engine.commands.demo import log as demonstration
from holdfast.engine.commands.selftest.base import CheckFailed, SelftestFinding, as_check_failure, doubt, fails, holds
from holdfast.engine.commands.selftest.child import child_process, read_line, record_line, send_line
from holdfast.engine.home import Home
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.files.directories import sync_directory

_MIN_SYNC_S = 30e-6  # seconds: no device syncs faster
_SLOW_SYNC_S = 0.1
_MILLISECOND_S = 1e-3
_WRITERS = ("north", "south", "east", "west")
_RECORD = b"y" * 300 + b"\n"


def check_sync(folder: str, *, count: int = 60, sync: Callable[[int], None] = os.fdatasync) -> SelftestFinding:
    """Check that a sync takes as long as a device needs."""
    fd = os.open(os.path.join(folder, "synced"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with as_check_failure("a sync was refused"):
            synced = [_measure_s(partial(_write_and_sync, sync, fd)) for _ in range(count)]
        written = [_measure_s(partial(os.write, fd, _RECORD)) for _ in range(count)]
    except CheckFailed as error:
        return fails(str(error), "nothing that is written here can be called safe: set HOLDFAST_HOME elsewhere")
    finally:
        os.close(fd)
    middle, plain = statistics.median(synced), statistics.median(written)
    what = (
        f"{_format_duration(middle)} (slowest {_format_duration(max(synced))}), a "
        f"write without it {_format_duration(plain)}"
    )
    if middle < max(_MIN_SYNC_S, 2 * plain):
        return doubt(
            f"{what}: too fast for a device. Either a battery-backed cache answers, or nothing waits for the disk",
            "if there is no such cache, a power cut may lose acknowledged data: check the write cache of the disk "
            "and of the virtual machine",
        )
    if middle > _SLOW_SYNC_S:
        return doubt(f"{what}: slow", "every step of a run waits for some of these; a faster disk makes runs faster")
    return holds(what)


def _write_and_sync(sync: Callable[[int], None], fd: int) -> None:
    os.write(fd, _RECORD)
    sync(fd)


def _measure_s(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _format_duration(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds >= _MILLISECOND_S else f"{seconds * 1e6:.0f} µs"


def check_killed_writer(
    folder: str, *, rounds: int = 3, writer: Sequence[str] = demonstration.WRITER_COMMAND, lines_before_kill: int = 150
) -> SelftestFinding:
    """Check that our journal survives writers killed in mid-stream, and a torn end."""
    home = Home(os.path.join(folder, "log"))
    run_id = asyncio.run(demonstration.create_log_run(home))
    promises = lost = 0
    for kill in demonstration.kill_writers(home, run_id, rounds, lines_before_kill, writer):
        promises, lost = promises + kill.acknowledged, kill.lost
    what = f"{promises} lines of killed writers"
    elsewhere = "do not work here: set HOLDFAST_HOME to a folder on another file system"
    if lost:
        return fails(f"{what}, {lost} of them lost", elsewhere)
    demonstration.tear_log_end(home, run_id)
    demonstration.resume_log_run(home, run_id)
    if not asyncio.run(verify_run(home, run_id)).is_intact:
        return fails(f"{what}, all there; but the log is not whole after its torn end", elsewhere)
    return holds(f"{what}, none lost; a torn end was set aside")


def check_rename(
    folder: str, *, count: int = 200, rename: Callable[[str, str], None] = os.rename, reads: int = 2000
) -> SelftestFinding:
    """Check that a rename is atomic: a reader sees the old or the new content, and an open file keeps its own."""
    path, new = os.path.join(folder, "renamed"), os.path.join(folder, "renamed.new")
    contents = {bytes([letter]) * 20_000 for letter in b"ab"}
    old, other = sorted(contents)
    _write_file(path, old)
    open_fd = os.open(path, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(1) as reader, as_check_failure("a name was not changed, or its folder not synced"):
            seen = reader.submit(lambda: {_read_file(path) for _ in range(reads)})
            for _ in range(count):
                _write_file(new, other)
                rename(new, path)
                sync_directory(folder)
                old, other = other, old
        content = os.pread(open_fd, 30_000, 0)
    except CheckFailed as error:
        return fails(str(error), "snapshots cannot be kept here: set HOLDFAST_HOME elsewhere")
    finally:
        os.close(open_fd)
    if not seen.result() <= contents or content != min(contents):
        return fails("a reader found a mixture of the old and the new", "do not work here: set HOLDFAST_HOME elsewhere")
    if os.path.exists(new) or _read_file(path) != old:
        return fails("a renamed file was still there by its old name", "do not work here: set HOLDFAST_HOME elsewhere")
    return holds(f"{count} times, {reads} looks: old or new, never a mixture")


def _write_file(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def check_append(folder: str, *, count: int = 300, flags: int = os.O_APPEND) -> SelftestFinding:
    """Check that several processes appending to one file never overwrite each other."""
    path = os.path.join(folder, "appended")
    _write_file(path, b"")
    with ExitStack() as stack:
        writers = [
            stack.enter_context(child_process("append", path, str(flags), str(count), name)) for name in _WRITERS
        ]
        for writer in writers:
            read_line(writer)
        for writer in writers:
            send_line(writer)
        for writer in writers:
            writer.wait()
    found = sorted(_read_file(path).splitlines(keepends=True))
    expected = sorted(record_line(name, number) for name in _WRITERS for number in range(count))
    what = f"{len(_WRITERS)} processes, {len(expected)} lines"
    if found != expected:
        return fails(
            f"{what}: {len(expected) - len(set(found) & set(expected))} were overwritten",
            "messages to a run could be lost: set HOLDFAST_HOME to a local disk",
        )
    return holds(f"{what}, each whole")
