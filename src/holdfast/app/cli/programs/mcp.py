"""`holdfast mcp`: serve the tools with which an agent reports to its run."""

from holdfast.app.cli.arguments import Parser
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK
from holdfast.leaf.importing import NoCollection

_EXAMPLES = """\
  holdfast mcp --run auth-system-k3x9p2 --role worker      (agents start it)
  holdfast mcp --run auth-system --role reviewer:logic --conversation 3f9a2b --home ~/.local/share/holdfast"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "mcp",
        "A stdio MCP server with the tools of one role. Holdfast gives it to each agent. A report is on the disk\n"
        "before the call returns.",
        _EXAMPLES,
    )
    parser.add_argument("--run", required=True, metavar="RUN")
    parser.add_argument("--role", default="agent", metavar="ROLE", help="worker, evaluator, planner, reviewer, …")
    parser.add_argument("--conversation", metavar="ID", help="the conversation that reports")
    parser.add_argument(
        "--home", metavar="DIR", help="replaces HOLDFAST_HOME, because agents may not pass variables on"
    )
    parser.add_argument(
        "--reports", metavar="FILE", help="the report file of a confined agent, which cannot write to the inbox"
    )
    parser.add_argument("--listed", metavar="FILE", help="a file to write when the agent has listed the tools")
    options = parser.parse_args(arguments)
    from collections.abc import Mapping
    from functools import partial
    from typing import Any

    from holdfast.app.mcp.server import McpServer
    from holdfast.engine.commands.programs.announce import announce_tools

    home = Home(options.home or None)
    run_id = home.find_run(options.run)

    def submit(tool: str, signal: Mapping[str, Any]) -> str:
        with NoCollection():
            import asyncio  # with the store: loaded only when there is a report

            from holdfast.engine.commands.programs.report import Reporter, submit_report

        reporter = Reporter(home, run_id, options.role, options.conversation, options.reports)
        return asyncio.run(submit_report(reporter, tool, signal))

    on_listed = partial(announce_tools, options.listed) if options.listed is not None else lambda: None
    McpServer(options.role, submit, on_listed).serve()
    return EXIT_OK
