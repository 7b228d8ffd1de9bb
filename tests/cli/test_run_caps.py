"""Caps hold during a turn, over resumes, and what was done is kept."""

import pytest

from tests.support.cli_stage import HANG, Stage, worker
from tests.support.wait import PATIENCE


@pytest.mark.parametrize(
    ("cap", "reason"),
    [("caps.tokens=1000", "token_cap"), ("caps.dollars=0.5", "cost_cap")],
)
def test_a_cap_ends_the_turn_that_goes_beyond_it(stage: Stage, cap: str, reason: str) -> None:
    run = stage.run("go on for ever", "--agent", endless(stage), "--set", cap, code=1)
    assert ended(stage, run) == reason
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["cancelled"]
    assert stage.resume(run, code=1)["ended"] == reason  # it was spent before
    assert len(stage.data(run, "turn.started")) == 1


def test_wall_clock_cap_ends_the_turn_that_goes_beyond_it(stage: Stage) -> None:
    """On a busy machine the agent needs longer to start: then the cap is tried with more."""
    run = ""
    for seconds in (2, 10, 50, 250):
        run = stage.run("go on for ever", "--agent", endless(stage), "--set", f"caps.wall_clock={seconds}", code=3)
        assert ended(stage, run) == "wall_clock"
        if stage.has_hung():
            break
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["cancelled"]
    assert stage.resume(run, "--set", f"caps.wall_clock={PATIENCE}")["ended"] == "all_done"
    assert stage.file(run, "one.txt") == "1"


def endless(stage: Stage) -> str:
    """An agent that writes a file, tells what it used, and does not end its turn the first time."""
    wrote = {"write": {"path": "one.txt", "text": "1\n"}}
    return stage.book(worker(wrote, {"usage": {"used": 1200, "size": 200000, "cost": 0.75}}, HANG))


def ended(stage: Stage, run: str) -> str:
    (reason,) = (d["reason"] for d in stage.data(run, "session.end") if d["reason"] != "planned")
    return str(reason)
