"""A session whose disk has no room just now is not one that the agent does not know: it is not begun anew."""

import os
import sys
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.agents.registry import Entry
from holdfast.engine.conversations import AgentUnavailable
from tests.agents.builtin.driving import KEY
from tests.support.model_server.script import Answer, in_turn
from tests.support.model_server.server import ModelServer
from tests.support.talks import Place

_NO_ROOM = ("/bin/sh", "-c", 'ulimit -f 0; exec "$0" "$@"')  # no file can grow, as on a full disk


async def test_a_session_is_gone_on_with_once_its_disk_has_room_again(tmp_path: Path, model: ModelServer) -> None:
    home = os.path.join(tmp_path, "agent")
    command = (sys.executable, "-m", "holdfast", "agent", "builtin", "--model", "openai:scripted-model")
    entry = Entry(
        command=(*command, "--base-url", model.base_url("openai")),
        environment={"HOLDFAST_HOME": home, "HOME": home, "OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1"},
    )
    place = await Place.make(str(tmp_path), {"own": entry})
    model.play(in_turn(Answer(text="I will not forget it"), Answer(text="it is 42")))
    async with place.sitting() as (_, _, talks):
        name = await talks.open("own")
        await talks.say(name, "the number is 42", place.cwd)
        token = talks.state(name).token
    with open(os.path.join(home, "builtin", "sessions", f"{token}.jsonl"), "ab") as file:
        file.write(b'{"type":"mess')  # as a kill leaves it

    full = structs.replace(entry, command=(*_NO_ROOM, *entry.command))
    async with place._replace(agents={"own": full}).sitting() as (_, _, talks):
        with pytest.raises(AgentUnavailable):
            await talks.say(name, "which number?", place.cwd)

    async with place.sitting() as (_, _, talks):  # there is room again
        await talks.say(name, "which number?", place.cwd)
        assert talks.state(name).token == token
    assert (await place.rungs())[-1] == "session/resume"
    assert model.requests[-1].assistants == ["I will not forget it"]
