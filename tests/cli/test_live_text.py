"""What an agent says is on the screen while it says it, in `run`, `attach` and `top`. Elsewhere nothing changes."""

import os

import pytest

from holdfast.app.text.live_area import Extras, live_rows, text_rows
from holdfast.app.text.screen import display_width
from holdfast.app.text.spans import row_text
from holdfast.core.conversation.live_text import OpenText
from holdfast.core.events.conversation import ConversationOpened
from tests.cli.boards import board
from tests.cli.terminal import conversation
from tests.core.logs import fold_all, session_log
from tests.support.cli_stage import Stage, worker

SAID = "I look around the house. "
TERMINAL = {"TERM": "xterm-256color", "NO_COLOR": "1"}


def talker(stage: Stage) -> str:
    """An agent that says something, and waits."""
    wait = {"wait_for": {"path": os.path.join(stage.folder, "end"), "timeout": 3600}}
    return stage.book(worker({"write": {"path": "a.txt", "text": "a\n"}}, {"say": SAID}, wait))


def let_it_end(stage: Stage) -> None:
    with open(os.path.join(stage.folder, "end"), "x", encoding="utf-8"):
        pass


def test_run_shows_text_as_it_comes(stage: Stage) -> None:
    with conversation(stage.holdfast, "run", "look", "--agent", talker(stage), env=TERMINAL) as terminal:
        terminal.until(f"│ {SAID.strip()}")
        let_it_end(stage)
        assert terminal.end() == 0
    assert [said["text"] for said in stage.data(stage.only_run(), "message.recorded")][-1] == SAID


def test_attach_in_the_middle_of_a_turn_shows_what_was_said_before(stage: Stage) -> None:
    begun = stage.holdfast("run", "look", "--agent", talker(stage), "--detach", "--json").object
    with conversation(stage.holdfast, "attach", begun["run"], env=TERMINAL) as terminal:
        terminal.until(f"│ {SAID.strip()}")
        let_it_end(stage)
        assert terminal.end() == 0


async def test_top_shows_text_as_it_comes(stage: Stage) -> None:
    begun = stage.holdfast("run", "look", "--agent", talker(stage), "--detach", "--json").object
    async with board(stage.home, (120, 40)) as screen:
        await screen.until(begun["run"], f"│ {SAID.strip()}")
        let_it_end(stage)
        await screen.until_gone(f"│ {SAID.strip()}")
    stage.holdfast("wait", begun["run"])


def test_output_off_a_terminal_has_only_the_log(stage: Stage) -> None:
    agent = talker(stage)
    let_it_end(stage)
    with stage.holdfast.start("run", "look", "--agent", agent) as process:
        _, err = process.communicate()
    assert "│" not in err.decode()
    assert err.decode().count(SAID.strip()) == 1


def test_live_area_shows_the_last_rows_of_what_is_said() -> None:
    state = fold_all(session_log(ConversationOpened(conversation="c", agent="claude", role="evaluator", task="T-1")))
    texts = {"c": OpenText("agent", "one\ntwo\n\nthree\nfour")}
    _, *rows = map(row_text, live_rows(state, "r", "", 80, 24, Extras(texts)))
    assert rows == ["  T-1 evaluator  │ two", "                 │ three", "                 │ four"]


def test_agents_that_speak_at_once_have_a_row_each() -> None:
    opened = [ConversationOpened(conversation=name, agent=name) for name in ("a", "b")]
    texts = {name: OpenText("agent", f"x\nI am {name}") for name in ("a", "b")}
    _, *rows = map(row_text, live_rows(fold_all(session_log(*opened)), "r", "", 80, 24, Extras(texts)))
    assert rows == ["  a  │ I am a", "  b  │ I am b"]


@pytest.mark.parametrize(
    "text", ["word " * 500, "x" * 3_000, "日本" * 800, "a\x1b[2J\x00b\n" * 40, "\n\n", "😀 " * 300]
)
@pytest.mark.parametrize("width", [12, 40, 120])
def test_rows_of_text_fit_and_cannot_control_the_terminal(text: str, width: int) -> None:
    rows = [*map(row_text, text_rows(OpenText("agent", text), width, 3))]
    assert len(rows) <= 3
    assert all(display_width(row) <= width and row.isprintable() for row in rows)
