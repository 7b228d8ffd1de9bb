"""`holdfast agents probe` on real agents, pointed at the scripted model by a user's own settings.

The rows go into docs/agents.md.
"""

import asyncio
import json
import os
import sys

import msgspec
import pytest

from holdfast.engine.agents.matrix import AgentMeasurement, proven_abilities
from holdfast.engine.home import Home
from tests.real_agents.stage import WORDS, Stage
from tests.support.model_server.script import Answer, Rule, Script

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(480)]

STORY = Answer(text="Once upon a time there was a holdfast. " * 20, after=8, hang=True)
SCRIPT = Script(
    [
        Rule(Answer(recall=WORDS), user="Which words"),
        Rule(STORY, user="Remember this word too"),
        Rule(Answer(text="OK"), user="Remember this word:"),
    ]
)


@pytest.fixture
def measured(tmp_path: os.PathLike[str]) -> str:
    """The home that keeps the rows."""
    return os.environ.get("HOLDFAST_MEASURED") or os.path.join(tmp_path, "measured")


def write_settings(stage: Stage, folder: str) -> None:
    """The agent in a user's config: how it is started, and what it gets."""
    entry = stage.place.agents[stage.name]
    os.makedirs(os.path.join(folder, "holdfast"))
    with open(os.path.join(folder, "holdfast", "config.toml"), "w", encoding="utf-8") as file:
        file.write(f"[agents.{stage.name}]\ncommand = {json.dumps(entry.command)}\n")
        file.write(f"[agents.{stage.name}.environment]\n")
        file.writelines(f"{name} = {json.dumps(value)}\n" for name, value in entry.environment.items())


async def test_a_probe_measures_it_and_the_ladder_is_told(stage: Stage, measured: str, tmp_path: str) -> None:
    stage.model.play(SCRIPT)
    config = os.path.join(tmp_path, "config")
    write_settings(stage, config)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "agents", "probe", stage.name, "--json"),
        env={**os.environ, "HOLDFAST_HOME": measured, "XDG_CONFIG_HOME": config},
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    row = msgspec.json.decode(out, type=AgentMeasurement)
    assert row.turn, told.decode()
    assert row.strategy == stage.setup.rung, told.decode()
    assert row.after_cut in ("all", "earlier turns")
    assert any(proven_abilities(Home(measured))[stage.name].values())
    assert stage.model.unexpected == []
