"""Whoever was found by what it carries may end before it is asked who it is, and its pid be somebody else's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from holdfast.leaf.process.env_markers import marked_processes
from holdfast.leaf.process.fd_marker import marker_fds, processes_holding
from holdfast.leaf.process.identity import identify
from tests.support.pids import with_pid

MARK = "HOLDFAST_TEST_MARK"


@pytest.fixture
def tether(tmp_path: os.PathLike[str]) -> str:
    return os.path.join(tmp_path, "tether")


@contextmanager
def carrier(tether: str) -> Iterator["subprocess.Popen[bytes]"]:
    with marker_fds(tether) as held:
        started = subprocess.Popen(
            [sys.executable, "-IS", "-c", "print(flush=True); input()"],
            env={MARK: tether},
            pass_fds=held,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    with started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline()
            yield started
        finally:
            started.kill()


@contextmanager
def given_away_when_asked_for(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """When it is to be identified, it ends, and its pid is somebody else's."""
    real = os.open
    with ExitStack() as stranger, pytest.MonkeyPatch.context() as patch:

        def ask(path: object, *how: Any, **more: Any) -> Any:
            if path == f"/proc/{process.pid}/stat" and process.returncode is None:
                process.kill()
                process.wait()
                try:
                    stranger.enter_context(with_pid(process.pid))
                except OSError as error:
                    pytest.skip(f"NOT TESTED: a pid that was given away (a pid cannot be chosen here: {error})")
            return real(path, *how, **more)  # type: ignore[arg-type]

        patch.setattr(os, "open", ask)
        yield
        assert identify(process.pid) is not None, "it was given away"


def test_a_stranger_is_not_taken_for_who_had_the_mark(tether: str) -> None:
    with carrier(tether) as process, given_away_when_asked_for(process):
        assert marked_processes(MARK, tether) == []


def test_a_stranger_is_not_taken_for_who_held_the_tether(tether: str) -> None:
    with carrier(tether) as process, given_away_when_asked_for(process):
        assert processes_holding(tether) == []
