"""`holdfast fork`: a new run with the same past, which shares nothing that can change."""

import json
from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.cli.test_rewind import files, three_turns, told
from tests.cli.test_run_chat import chat, conversation, say
from tests.cli.test_run_permissions import COMMAND
from tests.support.cli_stage import HANG, Stage, outcome, wait_for_event
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.variants import every


def fork(stage: Stage, run: str, *options: str) -> str:
    return str(stage.holdfast("fork", run, *options, "--json").object["run"])


def state(stage: Stage, run: str) -> dict[str, object]:
    found = stage.holdfast("show", run, "--json").object["state"]
    for checkpoint in found["checkpoints"]:
        del checkpoint["sid"], checkpoint["ts"]
    return {name: found[name] for name in ("tasks", "plan", "messages", "learnings", "checkpoints", "issues")}


def test_fork_has_the_files_and_the_conversation_of_the_point(stage: Stage) -> None:
    run = three_turns(stage)
    other = fork(stage, run, "--at", "turn-1", "--name", "second")
    assert other.startswith("second-")
    assert files(stage, other) == {"hello.txt": "hello\n"}
    assert files(stage, run) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}
    assert conversation(stage, other)["turns"] == 1
    (forked,) = stage.data(other, "run.forked")
    assert (forked["parent"], len(forked["chain"])) == (run, 32)
    assert stage.holdfast("show", other, "--json").object["state"]["budget"]["dollars"] is None
    say(stage, other, "the farewell, please")
    assert "write the greeting" in told(stage, other)
    assert "capitals" not in told(stage, other)
    assert files(stage, other) == {"hello.txt": "hello\n", "bye.txt": "bye\n"}
    assert conversation(stage, run)["turns"] == 3
    stage.holdfast("verify", other)
    stage.holdfast("verify", run)


def test_parent_can_be_reset_without_harm(stage: Stage) -> None:
    run = three_turns(stage)
    other = fork(stage, run)
    stage.holdfast("reset", run, "-y")
    stage.project.git("reflog", "expire", "--expire=now", "--all")
    stage.project.git("gc", "--quiet", "--prune=now")
    assert files(stage, other) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}
    points = stage.holdfast("show", other, "--points", "--json").objects
    assert ["-".join(point["name"].split("-")[:2]) for point in points] == [
        "fork",
        "turn-3",
        "turn-2",
        "turn-1",
        "start",
    ]
    stage.holdfast("rewind", other, "--to", "turn-1", "-y")
    assert files(stage, other) == {"hello.txt": "hello\n"}
    stage.holdfast("accept", other)
    stage.holdfast("wait", other)
    assert stage.file(other, "hello.txt") == "hello"
    stage.holdfast("verify", other)


def test_fork_goes_back_to_the_same_points_as_its_parent(stage: Stage) -> None:
    run = three_turns(stage)
    other = fork(stage, run)
    assert other.startswith(f"{run[:-7]}-fork-")
    assert fork(stage, other).startswith(f"{run[:-7]}-fork-2-")
    assert stage.holdfast("show", run[:-7], "--json").object["id"] == run
    plans = [stage.holdfast("rewind", each, "--dry-run", "--json").object for each in (run, other)]
    assert plans[0]["point"] == plans[1]["point"] != "start"
    stage.holdfast("rewind", other, "--to", "run-start", "-y")
    assert stage.states(other) == {"T-1": "PENDING"}
    assert conversations(stage, other) == []
    stage.holdfast("rewind", other, "--undo", "-y")
    assert files(stage, other) == files(stage, run)
    grandchild = fork(stage, other, "--at", "start")
    assert [point["name"] for point in stage.holdfast("show", grandchild, "--points", "--json").objects] == [
        "fork",
        "start",
    ]
    say(stage, grandchild, "the farewell, please")
    assert "bye.txt" in files(stage, grandchild)
    assert "hello.txt" in files(stage, other)


def conversations(stage: Stage, run: str) -> list[dict[str, object]]:
    return list(stage.holdfast("show", run, "--json").object["conversations"])


def test_two_forks_at_one_point_are_equal(stage: Stage) -> None:
    run = three_turns(stage)
    first, second = (fork(stage, run, "--at", "-1") for _ in range(2))
    told_of_each = [json.dumps(state(stage, each)).replace(each, "RUN") for each in (first, second)]
    assert told_of_each[0] == told_of_each[1]
    assert files(stage, first) == files(stage, second) == {"hello.txt": "HELLO\n"}


def test_parent_may_be_at_work(stage: Stage) -> None:
    """The fork begins before the turn that is open, and the parent goes on in it."""
    run = chat(stage, {"when": "wait there", "steps": [{"write": {"path": "half.txt", "text": "half\n"}}, HANG]})
    sending = stage.start("send", run, "wait there")
    stage.hangs()
    other = fork(stage, run)
    assert files(stage, other) == {"hello.txt": "hello\n"}
    assert conversation(stage, other)["turns"] == 1
    assert stage.holdfast("show", run, "--json").object["status"] == "running"
    say(stage, other, "the farewell, please")
    assert files(stage, other) == {"hello.txt": "hello\n", "bye.txt": "bye\n"}
    stage.holdfast("stop", run)
    sending.communicate()
    assert files(stage, run) == {"hello.txt": "hello\n", "half.txt": "half\n"}
    stage.holdfast("verify", run)
    stage.holdfast("verify", other)


def test_permission_that_was_revoked_since_is_not_in_a_fork(stage: Stage) -> None:
    chat = ("--workflow", "chat", "--agent", stage.book({"steps": [COMMAND]}), "--set", "chat.idle=0")
    with stage.start("run", "build it", *chat) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        stage.holdfast("approve", run, "--always")
        outcome(process)
    (rule,) = rules(stage, run)
    assert [*rules(stage, fork(stage, run, "--at", "turn-1"))] == [rule]
    stage.holdfast("deny", run, "--revoke", rule)
    stage.resume(run)
    assert not rules(stage, run)
    assert not rules(stage, fork(stage, run, "--at", "turn-1"))


def rules(stage: Stage, run: str) -> dict[str, object]:
    return dict(stage.holdfast("show", run, "--json").object["rules"])


POINTS = (
    *(f"run.fork.{side}:1" for side in ("before", "after")),
    *(f"effect.refs.keep.{side}:1" for side in ("before", "after")),
    *("effect.branch.restore.after:1", "effect.worktree.make.after:1"),
)


@pytest.mark.parametrize("point", every(2, POINTS))
def test_killed_fork_is_whole_or_no_run(stage: Stage, point: str) -> None:
    run = three_turns(stage)
    before = set(runs(stage))
    environment = failpoint_environment(stage.folder, point)
    stage.holdfast("fork", run, "--at", "turn-1", env=environment, code=KILLED, cold=True)
    (other,) = set(runs(stage)) - before
    if point == "run.fork.before:1":
        assert "nothing to continue" in stage.holdfast("resume", other, code=4).err
        stage.holdfast("reset", other, "-y")
    else:
        say(stage, other, "the farewell, please")
        assert files(stage, other) == {"hello.txt": "hello\n", "bye.txt": "bye\n"}
        assert conversation(stage, other)["turns"] == 2
        stage.holdfast("verify", other)
    assert files(stage, run) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}


def runs(stage: Stage) -> list[str]:
    return [path.name for path in Path(stage.home, "runs").iterdir()]
