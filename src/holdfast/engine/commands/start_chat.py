"""Start a chat: a run whose first message is its goal."""

from holdfast.engine.commands.chat import ensure_runner
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.home import Home

_WORKFLOW = "chat"


async def start_chat(home: Home, request: RunRequest) -> str:
    """Create a chat and start its runner. Returns the run's id.

    Killed in between, the next message starts it, or a client that is opened.
    """
    run_id = await prepare_run(home, request._replace(flags={"workflow": _WORKFLOW, **request.flags}))
    await ensure_runner(home, run_id)
    return run_id
