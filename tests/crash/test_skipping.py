"""A task that its agent gave up, and that is skipped when the run comes back."""

import os

import pytest

from tests.support.crash_suite.scenarios import AGAIN, BEGIN
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial import play
from tests.support.crash_suite.warm_programs import KILLED, Nursery

GIVEN_UP = AGAIN._replace(name="given-up", files=BEGIN, on_issue="skip")


@pytest.mark.parametrize("failpoint", ["effect.snapshot.take.after:1", "effect.commit.failed.before:1"])
async def test_what_it_did_is_kept_on_its_branch_though_a_death_came_before_it_was_failed(
    warm: Nursery, tmp_path: os.PathLike[str], failpoint: str
) -> None:
    place = FailpointSuite(os.fspath(tmp_path), GIVEN_UP, warm).place()
    trial = play(place, failpoint)
    assert [ended.code for ended in trial.ended] == [KILLED, 0]
    assert place.git("show", f"holdfast/{place.run_id}/X:half.txt") == "half\n"
