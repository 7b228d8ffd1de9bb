"""The token of a home: made once, and renewed as a whole."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.program import Program, failpoint_environment


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_renewal_leaves_the_old_token_or_the_new_one(home: str, tmp_path: Path, side: str) -> None:
    program = Program(home, os.fspath(tmp_path))
    program("serve", "--new-token")
    token = Path(home, "serve", "token")
    old = token.read_text(encoding="ascii")
    crash = failpoint_environment(str(tmp_path), f"serve.token.{side}:1")
    program("serve", "--new-token", code=-signal.SIGKILL, env=crash)
    left = token.read_text(encoding="ascii")
    assert (left == old) is (side == "before")
    assert len(left.strip()) == 43
    program("serve", "--new-token")
    assert token.read_text(encoding="ascii") not in (old, left)
