"""`holdfast accept`: accept the work of a chat."""

import asyncio
import json

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.engine.commands.chat import accept
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast accept auth-chat
  holdfast accept auth-chat --finish          the chat is over after that
  holdfast accept auth-chat --conversation 4f0c11d2a9be"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "accept",
        "Accept the work of a chat: it is checked, committed and merged into the run's branch. The conversation and\n"
        "its worktree stay, and the next message starts the next iteration.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument(
        "--conversation", type=utf8_text, metavar="ID", help="the conversation, if the chat has several"
    )
    parser.add_argument("--finish", action="store_true", help="end the chat when the work is merged")
    options = parser.parse_args(arguments)
    home = Home()
    run_id = home.find_run(options.run)
    message = asyncio.run(accept(home, run_id, conversation=options.conversation, finish=options.finish))
    text = f"accepted; follow it with: holdfast logs {run_id} -f"
    print(json.dumps({"run": run_id, "message": message}) if options.json else text)
    return EXIT_OK
