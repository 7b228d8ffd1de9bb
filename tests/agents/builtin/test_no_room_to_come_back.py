"""A session whose disk has no room just now is not one that the agent does not know: it is not begun anew."""

import os
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.agents.registry import AgentDefinition
from holdfast.engine.agents.conversations import AgentUnavailable
from tests.agents.builtin.driving import KEY, Zygote
from tests.support.conversations import Place
from tests.support.crash_suite.program import FILE_SIZE, STAND_IN, ZYGOTE
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.model_server.script import Answer, in_turn
from tests.support.model_server.server import ModelServer

_NO_ROOM = {FILE_SIZE: "0"}  # no file can grow, as on a full disk


async def test_a_session_is_gone_on_with_once_its_disk_has_room_again(
    tmp_path: Path, model: ModelServer, forked: Zygote
) -> None:
    home = os.path.join(tmp_path, "agent")
    warm = {STAND_IN: Nursery(str(tmp_path)).stand_in, ZYGOTE: forked.path}
    command = (warm[STAND_IN], "-m", "holdfast", "agent", "builtin", "--model", "openai:scripted-model")
    entry = AgentDefinition(
        command=(*command, "--base-url", model.base_url("openai")),
        environment={"HOLDFAST_HOME": home, "HOME": home, "OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1", **warm},
    )
    place = await Place.make(str(tmp_path), {"own": entry})
    model.play(in_turn(Answer(text="I will not forget it"), Answer(text="it is 42")))
    async with place.session() as (_, _, conversations):
        name = await conversations.open("own")
        await conversations.send_prompt(name, "the number is 42", place.cwd)
        token = conversations.state(name).token
    with open(os.path.join(home, "builtin", "sessions", f"{token}.jsonl"), "ab") as file:
        file.write(b'{"type":"mess')  # as a kill leaves it

    full = structs.replace(entry, environment={**entry.environment, **_NO_ROOM})
    async with place._replace(agents={"own": full}).session() as (_, _, conversations):
        with pytest.raises(AgentUnavailable):
            await conversations.send_prompt(name, "which number?", place.cwd)

    async with place.session() as (_, _, conversations):  # there is room again
        await conversations.send_prompt(name, "which number?", place.cwd)
        assert conversations.state(name).token == token
    assert (await place.rungs())[-1] == "session/resume"
    assert model.requests[-1].assistants == ["I will not forget it"]
