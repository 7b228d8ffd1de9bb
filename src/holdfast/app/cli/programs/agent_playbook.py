"""`holdfast agent playbook`: a real agent that plays a script."""

import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import counted, paint, plain
from holdfast.engine.agents.programs import (
    STATE,
    Wanted,
    check_playbook,
    default_state,
    play,
    play_in_terminal,
    playbook_schema,
)
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast agent playbook rehearsal.yaml                    be the agent, until stdin ends
  holdfast agent playbook --check rehearsal.yaml            one line: good, or what is wrong and where
  holdfast agent playbook --terminal rehearsal.yaml         type to it
  holdfast agent playbook --schema > playbook.schema.json   for your editor"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "agent playbook",
        "An ACP agent on stdin and stdout that plays a YAML script: talk, edits, commands, permissions, MCP calls,\n"
        "crashes, hangs. Keeps its sessions in files, so that they can be loaded after a kill. docs/playbook.md\n"
        "has the whole format.",
        _EXAMPLES,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the script")
    parser.add_argument("--state", metavar="DIR", help=f"where its sessions are ({STATE}, else the XDG state folder)")
    parser.add_argument("--terminal", action="store_true", help="be played in a terminal: type a line, or run in tmux")
    parser.add_argument("--session", metavar="ID", help="in a terminal: the id of the new session")
    parser.add_argument("--resume", metavar="ID", help="in a terminal: go on with this session")
    parser.add_argument("--mcp", metavar="FILE", help="in a terminal: the MCP servers, as JSON under mcpServers")
    parser.add_argument("--check", action="store_true", help="look at the script, play nothing")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a script")
    options = parser.parse_args(arguments)
    if options.schema:
        print(json.dumps(playbook_schema(), indent=2))
        return OK
    if options.file is None:
        parser.error("which script? FILE is missing")
    if options.terminal:
        wanted = Wanted(session=options.session, resume=options.resume, mcp=options.mcp)
        return play_in_terminal(options.file, options.state, wanted)
    if not options.check:
        return play(options.file, options.state or default_state())
    turns = check_playbook(options.file)
    if options.json:
        print(json.dumps({"playbook": options.file, "turns": turns}, ensure_ascii=False))
    else:
        print(f"{paint('good', 'green')}  {plain(options.file)}  {counted(turns, 'turn')}")
        sys.stderr.write("nothing was played\n")
    return OK
