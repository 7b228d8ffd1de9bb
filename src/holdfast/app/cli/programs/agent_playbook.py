"""`holdfast agent playbook`: an agent that plays a script."""

import json

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import paint, pluralize, printable
from holdfast.engine.commands.programs.playbook import (
    STATE_VARIABLE,
    TerminalOptions,
    check_playbook,
    default_state,
    playbook_schema,
    serve_playbook,
    serve_playbook_terminal,
)
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast agent playbook rehearsal.yaml                    run the agent until stdin ends
  holdfast agent playbook --check rehearsal.yaml            check the script
  holdfast agent playbook --terminal rehearsal.yaml         run it as a terminal UI
  holdfast agent playbook --schema > playbook.schema.json   for your editor"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "agent playbook",
        "An ACP agent on stdin and stdout that plays a YAML script: messages, edits, commands, permission requests,\n"
        "MCP calls, crashes, hangs. It saves its sessions, so that they can be loaded after a kill. docs/playbook.md\n"
        "describes the format.",
        _EXAMPLES,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the script")
    parser.add_argument(
        "--state",
        metavar="DIR",
        help=f"the folder of its sessions (default: {STATE_VARIABLE}, else the XDG state folder)",
    )
    parser.add_argument("--terminal", action="store_true", help="run as a terminal UI, for a person or for tmux")
    parser.add_argument("--session", metavar="ID", help="with --terminal: the id of the new session")
    parser.add_argument("--resume", metavar="ID", help="with --terminal: continue this session")
    parser.add_argument("--mcp", metavar="FILE", help="with --terminal: the MCP servers, as JSON under mcpServers")
    parser.add_argument("--check", action="store_true", help="check the script without playing it")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a script")
    options = parser.parse_args(arguments)
    if options.schema:
        print(json.dumps(playbook_schema(), indent=2))
        return EXIT_OK
    if options.file is None:
        parser.error("FILE is missing: name a script")
    if options.terminal:
        terminal_options = TerminalOptions(session=options.session, resume=options.resume, mcp=options.mcp)
        return serve_playbook_terminal(options.file, options.state, terminal_options)
    if not options.check:
        return serve_playbook(options.file, options.state or default_state())
    turns = check_playbook(options.file)
    if options.json:
        print(json.dumps({"playbook": options.file, "turns": turns}, ensure_ascii=False))
    else:
        print(f"{paint('valid', 'green')}  {printable(options.file)}  {pluralize(turns, 'turn')}")
    return EXIT_OK
