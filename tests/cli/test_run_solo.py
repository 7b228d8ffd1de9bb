"""One agent at one task: the work is on a branch of its own, and the user's checkout is left alone."""

from tests.support.cli_stage import HELLO, Stage, branch


def test_a_goal_becomes_a_diff_on_a_branch_of_its_own(stage: Stage) -> None:
    agent = stage.book(HELLO)
    before = stage.project.footprint()
    run = stage.run("say hello", "--agent", agent)
    assert stage.file(run, "hello.txt") == "hello"
    after = stage.project.footprint()
    assert (after.status, after.config, after.staged, after.folders) == (
        before.status,
        before.config,
        before.staged,
        before.folders,
    )
    assert stage.project.branches() == [branch(run)]
    assert stage.subjects(run) == ["say hello", "Merge task T-1"]
    assert "+hello" in stage.holdfast("diff", run).out
    stage.holdfast("verify", run)


def test_a_message_to_a_finished_run_reopens_it_in_the_same_conversation(stage: Stage) -> None:
    more = {
        "when": "and say goodbye",
        "steps": [{"echo_memory": True}, {"write": {"path": "bye.txt", "text": "bye\n"}}],
    }
    run = stage.run("say hello", "--agent", stage.book(more, HELLO))
    assert "holdfast resume" in stage.holdfast("send", run, "and say goodbye").out
    assert stage.resume(run)["ended"] == "all_done"
    assert len(stage.data(run, "conversation.opened")) == 1
    assert (stage.file(run, "hello.txt"), stage.file(run, "bye.txt")) == ("hello", "bye")
    (prompt,) = (text for text in stage.prompts(run) if "goodbye" in text)
    assert prompt.startswith("Task `T-1` is open again. The user has more to say")
    remembered = [d["text"] for d in stage.data(run, "message.recorded") if d["speaker"] == "agent"]
    assert any("I remember" in text and "say hello" in text for text in remembered)
