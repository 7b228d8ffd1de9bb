"""A disk that fails under a whole run: one clear line, nothing lost, and a resume ends as if nothing had been.

Two ways: a file system that is really full, with home, repository and worktrees on it; and an error at each write of
ours, as the crash points allow. `make torture` tries every page and every write.
"""

import os
import random
from functools import partial

import pytest

from tests.support.crash_suite.private_mounts import held_apart
from tests.support.crash_suite.resumable_trials import hold, shared_out, some
from tests.support.crash_suite.scenarios import SCENARIOS
from tests.support.crash_suite.small_disk import must_be_one_line
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites, Undisturbed
from tests.support.crash_suite.trial import FAULTS, Trial
from tests.support.crash_suite.trial_log import Failpoints, Shard, Way
from tests.support.variants import first

# Of ours, and what an agent has us write: what it keeps itself is the agent's; and a call writes nothing.
NO_WRITES = ("playbook.", "builtin.", "mcp.")
SHARDS = 4
EVERY = 240  # pages: more than any scenario takes
SOME = 80  # writes of a scenario, each with every error: those that only longer runs make are few
FEW = {"spoken": 24, "capped": 24, "again": 40, "grand": 40}  # they write what the others do, and end otherwise


def on_a_small_disk(folder: str, scenario: str, *pages: int, noted: Shard | None = None) -> None:
    what = "runs on a really full file system"
    held_apart("small_disk", what, folder, scenario, *map(str, pages), noted=noted)


def test_a_run_that_fills_its_disk_goes_on_when_there_is_room(tmp_path: os.PathLike[str]) -> None:
    on_a_small_disk(os.fspath(tmp_path), "solo", 49)


@pytest.mark.torture
def test_a_disk_that_is_full_in_the_middle_of_a_merge_leaves_nothing_half_merged(tmp_path: os.PathLike[str]) -> None:
    on_a_small_disk(os.fspath(tmp_path), "loop", 77)


async def failing(suite: FailpointSuite, failpoint: str) -> Trial:
    trial = await suite.survives(failpoint)
    must_be_one_line(trial.ended[0])
    return trial


@pytest.mark.parametrize("fault", first(*FAULTS))
async def test_a_write_that_fails_ends_the_session_in_one_line(suites: FailpointSuites, fault: str) -> None:
    suite = suites("solo")
    undisturbed, dice = await suite.undisturbed(), random.Random(fault)
    for family in ("journal.append", "projection.write", "snapshot.save", "effect.merge"):
        side = dice.choice(["before", "after"])
        await failing(suite, f"{dice.choice(undisturbed.named(f'{family}.{side}'))}:{fault}")


async def test_a_report_that_finds_no_room_is_made_again(suites: FailpointSuites) -> None:
    """The agent is told, and the playbook's agents try three times."""
    await failing(suites("loop"), "inbox.append.torn:1:eio")


async def test_a_disk_on_which_agents_cannot_report_costs_them_no_attempt(suites: FailpointSuites) -> None:
    """The session ends in one line: what they were asked for, and could not give, is not held against them."""
    await failing(suites("loop"), "inbox.append.before:3:enospc")


@pytest.mark.parametrize("fault", first(*FAULTS))
@pytest.mark.parametrize("side", first("named", "before", "after"))
async def test_a_file_that_an_agent_has_us_write_is_written_though_the_disk_refused_it(
    suites: FailpointSuites, side: str, fault: str
) -> None:
    """The agent is told. What it then does is its own: here it gives up its turn, and is asked again."""
    trial = await failing(suites("solo"), f"file.replace.{side}:1:{fault}")
    assert trial.struck == 1


async def test_a_task_that_is_given_up_is_given_up_once_though_the_disk_refused_to_keep_what_it_did(
    suites: FailpointSuites,
) -> None:
    await failing(suites("capped"), "effect.commit.failed.before:1:eio")


async def test_what_the_disk_would_not_delete_is_deleted_when_the_session_ends(suites: FailpointSuites) -> None:
    await failing(suites("solo"), "worktree.remove.dropped:1:enospc")


# --- the whole of it ---------------------------------------------------------------------------------


@pytest.mark.torture
@pytest.mark.parametrize("which", range(SHARDS))
@pytest.mark.parametrize("scenario", ["solo", "loop", "waves", "pipeline"])
def test_a_disk_that_is_full_at_any_page(tmp_path: os.PathLike[str], scenario: str, which: int) -> None:
    pages, shard = range(which, EVERY, SHARDS), Shard(Way.DISK_FULL, which, SHARDS)
    on_a_small_disk(os.fspath(tmp_path), scenario, *pages, noted=shard)


def every_fault(name: str, undisturbed: Undisturbed) -> list[Failpoints]:
    """At all writes of the short run, and at some of the others."""
    writes = [(failpoint,) for failpoint in undisturbed.passes if not failpoint.startswith(NO_WRITES)]
    chosen = writes if name == "solo" else some(writes, FEW.get(name, SOME))
    return [(f"{failpoint}:{fault}",) for (failpoint,) in chosen for fault in FAULTS]


@pytest.mark.torture
@pytest.mark.parametrize("which", range(SHARDS))
@pytest.mark.parametrize("name", SCENARIOS)
async def test_an_error_at_a_write(suites: FailpointSuites, name: str, which: int) -> None:
    suite = suites(name)
    wanted = shared_out(every_fault(name, await suite.undisturbed()), which, SHARDS)
    problems = await hold(partial(failing, suite), name, wanted, Shard(Way.DISK_FAILED, which, SHARDS))
    assert not problems, "\n\n".join(problems)
