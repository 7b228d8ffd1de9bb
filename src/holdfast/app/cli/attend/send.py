"""`holdfast send`: send a message to a run's agent."""

import argparse
import asyncio
import json
import os
import sys
from contextlib import suppress

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.text.screen import warn
from holdfast.core.messages.schema import ChangeRequest, UserMessage
from holdfast.core.redaction.redaction import MARKER, Redactor
from holdfast.core.state import RunState
from holdfast.core.work.workflow import Workflow
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, BadInput, HoldfastError

_EXAMPLES = """\
  holdfast send auth-system "use the existing session table"
  holdfast send auth-system --task T-3 "do not change the tests"
  holdfast send auth-system --change "use the other library"      a workflow with phases plans again
  holdfast send auth-system - < notes.txt"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "send",
        "Send a message to a run's agent. The message is on the disk when this returns, and is delivered with the\n"
        "agent's next prompt. If the run is not running, resume delivers it; a chat starts by itself.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument("text", type=utf8_text, metavar="MESSAGE", help="the message; - reads it from standard input")
    parser.add_argument("--task", type=utf8_text, metavar="ID", help="send it to the agent of this task or phase")
    parser.add_argument(
        "--conversation", type=utf8_text, metavar="ID", help="for a chat: send it to this conversation only"
    )
    parser.add_argument(
        "--attach",
        type=utf8_text,
        action="append",
        default=[],
        metavar="PATH",
        help="for a chat: send this file or picture with the message",
    )
    parser.add_argument(
        "--change", action="store_true", help="a changed requirement: goes to planning, not to an agent"
    )
    options = parser.parse_args(arguments)
    home = Home()
    run_id = home.find_run(options.run)
    text = sys.stdin.buffer.read().decode(errors="replace") if options.text == "-" else options.text
    if not text.strip():
        raise BadInput("the message is empty; pass a text, or - to read standard input")
    if _is_chat(home, run_id):
        return _send_to_chat(home, run_id, text, options)
    if options.attach:
        raise BadInput(f"run {run_id} is not a chat, which takes files; name the path in the message")
    if options.conversation is not None:
        raise BadInput(f"run {run_id} is not a chat; name a task with --task")
    if options.task is not None:
        _check_task(home, run_id, options.task)
    if options.change:
        _check_can_plan(home, run_id, options.task)
    body = ChangeRequest(text) if options.change else UserMessage(text, options.task)
    was_woken = asyncio.run(_is_woken(home, run_id))
    message = asyncio.run(send(home, run_id, body))
    redacted = _warn_of_redaction(text)
    if options.json:
        print(json.dumps({"run": run_id, "message": message, "redacted": redacted}))
    elif home.is_owned(run_id):
        print("message queued; delivered with the next prompt")
    elif was_woken:
        print("message queued; delivered when a worker continues the run")
    else:
        print(f"message queued; deliver it with: holdfast resume {run_id}")
    return EXIT_OK


async def _is_woken(home: Home, run_id: str) -> bool:
    """Whether a message makes a worker of the cluster continue the run."""
    from holdfast.engine.queries.logs import view_run  # slow imports that `--help` does not need
    from holdfast.engine.queries.placement import WAKING_STATUSES, is_cluster_run

    view = await view_run(home, run_id)
    return is_cluster_run(view.state) and view.status in WAKING_STATUSES


def _warn_of_redaction(text: str) -> bool:
    redacted = Redactor.from_environment(os.environ).redact_text(text) != text
    if redacted:
        warn([f"removed a secret from the message before storing it: the agent gets `{MARKER}` in its place"])
    return redacted


def _send_to_chat(home: Home, run_id: str, text: str, options: argparse.Namespace) -> int:
    """Send a message to a chat. It starts a runner when the chat has none."""
    from holdfast.app.cli.chat.client import attach_file  # slow imports that other runs do not need
    from holdfast.engine.commands.chat import send_chat_message

    if options.change:
        raise BadInput("a chat has no planner; send the message without --change")

    async def send_all() -> str:
        attachments = [await attach_file(home, run_id, path) for path in options.attach]
        return await send_chat_message(
            home, run_id, text, task=options.task, conversation=options.conversation, attachments=attachments
        )

    message = asyncio.run(send_all())
    result = {"run": run_id, "message": message, "redacted": _warn_of_redaction(text)}
    print(json.dumps(result) if options.json else "message received; delivered with the next prompt")
    return EXIT_OK


def _is_chat(home: Home, run_id: str) -> bool:
    """A log that cannot be read now may still take a message."""
    with suppress(HoldfastError, OSError):
        return _load_state(home, run_id).is_chat
    return False


def _load_state(home: Home, run_id: str) -> RunState:
    from holdfast.engine.queries.logs import view_run  # slow import that `--help` does not need

    return asyncio.run(view_run(home, run_id)).state


def _check_task(home: Home, run_id: str, task: str) -> None:
    from holdfast.core.messages.addressing import undeliverable_reason  # slow import, see above

    state, workflow = _load_state_and_workflow(home, run_id)
    tasks = (*state.tasks, *(phase.name for phase in workflow.phases))
    if task not in tasks:
        raise BadInput(f"run {run_id} has no task {task!r}; its tasks are {', '.join(tasks) or 'none'}")
    reason = undeliverable_reason(state, workflow, task)
    if reason is not None:
        raise BadInput(f"the message cannot be delivered: {reason}")


def _check_can_plan(home: Home, run_id: str, task: str | None) -> None:
    _, workflow = _load_state_and_workflow(home, run_id)
    if workflow.planner is None:
        raise BadInput(f"workflow {workflow.name} has no planner; send the message without --change")
    if task is not None:
        raise BadInput("--change goes to planning, so it cannot be combined with --task")


def _load_state_and_workflow(home: Home, run_id: str) -> tuple[RunState, Workflow]:
    from holdfast.engine.queries.setup.run_settings import workflow_of  # slow import that most messages do not need

    state = _load_state(home, run_id)
    return state, workflow_of(state)
