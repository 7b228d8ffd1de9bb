"""`holdfast plan --interview` from the command line, as a program and at a terminal."""

from tests.cli.terminal import conversation
from tests.cli.test_chat import ENTER, ended_turns, wait_for
from tests.cli.test_chat_json import lines
from tests.engine.commands.test_interview import ASK, PLAN, TEST, WRITE
from tests.support.cli_stage import Stage


def test_plan_is_asked_for_shown_changed_and_accepted(stage: Stage) -> None:
    """The prepared run starts with `holdfast run`."""
    agent = stage.book(WRITE, ASK)
    begin = ("--interview", "Users log in", "--agent", agent, "--set", "chat.idle=60", "--json")
    interview = str(stage.holdfast("plan", *begin, cold=True).object["interview"])
    with lines(stage, interview, "--json") as program:
        program.until("state", working=False, runner=True)
        program.put(plan=True)
        assert program.until("done", command="plan")["result"] is None
        program.put(say="yes, with a password")
        assert program.until_event("plan.proposed")["seeds"] == [TEST]
        program.put(plan={**PLAN, "overview": "Only people with a password log in."})
        assert program.until_event("plan.proposed")["by"] is not None
        program.put(plan={"tasks": []})
        assert "not a plan" in program.until("error", command="plan")["message"]
        program.put(accept=True)
        run = program.until_event("plan.run_prepared")["run_id"]
    assert stage.data(run, "plan.created")[0]["overview"] == "Only people with a password log in."
    assert stage.data(run, "run.interviewed")[0]["run_id"] == interview
    stage.holdfast("verify", run)
    stage.holdfast("verify", interview)


def test_interview_at_the_terminal(stage: Stage) -> None:
    agent = stage.book(WRITE, ASK)
    arguments = ("plan", "--interview", "Users log in", "--agent", agent, "--set", "chat.idle=60")
    env = {"TERM": "xterm-256color", "NO_COLOR": "1"}
    with conversation(stage.holdfast, *arguments, env=env) as terminal:
        terminal.until("With a password?")
        (run,) = (one["id"] for one in stage.holdfast("ls", "--json").objects)
        terminal.type(f"yes, with a password{ENTER}")
        terminal.until("a user can be stored")
        terminal.until("accept it with /accept")
        wait_for(lambda: ended_turns(stage, run) == 2)
        terminal.type(f"/accept{ENTER}")
        terminal.until("start it with: holdfast resume")


def test_what_an_interview_cannot_prepare_is_refused_first(stage: Stage) -> None:
    agent = stage.book(ASK)
    for wrong, why in (
        (("--workflow", "chat"), "takes no task list"),
        (("--workflow", "pipeline"), "takes no task list"),
        (("--include-changes",), "the interviewer writes the seeds"),
    ):
        found = stage.holdfast("plan", "--interview", "Users log in", "--agent", agent, *wrong, code=2)
        assert why in found.err
    assert stage.holdfast("ls", "--json").objects == []
