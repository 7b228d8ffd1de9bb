"""Trials that mount file systems of their own: in a process that nobody else sees the mounts of."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
NOT_POSSIBLE = 77  # with which it ends where the machine does not allow it


def held_apart(module: str, what: str, *arguments: str, noted: bool = False) -> None:
    command = ["unshare", "--mount", sys.executable, "-m", f"tests.support.doom.{module}", *["--noted"] * noted]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NOT_POSSIBLE or done.stderr.startswith("unshare:"):
        pytest.skip(f"NOT TESTED: {what} ({done.stderr.strip()})")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
