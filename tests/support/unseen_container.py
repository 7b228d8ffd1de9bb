"""A conversation with an agent in a container whose processes we cannot see, and whose engine is away for a moment.

python -m tests.support.unseen_container FOLDER SOCKET PLACES...    in a pid namespace of its own, as on another machine
"""

import asyncio
import os
import sys

from holdfast.agents.acp.driver import Deadlines
from holdfast.agents.launch import Runtime
from holdfast.leaf.errors import Denied
from tests.support.conversations import AGENT, Place
from tests.support.podman import IMAGE
from tests.support.wait import PATIENCE

_PATIENT = Deadlines(start=PATIENCE, session=PATIENCE, silence=PATIENCE)
_STAYS = {"agent": {"load": "works", "resume": "absent", "ignores": ["eof", "sigterm"]}, "otherwise": [{"say": "fine"}]}


async def run_conversation(folder: str, engine: str, places: tuple[str, ...]) -> None:
    socket = os.path.join(folder, "socket")
    os.symlink(engine, socket)
    runtime = Runtime(kind="container", image=IMAGE, socket=socket, readable=places)
    place = (await Place.make(folder))._replace(runtime=runtime)
    place.play(_STAYS)
    async with place.session(deadlines=_PATIENT) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "one", place.cwd)
        os.unlink(socket)
        try:
            await conversations.stop_agent(name, "the engine is away")
        except Denied as error:
            os.write(1, f"refused: {error}\n".encode())
        os.symlink(engine, socket)
        await conversations.send_prompt(name, "two", place.cwd)
        os.write(1, b"at work\n")
        sys.stdin.readline()


if __name__ == "__main__":
    asyncio.run(run_conversation(sys.argv[1], sys.argv[2], tuple(sys.argv[3:])))
