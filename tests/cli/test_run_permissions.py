"""An agent asks; somebody answers, from elsewhere, also when nothing is alive."""

import signal

import pytest

from tests.support.cli_stage import Stage, killed, outcome, wait_for_event, worker

ASK = {
    "permission": {
        "title": "Delete the notes",
        "kind": "delete",
        "allowed": [{"write": {"path": "answer.txt", "text": "allowed\n"}}],
        "rejected": [{"write": {"path": "answer.txt", "text": "rejected\n"}}],
    }
}


@pytest.mark.parametrize("answer", ["approve", pytest.param("deny", marks=pytest.mark.torture)])
def test_an_answer_from_another_process_reaches_the_agent(stage: Stage, answer: str) -> None:
    agent = stage.book(worker(ASK))
    with stage.start("run", "tidy up", "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        assert "Delete the notes" in stage.holdfast(answer, run).out
        outcome(process)
    assert stage.file(run, "answer.txt") == {"approve": "allowed", "deny": "rejected"}[answer]
    assert "has no open request" in stage.holdfast(answer, run, code=4).complaint


def test_an_answer_given_while_nothing_is_alive_is_used(stage: Stage) -> None:
    agent = stage.book(worker(ASK), sessions={"interrupted": "again"})
    with stage.start("run", "tidy up", "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        killed(process)
    run = stage.only_run()
    stage.holdfast("approve", run)
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "answer.txt") == "allowed"
    assert [d["by"] for d in stage.data(run, "permission.answered")][1:] == ["the answer given before"]


def test_a_hook_that_fails_forbids_the_tool_call(stage: Stage) -> None:
    veto = f'hooks.pre_tool=[["sh", "-c", "cat > {stage.folder}/told; echo not here >&2; exit 1"]]'
    run = stage.run("tidy up", "--agent", stage.book(worker(ASK)), "--set", veto)
    (blocked,) = stage.data(run, "tool.blocked")
    assert "not here" in blocked["reason"]
    assert stage.file(run, "answer.txt") == "rejected"


@pytest.mark.torture
def test_ctrl_c_while_it_asks_leaves_the_question_open(stage: Stage) -> None:
    agent = stage.book(worker(ASK), sessions={"interrupted": "again"})
    with stage.start("run", "tidy up", "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        process.send_signal(signal.SIGINT)
        run = outcome(process, code=130).objects[-1]["run"]
    with stage.start("resume", run, "--allow", "allow-all") as process:
        outcome(process)
    assert stage.states(run) == {"T-1": "COMPLETE"}
