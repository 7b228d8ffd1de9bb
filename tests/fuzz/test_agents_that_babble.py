"""Agents that send garbage, as real processes: a turn ends, nothing is printed that only a programmer understands."""

import os
import random
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.agents.driver import AgentDied, AgentRefused, AgentSilent, Deadlines
from holdfast.agents.launch import Launch
from tests.agents.company import Company, text
from tests.fuzz.babbler import INSTEAD, WHEN
from tests.fuzz.hearing import hear
from tests.fuzz.mutation import mutated
from tests.fuzz.nonsense import LINES
from tests.fuzz.seeds import FRAMES
from tests.fuzz.writing import must_be_writable
from tests.support.stage import Stage

BABBLER = Path(__file__).with_name("babbler.py")
PATIENT = Deadlines(start=10, session=10, silence=10, cancel=5)


@pytest.fixture
def company(tmp_path: os.PathLike[str]) -> Company:
    return Company(os.fspath(tmp_path))


async def heard_out(company: Company, when: str, said: bytes) -> None:
    """Spoken to from its greeting to the end of a turn; the three errors are all that can come of it."""
    file = os.path.join(company.folder, "said")
    Path(file).write_bytes(said)
    launch = Launch((sys.executable, "-IS", str(BABBLER), when, file), company.cwd, {}, "test/babbler", f"{file}.err")
    company.person.against = "nobody may"
    async with company.speaking(launch, PATIENT) as agent:
        with suppress(AgentDied, AgentRefused, AgentSilent):
            await agent.greet()
            session = await agent.new()
            await agent.prompt(session.session, text())
        await agent.scribe.flush(*agent.scribe.cut_off())
    for event in company.book.events:
        must_be_writable(event)
    company.book.events.clear()


async def test_every_kind_of_nonsense_by_itself() -> None:
    for line in LINES:
        await hear(line)


@pytest.mark.parametrize("when", [*WHEN, *INSTEAD])
async def test_all_kinds_of_nonsense_at_any_time(
    company: Company, when: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    await heard_out(company, when, b"".join(LINES[:-1]) + b"\n")
    assert "Traceback" not in capfd.readouterr().err
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_a_run_with_an_agent_that_talks_nonsense_ends(stage: Stage) -> None:
    """Its stderr is ours to keep clean; what the agent did wrong is in the log."""
    said = Path(stage.folder, "said")
    said.write_bytes(b"".join(LINES[:-1]))
    command = f'agents.babbler.command=["{sys.executable}", "{BABBLER}", "before session/prompt", "{said}"]'
    run = stage.run("say hello", "--agent", "babbler", "--set", command)
    odd = {event["what"] for event in stage.data(run, "conversation.misbehaved")}
    assert {"a line that is no JSON", "an answer to nothing that was asked", "an unknown update"} <= odd
    stage.holdfast("verify", run)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(40))
async def test_frames_that_chance_made(company: Company, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        await heard_out(company, dice.choice([*WHEN, *INSTEAD]), mutated(FRAMES + LINES, dice))
