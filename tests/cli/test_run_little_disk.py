"""A session on a file system that fills up ends cleanly, and continues once there is room."""

import json
import subprocess
import sys

import pytest

from tests.support.cli_stage import HELLO, Stage
from tests.support.wait import PATIENCE

SCRIPT = """
mkdir -p "$HOLDFAST_HOME" && mount -t tmpfs -o size=64m small "$HOLDFAST_HOME" || exit 99
head -c 63M /dev/zero > "$HOLDFAST_HOME/ballast"
{holdfast} run "say hello" --agent {agent} --json --set resume.auto=false | tail -n 1
rm "$HOLDFAST_HOME/ballast"
{holdfast} resume --json | tail -n 1
"""


def test_little_space_ends_a_session_before_the_disk_is_full(stage: Stage) -> None:
    agent = stage.book(HELLO)
    script = SCRIPT.format(holdfast=f"{sys.executable} -P -m holdfast", agent=agent)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=stage.project.path,
        env=stage.holdfast.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode in (1, 99) and not done.stdout:
        pytest.skip(f"NOT TESTED: a small file system (no mount namespace here: {done.stderr.strip()})")
    ended, resumed = map(json.loads, done.stdout.splitlines())
    assert ended["ended"] == "disk_space"
    assert "less than 1 MB" in ended["detail"]
    assert "holdfast archive --older-than" in ended["detail"]
    assert resumed["ended"] == "all_done"
