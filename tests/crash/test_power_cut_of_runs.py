"""The machine of a whole run goes down: a mounted ext4 loses what was not synced, and the run goes on from the rest."""

import os
from pathlib import Path

import pytest

from tests.support.crash_suite.private_mounts import held_apart
from tests.support.crash_suite.trial_log import Shard, Way

SHARDS = 4


def with_power_cuts(folder: str, scenario: str, which: int, of: int, noted: Shard | None = None) -> None:
    """At one of so many parts of the points that the run passes."""
    os.makedirs(folder)
    held_apart("power_cut", "whole runs whose power is cut", folder, scenario, str(which), str(of), noted=noted)


def test_a_run_whose_machine_goes_down_goes_on_with_nothing_lost(home: str) -> None:
    """One of these points is before the snapshot of a turn that ended.

    Nobody but the turn's end has brought to the disk by then what the agent wrote: it wrote by itself, and made no
    report.
    """
    with_power_cuts(home, "spoken", 5, 35)


@pytest.mark.torture
def test_what_was_done_when_a_runner_was_killed_is_there_when_the_machine_goes_down_after_it(home: str) -> None:
    """Effects, and what an agent wrote in a turn that was cut off: the session that came back has told of them."""
    with_power_cuts(home, "trusting", 0, 100)


@pytest.mark.torture
@pytest.mark.parametrize("which", range(SHARDS))
@pytest.mark.parametrize(
    ("scenario", "every"),
    [("solo", 1), ("spoken", 2), ("trusting", 8), ("mortal", 1), ("loop", 4), ("waves", 4), ("pipeline", 6)],
)
def test_a_run_whose_machine_goes_down_anywhere(tmp_path: Path, scenario: str, every: int, which: int) -> None:
    shard = Shard(Way.POWER_CUT, which, SHARDS)
    with_power_cuts(os.fspath(tmp_path / "power"), scenario, which, every * SHARDS, shard)
