"""What a person typed is done in its order, and once, whoever dies before it is done."""

import os
import signal
from pathlib import Path

from tests.cli.program import failpoint_environment
from tests.cli.terminal import CTRL_C, EOF
from tests.cli.test_chat import CAPITALS, ENTER, client, ended_turns, new, runner_pid, started, wait_for
from tests.cli.test_chat_json import lines
from tests.cli.test_run_chat import chat as ended_chat
from tests.cli.test_run_chat import conversation, say
from tests.cli.test_run_limits import limited
from tests.cli.test_run_watched_chats import send_and_die
from tests.support.cli_stage import Stage
from tests.support.crash_suite.warm_programs import KILLED


def kinds(stage: Stage, run: str) -> list[str]:
    """Of what people sent, in the order in which a runner read it."""
    return [data["kind"] for data in stage.data(run, "inbox.consumed")]


def test_work_is_accepted_after_the_messages_that_were_typed_before(stage: Stage) -> None:
    """The first message starts a runner, which takes a while; the others wait for it."""
    run = ended_chat(stage)
    with client(stage, run) as terminal:
        terminal.until("waiting for you")
        terminal.type(f"now in capitals{ENTER}then the farewell{ENTER}/accept{ENTER}")
        terminal.until("iteration 1 merged")
        terminal.type(EOF)
        assert terminal.end() == 0
    assert kinds(stage, run) == ["user", "user", "accept"]
    assert stage.file(run, "bye.txt") == "bye"


def test_file_that_is_attached_just_before_goes_with_the_message(stage: Stage, tmp_path: Path) -> None:
    """Terminals quote the name of a file that is dropped on them."""
    (tmp_path / "my shot.png").write_bytes(b"\x89PNG")
    with client(stage, *new(stage, {"when": "look at", "steps": [{"say": "looked"}]})) as terminal:
        run = started(stage, terminal)
        terminal.type(f"/attach '{tmp_path}/my shot.png'{ENTER}look at it{ENTER}")
        terminal.until("looked")
    (sent,) = stage.data(run, "prompt.files_sent")
    assert [file["name"] for file in sent["sent"]] == ["my_shot.png"]


def test_message_of_a_killed_sender_is_delivered_when_the_chat_is_opened(stage: Stage) -> None:
    run = ended_chat(stage)
    send_and_die(stage, run)
    with client(stage, run) as terminal:
        terminal.until("starting a runner for it")
        terminal.until("› now in capitals")
    wait_for(lambda: ended_turns(stage, run) == 2)
    stage.holdfast("wait", run)
    assert stage.prompts(run) == ["write the greeting", "now in capitals"]


def test_message_of_a_killed_sender_is_delivered_when_a_program_opens_the_chat(stage: Stage) -> None:
    run = ended_chat(stage)
    send_and_die(stage, run)
    with lines(stage, run, "--json") as program:
        program.until_event("turn.ended")
        assert program.end() == 0
    stage.holdfast("wait", run)
    assert stage.prompts(run) == ["write the greeting", "now in capitals"]


def test_first_message_of_a_killed_client_is_sent_when_the_chat_is_opened(stage: Stage) -> None:
    folder = Path(stage.folder, "passes")
    folder.mkdir()
    environment = failpoint_environment(str(folder), "runner.detach.before:1")
    stage.holdfast("chat", *new(stage), "--json", code=KILLED, env=environment)
    with client(stage) as terminal:
        terminal.until("starting a runner for it")
        assert "while you were away" not in terminal.until("greeted")


def test_first_message_that_was_rewound_waits_for_its_user(stage: Stage) -> None:
    """Who takes a turn back and comes to say something else does not want it done again."""
    run = ended_chat(stage)
    stage.holdfast("rewind", run, "--to", "start", "-y")
    with client(stage, run) as terminal:
        terminal.until("Your next message starts it again")
        terminal.until("waiting for you")
        terminal.type(EOF)
        assert terminal.end() == 0
    assert len(stage.data(run, "turn.started")) == 1
    say(stage, run, "in capitals")
    assert ended_turns(stage, run) == 2


def test_limited_turn_that_was_rewound_to_waits_for_its_user(stage: Stage) -> None:
    run = ended_chat(stage, {"when": "in capitals", "once": True, "steps": [limited(2)]})
    say(stage, run, "in capitals")
    assert conversation(stage, run)["turns"] == 3, "the second met a limit, and the third continued it"
    stage.holdfast("rewind", run, "--to", "turn-2", "-y")
    with client(stage, run) as terminal:
        terminal.until("waiting for you")
        terminal.type(EOF)
        assert terminal.end() == 0
    assert len(stage.data(run, "turn.started")) == 3


def test_program_chooses_the_conversation_of_what_it_says_next(stage: Stage) -> None:
    """Not of what it said before, which is on its way."""
    run = ended_chat(stage)
    other = stage.book({"when": "what do you think", "steps": [{"say": "an opinion\n"}]}, name="other")
    with lines(stage, run, "--json") as program:
        program.put(add={"agent": other, "text": "what do you think"})
        peer = program.until("done", command="add")["result"]
        main = stage.data(run, "conversation.opened")[0]["conversation"]
        program.put(conversation=main)
        program.put(say="now in capitals")
        program.put(conversation=peer)
        program.put(say="what do you think now")
        program.put(conversation=main)
        assert program.end() == 0
    said = [data["body"]["conversation"] for data in stage.data(run, "inbox.consumed") if data["kind"] == "user"]
    assert said == [main, peer]


def test_work_is_accepted_although_its_runner_is_killed(stage: Stage) -> None:
    gate, checking = Path(stage.folder, "gate"), Path(stage.folder, "checking")
    gate.touch()
    check = f'["sh", "-c", "touch {checking}; until [ -e {gate} ]; do sleep 0.05; done"]'
    with client(stage, *new(stage), "--set", f"validators.commands.gate.command={check}") as terminal:
        run = started(stage, terminal)
        gate.unlink()
        checking.unlink()
        terminal.type(f"/accept{ENTER}")
        wait_for(checking.exists)
        os.kill(runner_pid(stage, run), signal.SIGKILL)
        terminal.until("the runner died; starting another one for what you asked")
        gate.touch()
        terminal.until("iteration 1 merged")
    assert kinds(stage, run) == ["accept"]


def test_chat_that_is_stopped_stays_so_beside_a_client(stage: Stage) -> None:
    with client(stage, *new(stage)) as terminal:
        run = started(stage, terminal)
        terminal.type(f"take long{ENTER}")
        stage.hangs()
        terminal.type(f"now in capitals{ENTER}")
        wait_for(lambda: len(kinds(stage, run)) == 2)
        stage.holdfast("stop", run)
        assert "starting another" not in terminal.until("1 message was not delivered")
        terminal.until("waiting for you")
        terminal.type(CTRL_C + CTRL_C)
        assert terminal.end() == 0
    assert stage.data(run, "session.end")[-1]["reason"] == "stopped"
    with client(stage, run) as terminal:
        terminal.until("1 message was not delivered")
        terminal.type(f"/drop 1{ENTER}")
        terminal.until("taken back: now in capitals")
        assert "now in capitals" not in terminal.until("waiting for you"), "it is no longer shown as queued"
        terminal.type(f"in capitals, please{ENTER}")
        terminal.until("shouted")
    assert "now in capitals" not in stage.prompts(run)[-1]


def test_agent_that_outlives_its_runner_is_ended_before_the_next_prompt(stage: Stage) -> None:
    """Until then its conversation is that of a dead runner."""
    stubborn = {"when": "take long", "steps": [{"say": "I stay\n"}, {"hang": "stubborn"}]}
    with client(stage, *new(stage, CAPITALS, stubborn)) as terminal:
        run = started(stage, terminal)
        running = conversation(stage, run)
        assert (running["is_agent_running"], running["reason"]) == (True, "agent_running")
        terminal.type(f"take long{ENTER}")
        terminal.until("I stay")
        agent = stage.data(run, "conversation.attached")[-1]["pid"]
        os.kill(agent, signal.SIGSTOP)
        os.kill(runner_pid(stage, run), signal.SIGKILL)
        terminal.until("the runner died")
        left = conversation(stage, run)
        assert (left["is_agent_running"], left["needs_resume"], left["reason"]) == (False, False, "stale_execution")
        assert left["is_resumable"]
        terminal.type(f"now in capitals{ENTER}")
        terminal.until("shouted")
        assert stage.data(run, "conversation.attached")[-1]["pid"] != agent
