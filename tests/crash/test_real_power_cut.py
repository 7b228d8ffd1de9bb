"""Not simulated: a mounted ext4 whose power goes while processes write to it."""

import os
import subprocess
import sys

import pytest

from tests.support.real_power_cut import NOT_POSSIBLE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_survives_a_real_power_cut(tmp_path: os.PathLike[str], seed: int) -> None:
    command = [sys.executable, "-m", "tests.support.real_power_cut", os.fspath(tmp_path), "15", str(seed)]
    done = subprocess.run(["unshare", "--mount", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NOT_POSSIBLE or "unshare" in done.stderr:
        pytest.skip(f"NOT TESTED: a real power cut ({done.stderr.strip()})")
    assert done.returncode == 0, done.stderr
