"""`archive` and `reset` of several runs, and of all old ones."""

from holdfast.leaf.clock import now
from tests.cli.program import Program
from tests.cli.runs import DONE, make_run
from tests.cli.terminal import answered
from tests.support.projects import Project, new_run


def test_reset_takes_several_runs(holdfast: Program) -> None:
    for name in ("one-abc234", "two-abc234", "three-abc234"):
        make_run(holdfast.home, name, DONE)
    holdfast("reset", "one", "two", "-y")
    assert [run["id"] for run in holdfast("ls", "--json").objects] == ["three-abc234"]


def test_archive_goes_on_after_a_run_that_it_cannot_archive(holdfast: Program, project: Project) -> None:
    make_run(holdfast.home, "demo-abc234", DONE)
    run_id = new_run(holdfast.home, project)
    outcome = holdfast("archive", "demo", run_id, code=4)
    assert "demo-abc234: run demo-abc234 works on no repository" in outcome.err
    assert outcome.out == f"{run_id}  archived\n"


def test_old_runs_are_listed_and_reset_after_one_question(holdfast: Program) -> None:
    make_run(holdfast.home, "old-abc234", DONE, at="2026-02-14T10:00:00.000Z")
    make_run(holdfast.home, "new-abc234", DONE, at=now())
    assert "not a terminal" in holdfast("reset", "--older-than", "30d", code=5).err
    asked = answered(holdfast, "reset", "--older-than", "30d", answer="y\n")
    assert "Reset this run? [y/N]" in asked.err
    assert "new-abc234" not in asked.err
    assert [run["id"] for run in holdfast("ls", "--json").objects] == ["new-abc234"]
    assert "no run is that old" in holdfast("reset", "--older-than", "30d", "-y", code=4).complaint
    assert "is not an age" in holdfast("reset", "--older-than", "soon", code=2).complaint
    assert "name runs, or pass --older-than" in holdfast("reset", code=2).complaint
