"""`stop --all` stops every run that is at work, and only those."""

from tests.support.cli_stage import HANG, Stage, alive, worker


def test_every_run_at_work_is_stopped(stage: Stage) -> None:
    resting = stage.holdfast("plan", "rest", "--json").object["run"]
    agent = stage.book(worker(HANG))
    started = [
        stage.holdfast("run", f"goal {number}", "--agent", agent, "--detach", "--json").object["run"]
        for number in range(2)
    ]
    stage.hangs()
    told = stage.holdfast("stop", "--all", "--json").objects
    assert {each["run"]: each["stopped"] for each in told} == dict.fromkeys(started, True)
    statuses = {each["id"]: each["status"] for each in stage.holdfast("ls", "--json").objects}
    assert statuses == {resting: "planned", **dict.fromkeys(started, "stopped")}
    assert alive(stage) == []
    assert "no run is at work" in stage.holdfast("stop", "--all", code=4).complaint


def test_a_run_or_all_must_be_named(stage: Stage) -> None:
    assert "holdfast stop --all" in stage.holdfast("stop", code=2).complaint
    assert "holdfast stop --all" in stage.holdfast("stop", "x", "--all", code=2).complaint
