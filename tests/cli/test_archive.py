"""`holdfast archive`: the log stays, the rest goes, and what would be lost is saved."""

import os

from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import log_of, make_run
from tests.support.projects import Project, do_task, new_run, workspace_of, write


def test_the_log_stays_and_the_rest_goes(holdfast: Program, project: Project) -> None:
    before = project.footprint()
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id)
    write(workspace_of(holdfast.home, run_id), {"draft.txt": "d\n"})
    outcome = holdfast("archive", run_id)
    assert outcome.lines == [f"{run_id}  archived", *(f"  saved  {ref}" for ref in outcome_refs(outcome.out))]
    assert sorted(outcome_refs(outcome.out)) == project.salvage()
    assert project.footprint().without_salvage() == before
    assert not os.path.exists(workspace_of(holdfast.home, run_id))
    assert holdfast("ls", "--json").object["status"] == "archived"
    assert holdfast("verify", run_id).code == 0
    assert holdfast("show", run_id).lines[0] == f"{run_id}  archived"
    assert "no problems found" in holdfast("doctor", cwd=project.path).err


def outcome_refs(out: str) -> list[str]:
    return [line.split()[-1] for line in out.splitlines() if line.startswith("  saved")]


def test_a_second_time_there_is_nothing_to_do(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    assert holdfast("archive", run_id, "--json").object == {"id": run_id, "archived": True, "salvaged": []}
    before = project.footprint(), log_of(holdfast.home, run_id).read_bytes()
    assert holdfast("archive", run_id, code=4).complaint == f"run {run_id} is archived already"
    assert (project.footprint(), log_of(holdfast.home, run_id).read_bytes()) == before


def test_a_run_that_somebody_owns_is_not_touched(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    with owner_of(holdfast.home, run_id):
        before = project.footprint(), log_of(holdfast.home, run_id).read_bytes()
        assert "is owned by pid" in holdfast("archive", run_id, code=5).complaint
        assert (project.footprint(), log_of(holdfast.home, run_id).read_bytes()) == before


def test_wrong_names_and_lost_repositories_are_told(holdfast: Program, project: Project) -> None:
    make_run(holdfast.home, "demo-abc234")
    assert holdfast("archive", "demo", code=4).complaint == "run demo-abc234 works on no repository"
    assert "there is no run 'nobody'" in holdfast("archive", "nobody", code=4).complaint
    run_id = new_run(holdfast.home, project)
    os.rename(project.path, f"{project.path}-moved")
    before = log_of(holdfast.home, run_id).read_bytes()
    assert "holdfast doctor --repo NEW-PLACE --fix" in holdfast("archive", run_id, code=2).complaint
    assert log_of(holdfast.home, run_id).read_bytes() == before


def test_a_message_that_no_agent_has_read_is_not_lost_in_silence(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    holdfast("send", run_id, "make it blue")
    before = log_of(holdfast.home, run_id).read_bytes()
    refused = holdfast("archive", run_id, code=5)
    assert "make it blue" in refused.err
    assert f"holdfast resume {run_id}" in refused.err
    assert log_of(holdfast.home, run_id).read_bytes() == before
    assert "make it blue" in holdfast("archive", run_id, "-y").err
    assert "make it blue" in holdfast("show", run_id).out
    assert [message["text"] for message in holdfast("show", run_id, "--json").object["undelivered"]] == ["make it blue"]
    for command in (("prune", run_id, "--to", "delete"), ("reset", run_id)):
        assert "make it blue" in holdfast(*command, code=5).err
    assert "make it blue" in holdfast("prune", run_id, "--to", "delete", "-y").err
