"""What `approve` and `deny` share: an answer to a question of an agent."""

import asyncio
import json
from collections.abc import Mapping

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.screen import plain
from holdfast.core.state import Permission
from holdfast.engine.mail import Answer, answer
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.service import view_run
from holdfast.leaf.errors import OK, BadInput, NothingToDo


def answered(arguments: list[str], command: str, description: str, examples: str, *, allow: bool) -> int:
    parser = Parser(command, description, examples)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("request", nargs="?", metavar="REQUEST", help="which one, when several are open")
    parser.add_argument("--option", metavar="ID", help="one of the answers that the agent offers")
    parser.add_argument("--all", action="store_true", help="every open request")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    open_ones = asyncio.run(view_run(home, run_id)).state.permissions
    for request in _meant(run_id, open_ones, options.request, every=options.all):
        message = asyncio.run(answer(home, run_id, Answer(request, allow, options.option)))
        told = {"run": run_id, "request": request, "message": message}
        print(json.dumps(told) if options.json else f"{command}: {plain(open_ones[request].title)}")
    return OK


def _meant(run_id: str, open_ones: Mapping[str, Permission], request: str | None, *, every: bool) -> list[str]:
    if not open_ones:
        raise NothingToDo(f"no agent of run {run_id} waits for an answer")
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


def _listed(open_ones: Mapping[str, Permission]) -> str:
    return "; ".join(f"{key} ({asked.title})" for key, asked in open_ones.items())
