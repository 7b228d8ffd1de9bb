"""What is to be read beside a log is as the log has it when a run is done, whoever died on the way."""

import json
from pathlib import Path

import pytest

from holdfast.core.events.session import SessionEnd
from holdfast.core.task_state import TaskStatus
from tests.support.crash_suite.judge import Done
from tests.support.crash_suite.projections import must_have_projections_as_rendered
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites, Undisturbed
from tests.support.crash_suite.trial import play
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED

_NOTHING_TO_DO = 4


async def must_tell_the_end(place: Place) -> None:
    """By what is rendered anew; and by what a person reads."""
    done = await Done.look(place)
    must_have_projections_as_rendered(place.home, place.run_id, done.state)
    plan = json.loads(Path(place.of_run("plan.json")).read_text(encoding="utf-8"))
    assert {task["status"] for task in plan["tasks"].values()} == {TaskStatus.COMPLETE}


def last(undisturbed: Undisturbed, name: str) -> str:
    return undisturbed.named(name)[-1]


@pytest.mark.parametrize("scenario", ["solo", pytest.param("pipeline", marks=pytest.mark.torture)])
@pytest.mark.parametrize("side", ["before", "after"])
async def test_killed_while_the_last_of_them_is_written(suites: FailpointSuites, scenario: str, side: str) -> None:
    suite = suites(scenario)
    place = suite.place()
    trial = play(place, last(await suite.undisturbed(), f"projection.write.{side}"))
    assert trial.ended[0].code == KILLED
    await must_tell_the_end(place)
    place.remove()


@pytest.mark.parametrize("side", ["before", "after"])
async def test_killed_around_the_very_end_of_the_log(suites: FailpointSuites, side: str) -> None:
    """After it, the run is done: whoever resumes it has nothing to do."""
    suite = suites("solo")
    place = suite.place()
    trial = play(place, await end_of_log(suite, side))
    assert [ended.code for ended in trial.ended] == [KILLED, {"before": 0, "after": _NOTHING_TO_DO}[side]]
    await must_tell_the_end(place)
    place.remove()


async def end_of_log(suite: FailpointSuite, side: str) -> str:
    """The last append, which is the end of the session."""
    undisturbed = await suite.undisturbed()
    assert json.loads(undisturbed.log.splitlines()[-1])["type"] == SessionEnd.type
    return last(undisturbed, f"journal.append.{side}")


async def test_what_a_full_disk_left_out_is_made_up_for_though_there_is_nothing_to_do(suites: FailpointSuites) -> None:
    suite = suites("solo")
    place = suite.place()
    full = f"{last(await suite.undisturbed(), 'projection.write.before')}:enospc"
    assert place.begin(full).code == 0
    with pytest.raises(AssertionError, match=r"plan\.json"):
        await must_tell_the_end(place)
    assert place.resume().code == _NOTHING_TO_DO
    await must_tell_the_end(place)
    place.remove()
