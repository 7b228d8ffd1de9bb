"""A home on a disk that the kernel made read-only: one line, nothing lost, and the run goes on when it may write."""

import os

from tests.support.crash_suite.private_mounts import held_apart


def test_a_home_that_is_read_only_before_a_resume_or_becomes_so_under_a_run(tmp_path: os.PathLike[str]) -> None:
    """By a real EROFS, which no right passes over; looking is possible meanwhile."""
    held_apart("read_only", "a home on a file system that is really read-only", os.fspath(tmp_path))
