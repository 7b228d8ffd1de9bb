"""Caps hold during a turn, over resumes, and what was done is kept."""

import pytest

from tests.support.stage import Stage, worker


@pytest.mark.parametrize(
    ("cap", "reason", "code"),
    [("caps.tokens=1000", "token_cap", 1), ("caps.dollars=0.5", "cost_cap", 1), ("caps.wall_clock=2", "wall_clock", 3)],
)
def test_a_cap_ends_the_turn_that_goes_beyond_it(stage: Stage, cap: str, reason: str, code: int) -> None:
    wrote = {"write": {"path": "one.txt", "text": "1\n"}}
    usage = {"usage": {"used": 1200, "size": 200000, "cost": 0.75}}
    agent = stage.book(worker(wrote, usage, {"hang": {"how": "turn", "seconds": 50, "once": True}}))
    run = stage.run("go on for ever", "--agent", agent, "--set", cap, code=code)
    (end,) = (d["reason"] for d in stage.data(run, "session.end") if d["reason"] != "planned")
    assert end == reason
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["cancelled"]
    if reason == "wall_clock":
        assert stage.resume(run, "--set", "caps.wall_clock=50")["ended"] == "all_done"
        assert stage.file(run, "one.txt") == "1"
    else:
        assert stage.resume(run, code=1)["ended"] == reason  # it was spent before
        assert len(stage.data(run, "turn.started")) == 1
