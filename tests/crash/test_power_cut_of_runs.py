"""The machine of a whole run goes down: a mounted ext4 loses what was not synced, and the run goes on from the rest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.real_power_cut import NOT_POSSIBLE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
SHARDS = 4


def with_power_cuts(folder: str, scenario: str, every: int, first: int) -> None:
    """At every so-many-th point that the run passes, from one on."""
    os.makedirs(folder)
    command = ["unshare", "--mount", sys.executable, "-m", "tests.support.whole_power_cut", folder, scenario]
    done = subprocess.run([*command, str(every), str(first)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NOT_POSSIBLE or "unshare" in done.stderr:
        pytest.skip(f"NOT TESTED: whole runs whose power is cut ({done.stderr.strip()})")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_run_whose_machine_goes_down_goes_on_with_nothing_lost(home: str) -> None:
    with_power_cuts(home, "solo", 35, 25)


@pytest.mark.torture
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize(("scenario", "every"), [("solo", 1), ("loop", 4), ("waves", 4), ("pipeline", 6)])
def test_a_run_whose_machine_goes_down_anywhere(tmp_path: Path, scenario: str, every: int, shard: int) -> None:
    with_power_cuts(os.fspath(tmp_path / "power"), scenario, every * SHARDS, every * shard)
