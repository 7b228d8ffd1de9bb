"""What `approve` and `deny` share: an answer to a request of an agent, or of a phase."""

import asyncio
import json
from collections.abc import Mapping

import msgspec

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.text.screen import plain
from holdfast.core.messages.answers import APPROVAL
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, open_questions
from holdfast.engine.commands.answer import already_answered, give_answer, must_not_be_answered
from holdfast.engine.inbox.answers import Answer, waiting_answers
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, is_owned
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import OK, BadInput, NothingToDo


def answered(arguments: list[str], command: str, description: str, examples: str, *, allow: bool) -> int:
    parser = Parser(command, description, examples)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("request", type=words, nargs="?", metavar="REQUEST", help="which one, when several are open")
    parser.add_argument("--option", type=words, metavar="ID", help="one of the answers that the agent offers")
    parser.add_argument("--all", action="store_true", help="every open request that has no answer yet")
    if not allow:
        parser.add_argument(
            "-m", "--reason", type=words, metavar="WORDS", help="why; its agent is told with the next prompt"
        )
        parser.add_argument(
            "--changes", type=words, metavar="WORDS", help="to a phase: what is to be changed before you approve"
        )
    options = parser.parse_args(arguments)
    given = Answer("", allow, options.option, *(() if allow else (options.changes, options.reason)))
    home = default_home()
    run_id = find_run(home, options.run)
    state = asyncio.run(view_run(home, run_id)).state
    for need in asyncio.run(_meant(home, run_id, state, options.request, every=options.all)):
        message = asyncio.run(give_answer(home, run_id, state, need, _fitted(given, need)))
        told = {"run": run_id, "request": need.key, "message": message}
        later = "" if is_owned(home, run_id) else f"; apply it with: holdfast resume {run_id}"
        print(json.dumps(told) if options.json else f"{command}: {plain(need.text)}{later}")
    return OK


async def _meant(home: str, run_id: str, state: RunState, request: str | None, *, every: bool) -> list[Need]:
    """The requests to be answered. `AlreadyAnswered` where the only one that can be meant has its answer."""
    open_ones = {need.key: need for need in open_questions(state) if need.key is not None}
    if not open_ones:
        must_not_be_answered(run_id, state, request)
        raise NothingToDo(f"nothing of run {run_id} waits for an answer")
    waiting = await waiting_answers(home, run_id, state)
    if every and (unanswered := [need for key, need in open_ones.items() if key not in waiting]):
        return unanswered
    key = _named(run_id, state, open_ones, request) if not every else next(iter(open_ones))
    if key in waiting:
        raise already_answered(open_ones[key].text, waiting[key], run_id, applied=False)
    return [open_ones[key]]


def _named(run_id: str, state: RunState, open_ones: Mapping[str, Need], request: str | None) -> str:
    if request is not None:
        found = [key for key in open_ones if key.startswith(request)]
        if not found:
            must_not_be_answered(run_id, state, request)
        if len(found) != 1:
            raise BadInput(f"{request!r} is none of the open requests; they are {_listed(open_ones)}")
        return found[0]
    if len(open_ones) > 1:
        raise BadInput(f"several requests are open; name one, or --all: {_listed(open_ones)}")
    return next(iter(open_ones))


def _fitted(given: Answer, need: Need) -> Answer:
    """The answer, for this request."""
    request = need.key or ""
    if given.changes is not None and not request.startswith(APPROVAL):
        raise BadInput("--changes is for a phase that asks for approval; give an agent the reason with --reason")
    if given.changes is not None and given.reason is not None:
        raise BadInput("--changes says what is to be changed, --reason why it is refused; give one of them")
    return msgspec.structs.replace(given, request=request)


def _listed(open_ones: Mapping[str, Need]) -> str:
    return "; ".join(f"{key} ({need.text})" for key, need in open_ones.items())
