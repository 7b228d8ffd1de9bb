"""A process that serves the tools of a run's agents, as its runner does, and says by which command they reach it.

python -m tests.support.report_server HOME RUN LISTED

Each line on its stdin is a conversation's id, answered with the command of its MCP server; the end of stdin ends it.
"""

import asyncio
import json
import sys

from holdfast.engine.home import Home
from holdfast.engine.reports.server import ReportServer
from holdfast.engine.reports.submit import Reporter
from holdfast.leaf.failpoints import arm_failpoints
from holdfast.leaf.process.own_program import holdfast_command


async def serve(home: Home, run_id: str, listed: str) -> None:
    def reporter(conversation_id: str) -> Reporter:
        return Reporter(home, run_id, "worker", conversation_id)

    async with ReportServer(home.folder(run_id), reporter) as server:
        while conversation_id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            about = ("--home", home.path, "--run", run_id, "--role", "worker", "--conversation", conversation_id)
            command = server.relay_command(conversation_id, listed, holdfast_command("mcp", *about))
            sys.stdout.write(json.dumps(command) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    arm_failpoints()
    asyncio.run(serve(Home(sys.argv[1]), *sys.argv[2:]))
