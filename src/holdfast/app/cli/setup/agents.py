"""`holdfast agents`: list agents, and measure what each can do."""

import asyncio
import json

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import column_widths, paint, printable, warn
from holdfast.engine.home import Home
from holdfast.engine.queries.setup.agents import AgentMeasurement, ListedAgent, agents_from_settings, list_agents
from holdfast.engine.queries.setup.settings import load_config_here
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast agents ls
  holdfast agents probe claude       start it, prompt it, kill -9 it, restore it, ask what it remembers"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "agents",
        "List the agents for --agent: whether each is installed, has a login or a key, and what was measured.\n"
        "`probe` measures with a real turn, which costs tokens on your model account, and a real kill. After a crash,\n"
        "Holdfast uses the result to choose how to restore a conversation.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "probe"), metavar="ls|probe")
    parser.add_argument("name", nargs="?", metavar="NAME", help="probe: the agent")
    options = parser.parse_args(arguments)
    home = Home()
    config = load_config_here(home)
    warn(config.warnings)
    own = agents_from_settings(config.settings)
    if options.action == "ls":
        _ls(list_agents(home, own), as_json=options.json)
        return EXIT_OK
    if options.name is None:
        parser.error("probe needs a NAME; list the agents with: holdfast agents ls")
    from holdfast.engine.commands.probe import probe_agent  # the ACP library is slow to import

    row = asyncio.run(probe_agent(home, options.name, _print_step, own))
    print(json.dumps(msgspec.to_builtins(row), ensure_ascii=False) if options.json else _measurement_text(row))
    return EXIT_OK


def _print_step(text: str) -> None:
    warn([text])


def _ls(agents: list[ListedAgent], *, as_json: bool) -> None:
    if as_json:
        for agent in agents:
            print(json.dumps(agent._asdict() | {"row": msgspec.to_builtins(agent.row)}, ensure_ascii=False))
        return
    rows = [
        (
            agent.name,
            agent.title,
            "installed" if agent.installed else "missing",
            _login_text(agent),
            _measurement_text(agent.row) if agent.row is not None else "not probed",
        )
        for agent in agents
    ]
    widths = column_widths(rows)
    for agent, row in zip(agents, rows, strict=True):
        cells = [f"{printable(cell):{width}}" for cell, width in zip(row, widths, strict=True)]
        cells[2] = paint(cells[2], "green" if agent.installed else "dim")
        print("  ".join(cells).rstrip())
        for line in _advice(agent):
            print(paint(f"    {printable(line)}", "dim"))


def _login_text(agent: ListedAgent) -> str:
    if agent.login is None:
        return "no login found" if agent.installed else ""
    return "key set" if agent.login.startswith("key") else "logged in"


def _advice(agent: ListedAgent) -> list[str]:
    """The command that brings an agent one step closer to work."""
    if not agent.installed:
        return [agent.install] if agent.install else []
    if agent.problem is not None:
        return [agent.problem]
    return [f"log in with: {agent.login_command}"] if agent.login is None and agent.login_command else []


def _measurement_text(row: AgentMeasurement) -> str:
    if not row.turn:
        return "no turn worked"
    ability = {True: "works", False: "fails", None: "not offered"}
    cost = {True: ", reports its cost", False: ", reports no cost", None: ""}
    return f"resume {ability[row.resume]}, load {ability[row.load]}{cost[row.cost]}"
