"""`holdfast rewind`: conversation, files and plan go back together; nothing is lost, and it can be taken back."""

import os

import pytest

from holdfast.store.files.layout import run_folder
from tests.cli.program import failpoint_environment
from tests.cli.test_run_chat import chat, conversation, say
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import KILLED

# What an agent does that was told the history: it repeats all that it was told
RETOLD = {
    "resume_context": True,
    "steps": [{"write": {"path": "bye.txt", "text": "bye\n"}}, {"say": "{{prompt}}"}],
}


def worktree(stage: Stage, run: str) -> str:
    return os.path.join(run_folder(stage.home, run), "tasks", "T-1")


def told(stage: Stage, run: str) -> str:
    """All that the agent was told last, with the history."""
    said = [data["text"] for data in stage.data(run, "message.recorded") if data["speaker"] == "agent"]
    assert "EXECUTION HISTORY" in said[-1]
    return str(said[-1])


def files(stage: Stage, run: str) -> dict[str, str]:
    found = {}
    for name in sorted(os.listdir(worktree(stage, run))):
        path = os.path.join(worktree(stage, run), name)
        if name.endswith(".txt") and name != "a.txt":
            with open(path, encoding="utf-8") as file:
                found[name] = file.read()
    return found


def three_turns(stage: Stage) -> str:
    run = chat(stage, RETOLD)
    say(stage, run, "now in capitals")
    say(stage, run, "and the farewell")
    assert files(stage, run) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}
    return run


def test_points_are_listed_with_what_each_turn_changed(stage: Stage) -> None:
    run = three_turns(stage)
    points = stage.holdfast("show", run, "--points", "--json").objects
    assert [point["name"].split("-")[:2] for point in points] == [
        ["turn", "3"],
        ["turn", "2"],
        ["turn", "1"],
        ["start"],
    ]
    assert [point["files"] for point in points] == [["bye.txt"], ["hello.txt"], ["hello.txt"], []]
    assert [point["last_message"] for point in points] == ["done", "done", "done", None]
    assert "turn-2" in stage.holdfast("show", run, "--points").out


def test_rewind_takes_back_turns_files_and_what_the_agent_knows(stage: Stage) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--to", "-2", "-y")
    assert files(stage, run) == {"hello.txt": "hello\n"}
    found = conversation(stage, run)
    assert found["turns"] == 1
    before = len(stage.data(run, "conversation.attached"))
    say(stage, run, "the farewell, please")
    assert files(stage, run) == {"hello.txt": "hello\n", "bye.txt": "bye\n"}
    attached = stage.data(run, "conversation.attached")[before:]
    assert [each["rung"] for each in attached] == ["history injection"]
    history = told(stage, run)
    assert "write the greeting" in history
    assert "capitals" not in history
    stage.holdfast("verify", run)


def test_dry_run_names_files_and_changes_nothing(stage: Stage) -> None:
    run = three_turns(stage)
    before = stage.events(run)
    plan = stage.holdfast("rewind", run, "--to", "turn-1", "--dry-run", "--json").object
    assert [(file["path"], file["removed"]) for change in plan["worktrees"] for file in change["files"]] == [
        ("bye.txt", 1),
        ("hello.txt", 1),
    ]
    assert plan["abandoned"]["turns"] == 2
    assert stage.events(run) == before
    assert files(stage, run)["bye.txt"] == "bye\n"


def test_undo_brings_files_branches_and_conversation_back(stage: Stage) -> None:
    run = three_turns(stage)
    with open(os.path.join(worktree(stage, run), "mine.txt"), "w", encoding="utf-8") as file:
        file.write("of the user\n")
    had, turns = files(stage, run), conversation(stage, run)["turns"]
    stage.holdfast("rewind", run, "-y")
    assert "bye.txt" not in files(stage, run)
    assert "mine.txt" not in files(stage, run)
    stage.holdfast("rewind", run, "--undo", "-y")
    assert files(stage, run) == had
    assert conversation(stage, run)["turns"] == turns
    stage.holdfast("rewind", run, "--undo", "-y")
    assert "bye.txt" not in files(stage, run)


def test_only_files_leaves_the_conversation_and_tells_the_agent(stage: Stage) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", "files", "-y")
    assert files(stage, run) == {"hello.txt": "HELLO\n"}
    assert conversation(stage, run)["turns"] == 3
    say(stage, run, "the farewell again")
    assert "set back to an earlier point" in stage.prompts(run)[-1]
    say(stage, run, "now in capitals")
    assert "set back" not in stage.prompts(run)[-1]


def test_only_conversation_leaves_the_files_and_tells_the_agent(stage: Stage) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", "conversation", "-y")
    assert files(stage, run) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}
    assert conversation(stage, run)["turns"] == 2
    say(stage, run, "now in capitals")
    assert "the files were not" in told(stage, run)
    assert "farewell" not in told(stage, run)


def test_accepted_work_goes_back_with_the_branches(stage: Stage) -> None:
    run = chat(stage)
    first = stage.project.git("rev-parse", f"holdfast/{run}/main")
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    assert stage.file(run, "hello.txt") == "hello"
    refused = stage.holdfast("rewind", run, "--to", "turn-1", "--only", "conversation", "-y", code=5)
    assert "can only go back together" in refused.err
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    assert stage.project.git("rev-parse", f"holdfast/{run}/main") == first
    assert files(stage, run) == {"hello.txt": "hello\n"}
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    assert stage.file(run, "hello.txt") == "hello"
    assert len(stage.data(run, "iteration.accepted")) == 2  # the log keeps both


@pytest.mark.parametrize("axis", ["files", "conversation"])
def test_half_a_rewind_is_not_undone_once_work_was_accepted(stage: Stage, axis: str) -> None:
    """Else the branches would lose a merge that the plan has, or the plan one that the branches have."""
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", axis, "-y")
    stage.holdfast("rewind", run, "--undo", "-y")
    stage.holdfast("rewind", run, "--only", axis, "-y")
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    merged = stage.project.git("rev-parse", f"holdfast/{run}/main")
    refused = stage.holdfast("rewind", run, "--undo", "-y", code=5)
    assert "cannot be undone" in refused.err
    assert stage.project.git("rev-parse", f"holdfast/{run}/main") == merged


def test_messages_are_delivered_once(stage: Stage) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    stage.resume(run)
    assert conversation(stage, run)["turns"] == 1
    assert len(stage.prompts(run)) == 3  # those before the rewind


def test_unknown_point_is_refused_with_the_known_ones(stage: Stage) -> None:
    run = chat(stage)
    refused = stage.holdfast("rewind", run, "--to", "turn-9", "-y", code=2)
    assert "the newest are turn-1" in refused.err
    assert "never rewound" in stage.holdfast("rewind", run, "--undo", "-y", code=4).err
    assert "-y" in stage.holdfast("rewind", run, code=5).err


POINTS = (
    *("run.rewind.before", "run.rewind.after", "rewind.finish.before", "rewind.finish.after"),
    *("effect.worktree.rewind.before", "effect.worktree.rewind.after"),
    *("worktree.rewind.saved", "worktree.rewind.moved"),
)


@pytest.mark.parametrize("point", POINTS)
def test_killed_rewind_is_finished_by_the_next_start(stage: Stage, point: str) -> None:
    """A rewind that is in the log happened; one that is not did not, and is asked for again."""
    run = three_turns(stage)
    environment = failpoint_environment(stage.folder, f"{point}:1")
    stage.holdfast("rewind", run, "--to", "turn-1", "-y", env=environment, code=KILLED, cold=True)
    rewound = bool(stage.data(run, "run.rewound"))
    assert rewound == (point != "run.rewind.before")
    assert conversation(stage, run)["turns"] == (1 if rewound else 3)
    if not rewound:
        stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    say(stage, run, "the farewell, please")
    assert files(stage, run) == {"hello.txt": "hello\n", "bye.txt": "bye\n"}
    assert conversation(stage, run)["turns"] == 2
    assert len(stage.data(run, "run.rewind_finished")) == 1
    stage.holdfast("verify", run)
