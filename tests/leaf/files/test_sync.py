"""Whole file systems, brought to their disks."""

import os

from tests.support.faults import run_with_faults

SYNC = """
import asyncio, sys
from holdfast.leaf.files.sync import sync_file_systems
try:
    asyncio.run(sync_file_systems(*sys.argv[1:]))
except FileNotFoundError:
    pass
else:
    raise AssertionError("that one of them is gone is told")
"""


def test_a_folder_that_is_gone_keeps_none_of_the_others_from_the_disk(disk: os.PathLike[str]) -> None:
    gone, there = os.path.join(disk, "gone"), os.fspath(disk)
    for paths in ((gone, there), (there, gone)):
        calls = run_with_faults(SYNC, *paths, trace="syncfs", faults="")
        assert [call for call in calls if "syncfs" in call and f"<{there}>" in call]
