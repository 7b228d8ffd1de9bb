"""The plain log is deleted only when its compressed copy was decoded, and holds the same."""

import os
from pathlib import Path

import pytest

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.disk import REAL_DISK
from holdfast.store.files.compaction import FileLogCompressor
from holdfast.store.files.frames import FRAME_BYTES
from holdfast.store.files.log_bytes import open_log_bytes

LINES = b"".join(b'{"n":%d}\n' % number for number in range(FRAME_BYTES // 4))


def write_flipped(fd: int, data: bytes | memoryview) -> int:
    """A disk that changes one bit in the middle of a frame."""
    flipped = bytearray(data)
    flipped[len(flipped) // 2] ^= 1
    return os.write(fd, flipped)


def test_copy_that_a_disk_damaged_leaves_the_plain_log(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(LINES)
    with pytest.raises(StorageFailed, match="was not compressed: the copy cannot be read"):
        FileLogCompressor(os.fspath(log), REAL_DISK._replace(write=write_flipped)).compress(1, lambda lines: lines)
    assert log.read_bytes() == LINES
    assert os.listdir(tmp_path) == ["events.jsonl"]


def test_copy_of_another_content_leaves_the_plain_log(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(LINES)
    rewritten = iter([LINES.replace(b"1", b"2"), LINES])
    with pytest.raises(StorageFailed, match="the copy has another content"):
        FileLogCompressor(os.fspath(log)).compress(1, lambda _: [next(rewritten)])
    assert log.read_bytes() == LINES
    assert os.listdir(tmp_path) == ["events.jsonl"]


def test_whole_copy_replaces_the_plain_log(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(LINES)
    FileLogCompressor(os.fspath(log)).compress(7, lambda lines: lines)
    assert os.listdir(tmp_path) == ["events.jsonl.gz"]
    with open_log_bytes(os.fspath(log)) as found:
        assert found.pread(len(LINES) + 1, 0) == LINES
