"""A file's new content comes to the disk before its name, and its name before anybody goes on."""

import os
import re

from tests.support.faults import run_with_faults

REPLACE = """
import sys
from holdfast.leaf.files.disk import replace
replace(sys.argv[1], b"new")
"""


def test_content_and_name_are_on_the_disk_one_after_the_other(disk: os.PathLike[str]) -> None:
    folder, path = os.fspath(disk), os.path.join(disk, "file")
    calls = run_with_faults(REPLACE, path, trace="rename,fsync,fdatasync", faults="")
    told = [(found[1], found[2]) for call in calls if (found := re.search(r"(\w+)\((.*)\) += 0", call))]
    ours = [(name, about) for name, about in told if folder in about]
    assert [name for name, _ in ours] == ["fdatasync", "rename", "fsync"]
    assert f"<{path}.tmp>" in ours[0][1]
    assert f"<{folder}>" in ours[2][1]
