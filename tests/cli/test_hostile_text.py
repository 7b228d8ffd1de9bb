"""Whatever an agent or a repository names things: none of it drives the terminal, wherever it is shown."""

import asyncio
import re

import msgspec
import pytest
from msgspec import Raw

from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.conversation import (
    ConversationOpened,
    FileDiff,
    MessageRecorded,
    PermissionRequested,
    ToolBlocked,
    ToolCalled,
    TurnStarted,
)
from holdfast.core.events.issue import BlockerReported, WarningLogged
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.task import TaskFailed, TaskStarted
from tests.cli.boards import board
from tests.cli.program import Program
from tests.cli.runs import make_run
from tests.cli.terminal import shown

RUN = "auth-system-k3x9p2"
# Clears the screen, sets its title, writes to the clipboard; one-byte sequences; text that reads otherwise; markup.
EVIL = "evil\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x9b31m\r\x08\x7f\u202e\u2066[@click=app.quit]quit[/]"
_OWN = re.compile(r"\x1b\[[0-9;]*m")  # colours
_DANGEROUS = set("\x1b\x07\x08\x7f\x9b\r\u202e\u2066")


def hostile_run(home: str) -> None:
    given = Raw(msgspec.json.encode({"path": EVIL}))
    make_run(
        home,
        RUN,
        PlanCreated(tasks=[PlannedTask(id=1, summary=EVIL, description=EVIL), PlannedTask(id=EVIL, summary="x")]),
        BranchCreated(name=EVIL, task=1),
        BranchMerged(name=EVIL, target=EVIL, conflicts=True),
        TaskStarted(task_id=EVIL, summary=EVIL),
        TaskFailed(task_id=EVIL, error=EVIL),
        ConversationOpened(conversation="c-1", agent=EVIL, role=EVIL, task=1),
        TurnStarted(conversation="c-1", turn="t-1"),
        MessageRecorded(conversation="c-1", speaker="agent", text=EVIL, turn="t-1"),
        ToolCalled(conversation="c-1", call=EVIL, tool=EVIL, turn="t-1", input=given),
        ToolBlocked(conversation="c-1", tool=EVIL, reason=EVIL, command=EVIL),
        BlockerReported(description=EVIL),
        WarningLogged(message=EVIL),
        PermissionRequested(
            conversation="c-1",
            request="r-1",
            title=EVIL,
            kind=EVIL,
            paths=[EVIL],
            command=EVIL,
            diffs=[FileDiff(path=EVIL, old=EVIL, new=f"{EVIL}!")],
            input=given,
        ),
        goal=EVIL,
    )


@pytest.mark.parametrize(
    "command", [("show", RUN), ("logs", RUN), ("ls",), ("analyze", RUN), ("verify", RUN)], ids=" ".join
)
def test_no_command_passes_control_characters_on(holdfast: Program, command: tuple[str, ...]) -> None:
    hostile_run(holdfast.home)
    screen = shown(holdfast, *command, columns=200)
    assert not set(_OWN.sub("", screen)) & _DANGEROUS
    assert command[0] == "verify" or "evil" in screen


async def test_dashboard_passes_none_on_and_reads_no_markup(home: str) -> None:
    """Also not in the dialog that asks for an answer."""
    await asyncio.to_thread(hostile_run, home)
    async with board(home, (200, 60)) as screen:
        text = await screen.until("needs you", "[@click=app.quit]quit[/]")
        assert not set(text) & _DANGEROUS
        await screen.press("a")
        text = await screen.until("Esc cancels")
        assert not set(text) & _DANGEROUS
