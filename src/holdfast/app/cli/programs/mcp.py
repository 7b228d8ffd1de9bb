"""`holdfast mcp`: serve the tools with which an agent reports to its run."""

from argparse import SUPPRESS

from holdfast.app.cli.arguments import Parser
from holdfast.leaf.errors import EXIT_OK

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
    parser.add_argument("--continue", dest="continued", help=SUPPRESS)
    options = parser.parse_args(arguments)
    from holdfast.engine.commands.programs.report_tools import Continuation, ToolsOptions, serve_tools

    continued = Continuation.parse(options.continued) if options.continued is not None else None
    serve_tools(
        ToolsOptions(
            options.run,
            options.role,
            options.conversation,
            options.home,
            options.reports,
            options.listed,
            continued,
        )
    )
    return EXIT_OK
