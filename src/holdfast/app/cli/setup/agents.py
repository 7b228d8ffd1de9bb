"""`holdfast agents`: the agents we know, and what each really can do."""

import asyncio
import json

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import columns, moment, paint, plain, warn
from holdfast.engine.agents.matrix import Row
from holdfast.engine.config.agents import own_agents
from holdfast.engine.config.config import load_here
from holdfast.engine.places import default_home
from holdfast.engine.queries.agents import Listed, list_agents
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast agents ls
  holdfast agents probe claude       start it, talk to it, kill -9 it, bring it back, ask what it remembers"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "agents",
        "Agents that can be named in a run: whether each is installed, and what it was seen to do. `probe` finds out\n"
        "by a real turn, which your model account pays for, and a real kill; the way back into a conversation is\n"
        "chosen by it.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "probe"), metavar="ls|probe")
    parser.add_argument("name", nargs="?", metavar="NAME", help="probe: which one")
    options = parser.parse_args(arguments)
    home = default_home()
    config = load_here(home)
    warn(config.warnings)
    own = own_agents(config.settings)
    if options.action == "ls":
        _ls(list_agents(home, own), as_json=options.json)
        return OK
    if options.name is None:
        parser.error("probe which agent? `holdfast agents ls` lists them")
    from holdfast.engine.commands.probe import probe_agent  # the protocol's library takes long to load

    row = asyncio.run(probe_agent(home, options.name, _tell, own))
    print(json.dumps(msgspec.to_builtins(row), ensure_ascii=False) if options.json else _measured(row))
    return OK


def _tell(text: str) -> None:
    warn([text])


def _ls(agents: list[Listed], *, as_json: bool) -> None:
    if as_json:
        for agent in agents:
            print(json.dumps(agent._asdict() | {"row": msgspec.to_builtins(agent.row)}, ensure_ascii=False))
        return
    rows = [
        (
            agent.name,
            agent.title,
            "installed" if agent.installed else "-",
            _measured(agent.row) if agent.row is not None else "not probed",
            moment(agent.row.when)[:10] if agent.row is not None else "",
        )
        for agent in agents
    ]
    widths = columns(rows)
    for agent, row in zip(agents, rows, strict=True):
        cells = [f"{plain(cell):{width}}" for cell, width in zip(row, widths, strict=True)]
        cells[2] = paint(cells[2], "green" if agent.installed else "dim")
        print("  ".join(cells).rstrip())
        if not agent.installed and agent.install:
            print(paint(f"    {plain(agent.install)}", "dim"))


def _measured(row: Row) -> str:
    if not row.turn:
        return "no turn worked"
    told = {True: "works", False: "fails", None: "not offered"}
    cost = {True: ", tells its cost", False: ", tells no cost", None: ""}
    return f"resume {told[row.resume]}, load {told[row.load]}{cost[row.cost]}"
