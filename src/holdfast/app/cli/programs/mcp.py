"""`holdfast mcp`: the tools by which an agent reports to its run."""

from holdfast.app.cli.arguments import Parser
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast mcp --run auth-system-k3x9p2 --role worker      (agents start it themselves; nobody types this)
  holdfast mcp --run auth-system --role reviewer:logic --conversation 3f9a2b --home ~/.local/share/holdfast"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "mcp",
        "A stdio MCP server, handed to each agent: the tools of its role. What is reported is on the disk before the\n"
        "agent is told that it was received.",
        _EXAMPLES,
    )
    parser.add_argument("--run", required=True, metavar="RUN")
    parser.add_argument("--role", default="agent", metavar="ROLE", help="worker, evaluator, planner, reviewer, …")
    parser.add_argument("--conversation", metavar="ID", help="whose reports these are")
    parser.add_argument("--home", metavar="DIR", help="instead of HOLDFAST_HOME, which an agent may not pass on")
    parser.add_argument("--reports", metavar="FILE", help="of a confined agent, which cannot write to the run's inbox")
    parser.add_argument("--listed", metavar="FILE", help="where to write that the agent was told the tools")
    options = parser.parse_args(arguments)
    import asyncio

    from holdfast.app.mcp.server import serve
    from holdfast.engine.inbox.report import reporter

    who = reporter(options.home or default_home(), options.run, options.role, options.conversation, options.reports)
    asyncio.run(serve(who, options.listed))
    return OK
