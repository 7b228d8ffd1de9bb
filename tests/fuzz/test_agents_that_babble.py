"""Agents that send garbage, as real processes: a turn ends, nothing is printed that only a programmer understands."""

import os
import random
import secrets
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.agents.acp.client import PermissionQuestion
from holdfast.agents.acp.driver import AgentExited, AgentRefused, AgentSilent, Deadlines
from holdfast.agents.launch import Launch
from holdfast.core.conversation.tool_call import ToolCall
from tests.agents.company import Company, Person, text
from tests.fuzz.babbler import INSTEAD, WHEN
from tests.fuzz.frames import request
from tests.fuzz.guarded_folders import COMMAND, WORK, GuardedFolders
from tests.fuzz.hearing import hear
from tests.fuzz.mutation import mutated
from tests.fuzz.nonsense import LINES
from tests.fuzz.seeds import FRAMES
from tests.fuzz.writing import must_be_writable
from tests.support.cli_stage import Stage
from tests.support.memory import in_memory

BABBLER = Path(__file__).with_name("babbler.py")
PATIENT = Deadlines(start=10, session=10, silence=10, cancel=5)


def _nested(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


class Careful(Person):
    """Allows everything, but for commands that chance made."""

    async def permit(self, asked: PermissionQuestion) -> str | None:
        return asked.options[0][0] if asked.options else None

    async def veto(self, call: ToolCall) -> str | None:
        return "not on this machine" if call.kind == "execute" and call.title != COMMAND else None


@pytest.fixture
def company(tmp_path: os.PathLike[str]) -> Company:
    company = Company(os.fspath(tmp_path))
    company.person = Careful()
    return company


async def heard_out(company: Company, when: str, garbage: bytes) -> set[str]:
    """Spoken to from its greeting to the end of a turn; three errors are all that can come of it. Says what changed."""
    with in_memory() as folder:
        folders = GuardedFolders(folder)
        said = folders.placed(garbage)
        file = os.path.join(company.folder, "said")
        Path(file).write_bytes(said)
        command = (sys.executable, "-IS", str(BABBLER), when, file)
        launch = Launch(command, folders.work, {}, f"test/{secrets.token_hex(6)}", f"{file}.err")
        async with company.speaking(launch, PATIENT) as agent:
            with suppress(AgentExited, AgentRefused, AgentSilent):
                await agent.initialize()
                session = await agent.new_session()
                await agent.prompt(session.session_id, text())
            await agent.recorder.flush(*agent.recorder.final_events())
        for event in company.book.events:
            must_be_writable(event)
        company.book.events.clear()
        return folders.must_be_as_asked(said)


async def test_what_is_asked_for_rightly_is_done() -> None:
    """Else nothing would follow from garbage that changes nothing."""
    assert await hear(FRAMES[0]) == {"work/folder/new", "work/folder/made"}


async def test_every_kind_of_nonsense_by_itself() -> None:
    for line in LINES:
        assert await hear(line) == set(), line[:200]


@pytest.mark.parametrize("when", [*WHEN, *INSTEAD])
async def test_all_kinds_of_nonsense_at_any_time(
    company: Company, when: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert await heard_out(company, when, b"".join(LINES[:-1]) + b"\n") == set()
    assert "Traceback" not in capfd.readouterr().err
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_a_run_with_an_agent_that_talks_nonsense_ends(stage: Stage) -> None:
    """Its stderr is ours to keep clean; what the agent did wrong is in the log."""
    said, folders = Path(stage.folder, "said"), GuardedFolders(os.path.join(stage.folder, "folders"))
    said.write_bytes(folders.placed(b"".join(LINES[:-1]).replace(WORK + b"/", b"")))  # it works elsewhere
    command = f'agents.babbler.command=["{sys.executable}", "{BABBLER}", "before session/prompt", "{said}"]'
    no_wait = 'agents.babbler.tools_wait="0s"'  # it never loads the tools
    run = stage.run("say hello", "--agent", "babbler", "--set", command, "--set", no_wait)
    odd = {event["what"] for event in stage.data(run, "conversation.misbehaved")}
    assert {"a line that is not JSON", "an answer without a request", "an unknown update"} <= odd
    stage.holdfast("verify", run)
    assert folders.must_be_as_asked(b"") == set()


NEARLY_RIGHT = {
    "what-is-about-a-request-takes-its-place": request(
        1, "fs/write_text_file", path="@WORK@/../beside/kept", content="x", _meta={"path": "@WORK@/kept"}
    ),
    "what-is-about-a-request-has-another-type": request(
        1, "fs/write_text_file", path="@BESIDE@", content="x", _meta={"path": "@WORK@/kept", "content": 7}
    ),
    "a-line-beyond-all-lines": request(1, "fs/read_text_file", path="@WORK@/kept", line=10**30),
    "more-lines-than-there-can-be": request(1, "fs/read_text_file", path="@WORK@/kept", line=2, limit=2**63 - 1),
    "a-question-that-is-nested-deep": request(
        1,
        "session/request_permission",
        toolCall={"toolCallId": "c", "rawInput": _nested(300)},
        options=[{"optionId": "o", "name": "Yes", "kind": "allow_once"}],
    ),
    "an-id-by-which-no-answer-is-found": request([], "fs/write_text_file", path="@WORK@/kept", content="x"),
    "a-request-that-is-an-answer": request(1, "fs/write_text_file", path="@WORK@/kept", content="x").replace(
        b'"params"', b'"result": {}, "params"'
    ),
}


@pytest.mark.parametrize("name", NEARLY_RIGHT)
async def test_what_is_nearly_a_request_is_none(name: str) -> None:
    assert await hear(NEARLY_RIGHT[name]) == set()


async def test_however_deep_a_request_is_it_is_answered_or_noted() -> None:
    frame = b'{"jsonrpc":"2.0","id":%d,"method":"fs/read_text_file","params":%s}\n'
    assert await hear(b"".join(frame % (depth, b"[" * depth + b"]" * depth) for depth in range(700, 1_000))) == set()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(40))
async def test_frames_that_chance_made(company: Company, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        await heard_out(company, dice.choice([*WHEN, *INSTEAD]), mutated(FRAMES + LINES, dice))
