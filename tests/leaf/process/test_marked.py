"""Facts of the one scan for both marks."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.leaf.process import fd_marker
from holdfast.leaf.process.fd_marker import marker_fds
from holdfast.leaf.process.identity import identify
from holdfast.leaf.process.marked import iter_marked_or_holding

MARK = "HOLDFAST_TEST_MARK"


@contextmanager
def sleeping(environment: dict[str, str], held: tuple[int, ...] = ()) -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"], env=environment, pass_fds=held, start_new_session=True) as started:
        try:
            yield started.pid
        finally:
            started.kill()


def test_either_mark_is_found_and_both_are_one_process(tmp_path: Path) -> None:
    file, value = os.fspath(tmp_path / "marker"), os.fspath(tmp_path)
    with (
        marker_fds(file) as held,
        sleeping({MARK: value}) as by_environment,
        sleeping({}, held) as by_file,
        sleeping({MARK: value}, held) as by_both,
        sleeping({MARK: "another"}) as other,
    ):
        found = [process for process in iter_marked_or_holding(MARK, value, file) if process.pid != os.getpid()]
        assert found == [identify(pid) for pid in sorted((by_environment, by_file, by_both))]
        assert other not in [process.pid for process in found]
        assert [process.pid for process in iter_marked_or_holding(MARK, value, None)] == sorted(
            (by_environment, by_both)
        )


def test_the_dead_are_not_asked_for_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, asked = os.fspath(tmp_path / "marker"), list[int]()
    listed = fd_marker._descriptors

    def note(pid: int) -> list[tuple[str, str]]:
        asked.append(pid)
        return listed(pid)

    monkeypatch.setattr(fd_marker, "_descriptors", note)
    with marker_fds(file) as held, subprocess.Popen(["true"], env={MARK: file}, pass_fds=held) as dead:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        assert dead.pid not in [process.pid for process in iter_marked_or_holding(MARK, file, file)]
        assert os.getpid() in asked
        assert dead.pid not in asked
