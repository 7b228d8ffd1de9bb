"""`holdfast send`: words for an agent of a run."""

import asyncio
import json
import os
import sys

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.text.screen import warn
from holdfast.core.redaction.redaction import MARKER, Redactor
from holdfast.core.state import RunState
from holdfast.core.work.workflow import Workflow
from holdfast.engine.inbox.send import Words, ask_for_change, send
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, is_owned
from holdfast.leaf.errors import OK, BadInput

_EXAMPLES = """\
  holdfast send auth-system "use the existing session table"
  holdfast send auth-system --task T-3 "leave the tests alone"
  holdfast send auth-system --change "use the other library"      a workflow with phases plans anew
  holdfast send auth-system - < notes.txt"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "send",
        "Tell a run's agent something. It is on the disk when this returns, and reaches the agent with its next\n"
        "prompt; a run that is not at work gets it when it is resumed.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("words", type=words, metavar="WORDS", help="what to say; - reads standard input")
    parser.add_argument("--task", type=words, metavar="ID", help="for the agent of this task, or of this phase")
    parser.add_argument("--change", action="store_true", help="a change of what is wanted: for planning, not an agent")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    text = sys.stdin.buffer.read().decode(errors="replace") if options.words == "-" else options.words
    if not text.strip():
        raise BadInput("there is nothing to say; give the words, or - to read them from standard input")
    if options.task is not None:
        from holdfast.core.messages.addressing import is_for_nobody  # as below

        state, workflow = _looked_at(home, run_id)
        tasks = (*state.tasks, *(phase.name for phase in workflow.phases))
        if options.task not in tasks:
            raise BadInput(f"run {run_id} has no task {options.task!r}; its tasks are {', '.join(tasks) or 'none'}")
        why = is_for_nobody(state, workflow, options.task)
        if why is not None:
            raise BadInput(f"nobody would hear it: {why}")
    if options.change:
        _must_plan(home, run_id, options.task)
    put = ask_for_change if options.change else send
    message = asyncio.run(put(home, run_id, Words(text, options.task)))
    redacted = Redactor.of(os.environ).text(text) != text
    if redacted:
        warn([f"a secret in it was removed before it was stored: the agent is told `{MARKER}` in its place"])
    later = "" if is_owned(home, run_id) else f"; holdfast resume {run_id} delivers it"
    print(json.dumps({"run": run_id, "message": message, "redacted": redacted}) if options.json else f"taken{later}")
    return OK


def _must_plan(home: str, run_id: str, task: str | None) -> None:
    _, workflow = _looked_at(home, run_id)
    if workflow.planner is None:
        raise BadInput(f"in the workflow {workflow.name} nobody plans; leave --change out to tell an agent")
    if task is not None:
        raise BadInput("a change is for planning; leave --task out")


def _looked_at(home: str, run_id: str) -> tuple[RunState, Workflow]:
    from holdfast.engine.config.of_run import workflow_of  # both take long to load, and most words need neither
    from holdfast.engine.queries.logs import view_run

    state = asyncio.run(view_run(home, run_id)).state
    return state, workflow_of(state)
