"""`holdfast send`: words for an agent of a run."""

import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.engine.mail import Words, send
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, is_owned
from holdfast.engine.service import view_run
from holdfast.leaf.errors import OK, BadInput

_EXAMPLES = """\
  holdfast send auth-system "use the existing session table"
  holdfast send auth-system --task T-3 "leave the tests alone"
  holdfast send auth-system - < notes.txt"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "send",
        "Tell a run's agent something. It is on the disk when this returns, and reaches the agent with its next\n"
        "prompt; a run that is not at work gets it when it is resumed.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("words", metavar="WORDS", help="what to say; - reads standard input")
    parser.add_argument("--task", metavar="ID", help="for the agent of this task")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    text = sys.stdin.read() if options.words == "-" else options.words
    if not text.strip():
        raise BadInput("there is nothing to say; give the words, or - to read them from standard input")
    if options.task is not None:
        tasks = asyncio.run(view_run(home, run_id)).state.tasks
        if options.task not in tasks:
            raise BadInput(f"run {run_id} has no task {options.task!r}; its tasks are {', '.join(tasks) or 'none'}")
    message = asyncio.run(send(home, run_id, Words(text, options.task)))
    later = "" if is_owned(home, run_id) else f"; holdfast resume {run_id} delivers it"
    print(json.dumps({"run": run_id, "message": message}) if options.json else f"taken{later}")
    return OK
