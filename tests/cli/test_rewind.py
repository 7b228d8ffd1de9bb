"""`holdfast rewind`: conversation, files and plan go back together; nothing is lost, and it can be taken back."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from holdfast.engine.commands.rewind import RewindRequest, rewind_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import PositionMismatch
from holdfast.store.files.layout import run_folder
from tests.cli.program import failpoint_environment
from tests.cli.terminal import CTRL_C, answered
from tests.cli.test_run_chat import chat, conversation, say
from tests.support.cli_stage import EVALUATE, HANG, SUBMIT, Stage, worker
from tests.support.crash_suite.scenarios import PIPELINE
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.variants import every

# What an agent does that was told the history: it repeats all that it was told
RETOLD = {
    "resume_context": True,
    "steps": [{"write": {"path": "bye.txt", "text": "bye\n"}}, {"say": "{{prompt}}"}],
}

WAITS = 6  # for an approval
WRITE = {"write": {"path": "hello.txt", "text": "hello\n"}}


def worktree(stage: Stage, run: str) -> str:
    return os.path.join(run_folder(stage.home, run), "tasks", "T-1")


def told(stage: Stage, run: str) -> str:
    """All that the agent was told last, with the history."""
    said = [data["text"] for data in stage.data(run, "message.recorded") if data["speaker"] == "agent"]
    assert "EXECUTION HISTORY" in said[-1]
    return str(said[-1])


def last_prompt(stage: Stage, run: str) -> str:
    """The last prompt, without the history before it."""
    return stage.prompts(run)[-1]


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


def test_ctrl_c_at_the_question_cancels_at_once(stage: Stage) -> None:
    run = three_turns(stage)
    outcome = answered(stage.holdfast, "rewind", run, answer=CTRL_C)
    assert outcome.code == 130
    assert outcome.err.endswith("cancelled; nothing changed\n")
    assert files(stage, run) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}


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


def test_run_that_went_on_since_a_person_looked_is_not_rewound(stage: Stage) -> None:
    run = three_turns(stage)
    before = stage.events(run)
    end = os.path.getsize(os.path.join(run_folder(stage.home, run), "events.jsonl"))
    with pytest.raises(PositionMismatch, match="went on since you looked"):
        asyncio.run(rewind_run(Home(stage.home), run, RewindRequest("turn-1", expect=end - 1)))
    assert stage.events(run) == before
    asyncio.run(rewind_run(Home(stage.home), run, RewindRequest("turn-1", expect=end)))
    assert files(stage, run) != {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}


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


def test_lost_worktree_comes_back_as_the_rewind_left_it(stage: Stage) -> None:
    """Not with what the last turn wrote, which was taken back."""
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", "files", "--to", "turn-1", "-y")
    shutil.rmtree(worktree(stage, run))
    say(stage, run, "thank you")
    assert files(stage, run) == {"hello.txt": "hello\n"}
    assert conversation(stage, run)["turns"] == 4


def test_only_conversation_leaves_the_files_and_tells_the_agent(stage: Stage) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", "conversation", "-y")
    assert files(stage, run) == {"hello.txt": "HELLO\n", "bye.txt": "bye\n"}
    assert conversation(stage, run)["turns"] == 2
    say(stage, run, "now in capitals")
    assert "the files were not" in told(stage, run)
    assert "farewell" not in told(stage, run)


@pytest.mark.parametrize("axis", ["files", "conversation"])
def test_agent_is_not_told_that_files_and_memory_differ_when_they_do_not(stage: Stage, axis: str) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", axis, "-y")
    stage.holdfast("rewind", run, "--undo", "-y")
    say(stage, run, "now in capitals")
    assert not re.search("are not in the worktree any more|the files were not", last_prompt(stage, run))
    stage.holdfast("rewind", run, "--only", axis, "-y")
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")  # both: they agree again
    say(stage, run, "now in capitals")
    assert "set back" not in last_prompt(stage, run)


@pytest.mark.parametrize(
    ("axis", "notice"),
    [("files", "are not in the worktree any more"), ("conversation", "the files were not")],
)
def test_agent_is_told_that_they_differ_once_a_rewind_is_undone_after_work(
    stage: Stage, axis: str, notice: str
) -> None:
    """The work was taken back in one of the two, and not in the other."""
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--only", axis, "-y")
    say(stage, run, "now in capitals")
    stage.holdfast("rewind", run, "--undo", "-y")
    say(stage, run, "now in capitals")
    assert notice in last_prompt(stage, run)


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


def test_pages_beside_the_log_go_back_with_it(stage: Stage) -> None:
    """Also what a point before them never had."""
    agent = stage.book(worker(WRITE, SUBMIT), EVALUATE)
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent)
    page = Path(run_folder(stage.home, run), "ledger", "T-1.jsonl")
    assert len(page.read_text().splitlines()) == 1
    stage.holdfast("rewind", run, "--to", "start", "-y")
    assert not page.exists()
    assert json.loads(page.parents[1].joinpath("plan.json").read_text())["tasks"]["T-1"]["status"] == "PENDING"
    stage.holdfast("rewind", run, "--undo", "-y")
    assert len(page.read_text().splitlines()) == 1


def test_documents_that_were_taken_back_are_not_taken_for_edits(stage: Stage) -> None:
    agent = stage.book(*PIPELINE.turns)
    run = stage.run("write the page", "--workflow", "pipeline", "--agent", agent, code=WAITS)
    folder = Path(run_folder(stage.home, run), "artifacts")

    def documents() -> set[str]:
        return {path.name for path in folder.rglob("*.*")}

    whole = documents()
    assert {"architecting.md", "planning.md", "summary.md"} <= whole
    folder.joinpath("planning", "planning.md").write_text("mine\n")
    stage.holdfast("rewind", run, "--to", "architecting-1-done", "-y")
    assert documents() == {"architecting.md", "planning.md"}, "what a person edited stays"
    assert stage.resume(run, code=WAITS)["ended"] == "waiting"
    (edited,) = documents() - whole
    assert edited.startswith("planning.edited-")
    warnings = [data["message"] for data in stage.data(run, "warning.logged") if "was edited" in data["message"]]
    assert all("planning.md" in warning for warning in warnings)


@pytest.mark.parametrize("point", every(2, ["run.rewind.before", "run.rewind.after"]))
def test_documents_of_a_killed_rewind_are_not_taken_for_edits(stage: Stage, point: str) -> None:
    agent = stage.book(*PIPELINE.turns)
    run = stage.run("write the page", "--workflow", "pipeline", "--agent", agent, code=WAITS)
    folder = Path(run_folder(stage.home, run), "artifacts")
    whole = {path.name for path in folder.rglob("*.*")}
    environment = failpoint_environment(stage.folder, f"{point}:1")
    stage.holdfast("rewind", run, "--to", "architecting-1-done", "-y", env=environment, code=KILLED, cold=True)
    assert stage.resume(run, code=WAITS)["ended"] == "waiting"
    assert {path.name for path in folder.rglob("*.*")} == whole
    assert not [data for data in stage.data(run, "warning.logged") if "was edited" in data["message"]]


def status(stage: Stage, run: str) -> str:
    (listed,) = (one for one in stage.holdfast("ls", "--json").objects if one["id"] == run)
    shown = stage.holdfast("show", run, "--json").object["status"]
    assert shown == listed["status"]
    return str(shown)


def test_finished_run_that_is_rewound_is_not_done(stage: Stage) -> None:
    """It is what it was at the point, continues from there to the same end, and is done again when that is undone."""
    run = stage.run("write the greeting", "--agent", stage.book(worker(WRITE, SUBMIT), EVALUATE))
    tree = stage.project.git("rev-parse", f"holdfast/{run}/main^{{tree}}")
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    assert status(stage, run) == "rewound"
    assert stage.states(run) == {"T-1": "IN_PROGRESS"}
    assert stage.holdfast("wait", run, code=1).out.strip() == "rewound"
    assert stage.holdfast("show", run, "--json").object["analysis"]["decision"]["case"] == "auto"
    stage.holdfast("rewind", run, "--undo", "-y")
    assert status(stage, run) == "done"
    assert "nothing to resume" in stage.holdfast("resume", run, code=4).err
    stage.holdfast("rewind", run, "--undo", "-y")
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.project.git("rev-parse", f"holdfast/{run}/main^{{tree}}") == tree
    assert len(stage.data(run, "turn.started")) == 1
    stage.holdfast("rewind", run, "--to", "start", "-y")
    assert status(stage, run) == "planned"
    assert stage.states(run) == {"T-1": "PENDING"}
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.project.git("rev-parse", f"holdfast/{run}/main^{{tree}}") == tree
    assert len(stage.data(run, "turn.started")) == 2
    stage.holdfast("verify", run)


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
    assert f"`holdfast show {run} --points` lists all" in refused.err
    assert "the newest are turn-1" in refused.err
    assert "never rewound" in stage.holdfast("rewind", run, "--undo", "-y", code=4).err
    assert "-y" in stage.holdfast("rewind", run, code=5).err
    assert "fewer than 9 turns of a worker" in stage.holdfast("rewind", run, "--to", "-9", code=4).err


def test_ambiguous_turn_is_refused_with_a_name_for_each(stage: Stage) -> None:
    """Every task has a turn 1; the label in the list of points is the name to use."""
    agent = stage.book(worker(WRITE, SUBMIT), EVALUATE)
    plan_file = stage.tasks("T-1", {"id": "T-2", "blocked_by": ["T-1"]})
    run = stage.run("--workflow", "loop", plan_file, "--agent", agent)
    refused = stage.holdfast("rewind", run, "--to", "turn-1", "--dry-run", code=2)
    assert "'turn-1' could be any of T-2/turn-1, T-1/turn-1" in refused.err
    assert "T-2/turn-1" in stage.holdfast("show", run, "--points").out
    points = {point["label"]: point for point in stage.holdfast("show", run, "--points", "--json").objects}
    for label in ("T-1/turn-1", "T-2/turn-1"):
        point = points[label]
        for name in (label, f"{point['conversation']}/turn-1", point["turn"], f"@{point['position']}"):
            plan = stage.holdfast("rewind", run, "--to", name, "--dry-run", "--json").object
            assert plan["position"] == point["position"]
    refused = stage.holdfast("rewind", run, "--to", "turn-1", "--task", "T-1", "--dry-run", code=5)
    assert "T-2 worked since" in refused.err or "was merged since" in refused.err


def test_end_of_a_session_is_a_point_when_work_was_merged_in_it(stage: Stage) -> None:
    run = stage.run("write the greeting", "--agent", stage.book(worker(WRITE, SUBMIT), EVALUATE))
    newest = stage.holdfast("show", run, "--points", "--json").objects[0]
    assert newest["kind"] in ("end", "checkpoint")
    other = str(stage.holdfast("fork", run, "--json").object["run"])
    assert stage.states(other) == {"T-1": "COMPLETE"}
    assert stage.file(other, "hello.txt") == "hello"
    assert stage.resume(other)["ended"] == "all_done"


def test_interrupted_turn_is_the_newest_to_take_back(stage: Stage) -> None:
    run = chat(stage, {"when": "hang", "steps": [{"write": {"path": "half.txt", "text": "half\n"}}, HANG]})
    sending = stage.start("send", run, "hang")
    stage.hangs()
    plan = stage.holdfast("rewind", run, "--dry-run", "--json").object
    assert plan["running"]
    assert plan["point"].startswith("turn-1-")
    stage.holdfast("rewind", run, "-y")
    sending.communicate()
    assert files(stage, run) == {"hello.txt": "hello\n"}
    assert conversation(stage, run)["turns"] == 1
    assert stage.holdfast("ls", "--json").objects[0]["status"] == "idle"


def test_what_agents_did_outside_their_worktree_is_listed(stage: Stage) -> None:
    """Not what they wrote in it, and not their reports to Holdfast."""
    outside = os.path.join(stage.folder, "elsewhere.txt")
    command = {"run": f"touch {outside}"}
    agent = stage.book(worker(WRITE, command, SUBMIT), EVALUATE)
    run = stage.run("write the greeting", "--agent", agent, "--allow", "allow-all")
    for each in (run, str(stage.holdfast("fork", run, "--json").object["run"])):
        plan = stage.holdfast("rewind", each, "--to", "start", "--dry-run", "--json").object
        assert plan["abandoned"]["calls"] == [f"touch {outside}"]


def test_pushed_branch_is_named_and_stays_where_it_was_pushed(stage: Stage) -> None:
    run = chat(stage, RETOLD)
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    stage.holdfast("push", run)
    branch = f"holdfast/{run}/main"
    pushed = stage.project.git("rev-parse", branch, at=stage.project.remote)
    shown = stage.holdfast("rewind", run, "--to", "start", "--dry-run").out
    assert f"pushed {branch} to origin" in shown
    assert stage.project.git("rev-parse", branch) == pushed
    stage.holdfast("rewind", run, "--to", "start", "-y")
    assert stage.project.git("rev-parse", branch) != pushed
    assert stage.project.git("rev-parse", branch, at=stage.project.remote) == pushed


def test_push_after_a_rewind_says_how_to_replace_what_was_taken_back(stage: Stage) -> None:
    """Nothing is forced, and what is behind on the remote is not taken for pushed."""
    run = chat(stage, RETOLD)
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    stage.holdfast("push", run)
    branch = f"holdfast/{run}/main"
    pushed = stage.project.git("rev-parse", branch, at=stage.project.remote)
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    assert "a rewind took back" in stage.holdfast("push", run, code=5).err
    say(stage, run, "the farewell, please")
    stage.holdfast("accept", run)
    stage.holdfast("wait", run)
    refused = stage.holdfast("push", run, code=5).err
    assert stage.project.git("rev-parse", branch, at=stage.project.remote) == pushed
    advice = re.search(r"with: git (push .*); then", refused)
    assert advice is not None
    stage.project.git(*advice[1].split())
    stage.holdfast("push", run)
    assert stage.project.git("rev-parse", branch, at=stage.project.remote) == stage.project.git("rev-parse", branch)


def test_search_finds_only_what_counts(stage: Stage) -> None:
    """Also when the catalog had it before the rewind, and again when that is undone."""
    run = three_turns(stage)
    assert stage.holdfast("ls", "--search", "farewell").lines
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    assert stage.holdfast("ls", "--search", "farewell").lines == []
    assert len(stage.holdfast("ls", "--search", "greeting").lines) == 1
    say(stage, run, "now in capitals")
    assert stage.holdfast("ls", "--search", "farewell").lines == []
    stage.holdfast("rewind", run, "--undo", "-y")
    assert len(stage.holdfast("ls", "--search", "capitals").lines) == 1


def test_readers_skip_what_is_abandoned(stage: Stage) -> None:
    run = three_turns(stage)
    stage.holdfast("rewind", run, "--to", "turn-1", "-y")
    readers = (
        *(("logs", "--json"), ("logs", "-n", "400"), ("show", "--json")),
        *(("export", "-o", "-"), ("export", "--as", "resume-protocol", "-o", "-")),
    )
    for command, *options in readers:
        shown = stage.holdfast(command, run, *options).out
        assert "greeting" in shown
        assert "farewell" not in shown, command


POINTS = (
    *("run.rewind.before", "run.rewind.after", "rewind.finish.before", "rewind.finish.after"),
    *("effect.worktree.rewind.before", "effect.worktree.rewind.after"),
    *("worktree.rewind.saved", "worktree.rewind.moved"),
)


@pytest.mark.parametrize("point", every(3, POINTS))
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
