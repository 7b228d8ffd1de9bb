"""The guard stops a session before a disk is full."""

import pytest

from holdfast.engine.session.disk_guard import DiskGuard, FreeSpace, free_space

GIGABYTE = 1024**3
MEGABYTE = 1024**2


@pytest.mark.parametrize(
    ("free", "size", "reserve", "is_short"),
    [
        (GIGABYTE, 100 * GIGABYTE, 200, False),
        (199 * MEGABYTE, 100 * GIGABYTE, 200, True),
        (200 * MEGABYTE, 100 * GIGABYTE, 200, False),
        (21 * MEGABYTE, GIGABYTE, 200, False),  # of a small file system, a share
        (20 * MEGABYTE, GIGABYTE, 200, True),
        (0, GIGABYTE, 0, False),
    ],
)
def test_little_space_is_a_problem(free: int, size: int, reserve: int, *, is_short: bool) -> None:
    guard = DiskGuard(["/x"], reserve, lambda path: FreeSpace(path, free, size))
    problem = guard.problem()
    assert (problem is not None) == is_short
    assert problem is None or "holdfast archive --older-than" in problem


def test_an_unknown_space_is_no_problem() -> None:
    assert free_space("/no/such/path") is None
    assert DiskGuard(["/no/such/path"], 200).problem() is None


async def test_the_guard_reports_once_that_space_went() -> None:
    free = [GIGABYTE, GIGABYTE, MEGABYTE]
    reports: list[str] = []
    guard = DiskGuard(["/x"], 200, lambda path: FreeSpace(path, free.pop(0), 100 * GIGABYTE), interval_s=0)
    await guard.watch(lambda: reports.append("short"))
    assert reports == ["short"]
