"""What becomes of work that was committed for a task when somebody takes its branch or its worktree before the merge.

It is merged all the same; or it is kept, and told of; or it is done again. Never is a task complete without a word.
"""

import shutil
from collections.abc import Iterator

import pytest

from tests.crash.test_meddling_at_work import JUDGING, go_on, placed, salvaged
from tests.support import user_actions as deeds
from tests.support.crash_suite.scenarios import CASE, WAVES, Scenario
from tests.support.crash_suite.suite import FailpointSuite
from tests.support.crash_suite.trial_place import Place
from tests.support.crash_suite.warm_programs import KILLED, Nursery
from tests.support.runs_at_work import at_work, must_be_alike, pages
from tests.support.user_actions import Deed

BEFORE_MERGE = "effect.merge.before:2"
LINES = ["begin", "A", "B"]


@pytest.fixture(scope="module")
def suite(warm: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailpointSuite]:
    folder = tmp_path_factory.mktemp("meddling")
    yield FailpointSuite(str(folder), pages(), warm)
    shutil.rmtree(folder, ignore_errors=True)


def resolving(*more: str) -> Scenario:
    """Two tasks at the same lines; whoever comes second keeps what is there of both, and does what more is said."""
    accept, _, *workers = WAVES.turns[:4]
    both = "sed -i '/^<<<<<<</d;/^=====/d;/^>>>>>>>/d' shared.txt"
    resolve = {"when": r"(?s)conflicts with yours on task", "steps": [{"run": "; ".join((both, *more))}, CASE]}
    return WAVES._replace(goal=WAVES.goal[:2], turns=[accept, resolve, *workers])


def must_have_both(place: Place) -> None:
    main = deeds.branch(place, "main")
    assert sorted(place.git("show", f"{main}:shared.txt").split()) == sorted(LINES)
    subjects = place.git("log", "--format=%s", main).splitlines()
    assert {"Merge task A", "Merge task B"} <= set(subjects), subjects


@pytest.mark.torture
async def test_an_agent_that_concludes_the_merge_itself_is_merged(suite: FailpointSuite) -> None:
    own = "git -c user.name=a -c user.email=a@b commit --quiet --all --message=own"
    place = placed(suite, resolving(own))
    assert place.begin().code == 0
    must_have_both(place)


@pytest.mark.torture
@pytest.mark.parametrize("failpoint", ["effect.snapshot.take.before:3", "effect.snapshot.take.after:3"])
async def test_conflicts_come_anew_with_the_worktree_in_which_they_were_resolved(
    suite: FailpointSuite, failpoint: str
) -> None:
    place = placed(suite, resolving())
    assert place.begin(failpoint).code == KILLED
    shutil.rmtree(place.of_run("tasks"))
    assert go_on(place, place.run_id).code == 0
    must_have_both(place)


async def test_a_task_that_is_removed_before_it_is_merged_is_merged(suite: FailpointSuite) -> None:
    place = placed(suite, pages())
    assert place.begin(BEFORE_MERGE).code == KILLED
    deeds.remove_the_task(place)
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(suite, place)


@pytest.mark.torture
@pytest.mark.parametrize("again", ["effect.branch.restore.before:1", "effect.branch.restore.after:1"])
async def test_a_death_while_a_branch_is_brought_back_is_one_more_death(suite: FailpointSuite, again: str) -> None:
    place = placed(suite, pages())
    assert place.begin(BEFORE_MERGE).code == KILLED
    deeds.remove_the_task(place)
    assert place.resume(again, "again").code == KILLED
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(suite, place)


@pytest.mark.torture
@pytest.mark.parametrize("deed", [deeds.set_the_task_back, deeds.reset_the_task])
@pytest.mark.parametrize("again", [None, "effect.merge.before:1", "effect.merge.after:1"])
async def test_what_a_tasks_branch_had_before_it_was_set_back_is_kept_and_told(
    suite: FailpointSuite, deed: Deed, again: str | None
) -> None:
    """Whenever one dies over it."""
    place = placed(suite, pages())
    assert place.begin(BEFORE_MERGE).code == KILLED
    was = place.git("rev-parse", deeds.branch(place)).strip()
    deed(place)
    if again is not None:
        assert place.resume(again, "again").code == KILLED
    assert go_on(place, place.run_id).code == 0
    (kept,) = (ref for ref in salvaged(place).splitlines() if place.git("rev-parse", ref).strip() == was)
    assert place.call("logs", place.run_id).out.count(f"git merge {kept}") == 1


@pytest.mark.torture
async def test_who_judged_what_is_not_there_any_more_does_not_judge_what_is_done_again(suite: FailpointSuite) -> None:
    place = placed(suite, JUDGING)
    with at_work(place) as let_go:
        assert place.call("stop", place.run_id).code == 0
        let_go()
    deeds.remove_the_tasks_worktree(place)
    deeds.set_the_task_back(place)
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(suite, place, but=("iterations",))
    with open(place.of_run("events.jsonl"), encoding="utf-8") as log:
        evaluators = [line for line in log if '"conversation.opened"' in line and '"role":"evaluator"' in line]
    assert len(evaluators) == 3  # of A; of B, and of B done again


@pytest.mark.torture
async def test_a_case_of_a_worker_that_is_cut_off_does_not_stand_for_files_that_are_gone(suite: FailpointSuite) -> None:
    scenario = pages(reporting=True)
    *others, (last) = scenario.turns
    *steps, here, wait, case = last["steps"]
    place = placed(suite, scenario._replace(turns=[*others, {**last, "steps": [*steps, case, here, wait]}]))
    with at_work(place) as let_go:
        assert place.call("stop", place.run_id).code == 0
        let_go()
    deeds.delete_the_tasks_folder(place)
    assert go_on(place, place.run_id).code == 0
    await must_be_alike(suite, place, but=("iterations",))


@pytest.mark.torture
async def test_a_task_that_did_nothing_is_taken_away_though_the_runs_branch_was_deleted(suite: FailpointSuite) -> None:
    scenario = pages()
    *others, last = scenario.turns
    place = placed(suite, scenario._replace(turns=[*others, {**last, "steps": [CASE]}]))
    assert place.begin("effect.worktree.remove.before:2").code == KILLED
    deeds.remove_the_run(place)
    assert go_on(place, place.run_id).code == 0
    names = place.git("ls-tree", "--name-only", deeds.branch(place, "main")).splitlines()
    assert {"A.txt", "more A.txt"} <= set(names)
    assert place.git("branch", "--list", deeds.branch(place)) == ""
