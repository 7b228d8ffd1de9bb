"""Trials that mount file systems of their own: in a process that nobody else sees the mounts of."""

import argparse
import os
import subprocess
import sys

import pytest

from tests.support.crash_suite.trial_log import Shard, Way

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
NOT_POSSIBLE = 77  # with which it ends where the machine does not allow it


def held_apart(module: str, what: str, *arguments: str, noted: Shard | None = None) -> None:
    command = ["unshare", "--mount", sys.executable, "-m", f"tests.support.crash_suite.{module}", *arguments]
    shard = [f"--noted={noted.which}/{noted.of}"] if noted is not None else []
    done = subprocess.run([*command, *shard], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NOT_POSSIBLE or done.stderr.startswith("unshare:"):
        pytest.skip(f"NOT TESTED: {what} ({done.stderr.strip()})")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def arguments(way: Way, *names: str) -> argparse.Namespace:
    """What the module was called with: these, then `numbers`; and as which shard it is `noted`."""

    def shard(text: str) -> Shard:
        which, _, of = text.partition("/")
        return Shard(way, int(which), int(of))

    reader = argparse.ArgumentParser()
    for name in names:
        reader.add_argument(name)
    reader.add_argument("numbers", type=int, nargs="+")
    reader.add_argument("--noted", type=shard)
    return reader.parse_args()
