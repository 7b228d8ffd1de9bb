"""An agent asks; somebody answers, from elsewhere, also when nothing is alive."""

import signal

import pytest

from tests.cli.terminal import conversation
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
    assert [d["by"] for d in stage.data(run, "permission.answered")][1:] == ["the earlier answer"]


COMMAND = {
    "permission": {
        "title": "Build",
        "kind": "execute",
        "input": {"command": "make build"},
        "allowed": [{"write": {"path": "answer.txt", "text": "allowed\n"}}],
        "rejected": [{"write": {"path": "answer.txt", "text": "rejected\n"}}],
    }
}


@pytest.mark.parametrize(("key", "answer"), [("y", "allowed"), ("n", "rejected"), ("a", "allowed")])
def test_key_answers_a_request_on_the_terminal(stage: Stage, key: str, answer: str) -> None:
    agent = stage.book(worker(COMMAND))
    terminal = {"TERM": "xterm-256color"}
    with conversation(stage.holdfast, "run", "build it", "--agent", agent, env=terminal) as screen:
        screen.until("make build")
        screen.until("y allow · n deny · a always in this run")
        screen.type(f"x{key}")
        screen.until("done")
        assert screen.end() == 0
    run = stage.only_run()
    assert stage.file(run, "answer.txt") == answer
    rules = stage.data(run, "permission.rule_added")
    assert [rule["command"] for rule in rules] == (["make build"] if key == "a" else [])


def test_attached_terminal_answers_too(stage: Stage) -> None:
    with stage.start("run", "build it", "--agent", stage.book(worker(COMMAND))) as process:
        wait_for_event(process, "permission.requested")
        with conversation(stage.holdfast, "attach", stage.only_run(), env={"TERM": "xterm-256color"}) as screen:
            screen.until("y allow")
            screen.type("y")
            screen.until("permission answer")
        outcome(process)
    assert stage.file(stage.only_run(), "answer.txt") == "allowed"


def test_rule_is_listed_and_revoked(stage: Stage) -> None:
    """The second task of the same call is not asked until the rule is revoked."""
    with stage.start("run", "build it", "--agent", stage.book(worker(COMMAND))) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        stage.holdfast("approve", run, "--always")
        outcome(process)
    (rule,) = stage.holdfast("show", run, "--json").object["rules"]
    shown = stage.holdfast("show", run).out
    assert f"{rule}  execute make build" in shown
    assert f"holdfast deny {run} --revoke RULE" in shown
    assert "has no rule 'nothing'" in stage.holdfast("deny", run, "--revoke", "nothing", code=4).complaint
    assert stage.holdfast("deny", run, "--revoke", rule[:4]).out == f"revoked rule {rule}: execute make build\n"


def test_without_a_terminal_the_line_names_the_command_once(stage: Stage) -> None:
    arguments = ("run", "build it", "--agent", stage.book(worker(COMMAND)))
    with stage.holdfast.start(*arguments) as process:
        assert process.stderr is not None
        line = next(line.decode() for line in process.stderr if b"asks: " in line)
        run = stage.only_run()
        command = line.partition("answer with: holdfast ")[2].partition(",")[0]
        assert command.startswith(f"approve {run} ")
        stage.holdfast(*command.split())
        rest = process.stderr.read().decode()
        assert process.wait() == 0
    assert "holdfast approve" not in rest


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
