"""A disk that is really full: what was acknowledged is there, and with room again the run goes on."""

import os
import subprocess
import sys

import pytest

from tests.support.wait import PATIENCE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))

MOUNTED = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=256k small "$0" && exec "$@"']


def filled(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_a_full_file_system(tmp_path: os.PathLike[str]) -> None:
    folder = os.fspath(tmp_path)
    allowed = filled(*MOUNTED, folder, "true")
    if allowed.returncode:
        pytest.skip(f"NOT TESTED: a really full file system (no mount namespace here: {allowed.stderr.strip()})")
    done = filled(*MOUNTED, folder, sys.executable, "-m", "tests.support.full_disk", folder)
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("limit", [60_000, 65_536, 100_001])
def test_a_file_that_may_not_grow(tmp_path: os.PathLike[str], limit: int) -> None:
    """A quota, or `ulimit -f`: the write stops in mid-line, with another error than a full disk gives."""
    done = filled(sys.executable, "-m", "tests.support.full_disk", os.fspath(tmp_path), str(limit))
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stderr
