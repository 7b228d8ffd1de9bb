"""kill -9 of runner and agents at any point: the end is the same."""

import pytest

from tests.support.cli_kills import assert_whole, survived
from tests.support.cli_stage import Stage


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_a_run_that_is_killed_ends_as_one_that_is_not(stage: Stage) -> None:
    assert_whole(stage, survived(stage, seed=1, kills=2))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10, 40))
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not(stage: Stage, seed: int) -> None:
    assert_whole(stage, survived(stage, seed, kills=7))
