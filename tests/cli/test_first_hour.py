"""A new user's first hour, from the built wheel in an empty environment to merged work (scripts/first_hour.py)."""

from pathlib import Path

from scripts.first_hour import first_hour, install
from scripts.shell_session import screen_lines


def test_first_hour_from_the_wheel(tmp_path: Path) -> None:
    hour = first_hour(str(tmp_path), install(str(tmp_path)))
    commands = [shown.command.split()[1] for shown in hour.shell.history if shown.command.startswith("holdfast")]
    assert sorted(commands) == sorted(["init", "approve", "run", "ls", "resume", "show", "diff", "merge", "verify"])


def test_a_redrawn_area_appears_once() -> None:
    output = "first\x1b[K\r\narea 1\x1b[K\r\n\x1b[J\x1b[1Fsecond\x1b[K\r\narea 2\x1b[K\r\n\x1b[J"
    assert screen_lines(output) == ["first", "second", "area 2"]
