"""Locks of a repository that several users share."""

import multiprocessing
import os
import subprocess
import tempfile

import pytest

from holdfast.git.locks import remove_stale, stale_locks
from tests.support.git_fate import GIT

_US, _THEM = 65533, 65534


def looked_at(common_dir: str, held: bool) -> None:
    os.setuid(_US)
    lock = os.path.join(common_dir, "packed-refs.lock")
    assert stale_locks(common_dir) == ([] if held else [lock])
    assert remove_stale(lock, common_dir) is not held
    assert os.path.exists(lock) == held


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: a repository of several users (needs root)")
@pytest.mark.parametrize("held", [True, False])
def test_a_lock_of_another_user_is_left_while_a_git_of_theirs_runs(held: bool) -> None:
    """What it has open, and where it stands, we may not see."""
    with tempfile.TemporaryDirectory() as common_dir:
        os.chmod(common_dir, 0o777)
        lock = os.path.join(common_dir, "packed-refs.lock")
        with open(lock, "x", encoding="ascii"):
            os.chown(lock, _THEM, _THEM)
        theirs = _THEM if held else _THEM - 2
        with subprocess.Popen([GIT, "hash-object", "--stdin"], cwd="/", user=theirs, stdin=subprocess.PIPE) as at_work:
            looking = multiprocessing.get_context("fork").Process(target=looked_at, args=(common_dir, held))
            looking.start()
            looking.join()
            at_work.communicate()
        assert looking.exitcode == 0
