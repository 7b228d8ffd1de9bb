"""A program that asks for trust before it works: by the permissions, by a person from elsewhere, or at its window."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holdfast.core.conversation.permission import PermissionConfig, PermissionDecision, Rule
from holdfast.core.conversation.terminal_ui import StartupQuestion, TerminalUi
from holdfast.core.events.conversation import PermissionAnswered
from tests.support.conversations import AGENT, ASK
from tests.support.wait import until
from tests.tmux.rooms import Room

_ASKS = """\
printf 'Do you trust the files in this folder? [y/N] '
read answer
[ "$answer" = y ] || exit 3
exec "$@"
"""


@pytest.fixture
def shy(room: Room, tmp_path: Path) -> Room:
    """The same agent, behind a program that asks first."""
    script = tmp_path / "shy.sh"
    script.write_text(_ASKS)
    book = os.path.join(room.place.home, f"{AGENT}.yaml")
    play = (sys.executable, "-m", "holdfast", "agent", "playbook", book, "--terminal", "--mcp", "{mcp}")
    question = StartupQuestion(when=r"trust .*\[y/N\]$", about="Trust it?", yes=("y", "Enter"), no=("n", "Enter"))
    tui = TerminalUi(
        command=("sh", str(script), *play), new=("--session", "{session}"), ready="^›", questions=(question,)
    )
    return room._replace(tui=tui)


async def test_a_rule_answers_once_and_the_prompt_comes_after(shy: Room) -> None:
    allowing = PermissionConfig(rules=(Rule(then=PermissionDecision.ALLOW, tool="Trust it?"),))
    async with shy.session(allowing) as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", shy.place.cwd))
        assert (await shy.ended(turn, name, "one")).reason == "end_turn"
    assert len(await shy.place.events(PermissionAnswered)) == 1


@pytest.mark.torture
async def test_without_a_rule_a_person_is_asked_and_may_answer_from_elsewhere(shy: Room) -> None:
    async with shy.session(ASK) as (run, broker, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", shy.place.cwd))
        await until(lambda: bool(run.state.permissions))
        ((request, asked),) = run.state.permissions.items()
        assert asked.title == "Trust it?"
        assert not os.path.exists(os.path.join(shy.place.cwd, "one"))
        await broker.answer(request, "allow", by="Ada")
        assert (await shy.ended(turn, name, "one")).reason == "end_turn"


@pytest.mark.torture
async def test_or_answers_at_the_window(shy: Room) -> None:
    async with shy.session(ASK) as (run, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", shy.place.cwd))
        await until(lambda: bool(run.state.permissions))
        (pane,) = shy.panes().values()
        shy.tmux("send-keys", "-t", pane.id, "y", "Enter")
        assert (await shy.ended(turn, name, "one")).reason == "end_turn"
        assert not run.state.permissions  # the turn is over, and nobody waits for an answer


@pytest.mark.torture
async def test_a_refusal_is_given_to_the_program(shy: Room) -> None:
    refusing = PermissionConfig(rules=(Rule(then=PermissionDecision.DENY, tool="Trust it?"),))
    async with shy.session(refusing) as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = await conversations.send_prompt(name, "one", shy.place.cwd)
        assert turn.reason == "interrupted"
    with open(os.path.join(shy.folder, "agents", f"{name}.stderr"), encoding="utf-8") as file:
        assert "Do you trust the files in this folder?" in file.read()
