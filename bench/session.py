"""A session with one playbook agent. As a program, it stays idle until its input ends.

python -m bench.session HOME SCRIPT
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import holdfast.engine.workspace.publish  # noqa: F401  # loads what a runner has loaded for work on a repository
from holdfast.agents.registry import AgentDefinition
from holdfast.core.conversation.permission import PermissionConfig
from holdfast.core.events.session import SessionStart
from holdfast.engine.agents.conversations import ConversationContext, Conversations
from holdfast.engine.agents.permissions import PermissionBroker
from holdfast.engine.session.live_text import LiveTextServer
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

AGENT = "player"
RUN = "bench-aaaaaa"


def command(script: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "holdfast", "agent", "playbook", script)


@asynccontextmanager
async def open_session(home: str, script: str) -> AsyncIterator[tuple[Conversations, str]]:
    """Yield the conversations of a new run, and the working folder."""
    store, cwd = FileStore(home), os.path.join(home, "work")
    await store.create(RUN)
    os.makedirs(cwd)
    environment = {"HOLDFAST_PLAYBOOK_STATE": os.path.join(home, "memory")}
    agents = {AGENT: AgentDefinition(command=command(script), environment=environment)}
    async with open_run(store, RUN) as run:
        await run.begin_session(SessionStart(command="run"))
        context = ConversationContext(RUN, run_folder(home, RUN), store.log(RUN), agents)
        permissions, live_text = PermissionBroker(run, PermissionConfig()), LiveTextServer(context.folder, run.redactor)
        async with live_text, Conversations(run, context, permissions, live_text) as conversations:
            yield conversations, cwd


async def _idle(home: str, script: str) -> None:
    async with open_session(home, script) as (conversations, cwd):
        conversation_id = await conversations.open(AGENT)
        await conversations.send_prompt(conversation_id, "hello", cwd)
        print("idle", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_idle(*sys.argv[1:]))
