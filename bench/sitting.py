"""A sitting with one playbook agent; as a program, one that is at rest until its input ends.

python -m bench.sitting HOME SCRIPT
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import holdfast.engine.workspace.publish  # noqa: F401  # and with it what a runner has loaded for work on a repository
from holdfast.agents.registry import Entry
from holdfast.core.conversation.permission import Consent
from holdfast.core.events.session import SessionStart
from holdfast.engine.agents.conversations import Conversations, Ground
from holdfast.engine.agents.permissions import Desk
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

AGENT = "player"
RUN = "bench-aaaaaa"


def command(script: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "holdfast", "agent", "playbook", script)


@asynccontextmanager
async def seated(home: str, script: str) -> AsyncIterator[tuple[Conversations, str]]:
    """The conversations of a new run, and the folder to work in."""
    store, cwd = FileStore(home), os.path.join(home, "work")
    await store.create(RUN)
    os.makedirs(cwd)
    environment = {"HOLDFAST_PLAYBOOK_STATE": os.path.join(home, "memory")}
    agents = {AGENT: Entry(command=command(script), environment=environment)}
    async with open_run(store, RUN) as run:
        await run.begin(SessionStart(command="run"))
        ground = Ground(RUN, run_folder(home, RUN), store.log(RUN), agents)
        async with Conversations(run, ground, Desk(run, Consent())) as talks:
            yield talks, cwd


async def _rest(home: str, script: str) -> None:
    async with seated(home, script) as (talks, cwd):
        name = await talks.open(AGENT)
        await talks.say(name, "hello", cwd)
        print("at rest", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_rest(*sys.argv[1:]))
