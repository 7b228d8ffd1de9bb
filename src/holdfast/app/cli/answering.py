"""What `approve` and `deny` share: an answer to a question of an agent, or of a phase."""

import asyncio
import json
from collections.abc import Mapping

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.cli.screen import plain
from holdfast.core.needs import APPROVAL, Need, Want, needs_of
from holdfast.core.state import RunState
from holdfast.engine.mail import Answer, answer
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, is_owned
from holdfast.engine.service import view_run
from holdfast.leaf.errors import OK, BadInput, NothingToDo


def answered(arguments: list[str], command: str, description: str, examples: str, *, allow: bool) -> int:
    parser = Parser(command, description, examples)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("request", type=words, nargs="?", metavar="REQUEST", help="which one, when several are open")
    parser.add_argument("--option", type=words, metavar="ID", help="one of the answers that the agent offers")
    parser.add_argument("--all", action="store_true", help="every open request")
    if not allow:
        parser.add_argument(
            "--changes", type=words, metavar="WORDS", help="to a phase: what is to be changed before you approve"
        )
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    asked = open_questions(asyncio.run(view_run(home, run_id)).state)
    open_ones = {need.key: need.text for need in asked if need.key is not None}
    changes = None if allow else options.changes
    for request in _meant(run_id, open_ones, options.request, every=options.all):
        if changes is not None and not request.startswith(APPROVAL):
            raise BadInput("--changes is for a phase that asks for approval; an agent is told with holdfast send")
        message = asyncio.run(answer(home, run_id, Answer(request, allow, options.option, changes)))
        told = {"run": run_id, "request": request, "message": message}
        later = "" if is_owned(home, run_id) else f"; holdfast resume {run_id} goes on"
        print(json.dumps(told) if options.json else f"{command}: {plain(open_ones[request])}{later}")
    return OK


def open_questions(state: RunState) -> list[Need]:
    """What waits for an answer."""
    return [need for need in needs_of(state) if need.want in (Want.PERMISSION, Want.APPROVAL)]


def _meant(run_id: str, open_ones: Mapping[str, str], request: str | None, *, every: bool) -> list[str]:
    if not open_ones:
        raise NothingToDo(f"nothing of run {run_id} waits for an answer")
    if every:
        return list(open_ones)
    if request is not None:
        found = [key for key in open_ones if key.startswith(request)]
        if len(found) != 1:
            raise BadInput(f"{request!r} is none of the open requests; they are {_listed(open_ones)}")
        return found
    if len(open_ones) > 1:
        raise BadInput(f"several requests are open; name one, or --all: {_listed(open_ones)}")
    return list(open_ones)


def _listed(open_ones: Mapping[str, str]) -> str:
    return "; ".join(f"{key} ({asked})" for key, asked in open_ones.items())
