"""What `approve` and `deny` share: answering a request of an agent or a phase."""

import argparse
import asyncio
import json
from collections.abc import Mapping

import msgspec

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.text.rules import rule_text
from holdfast.app.text.screen import printable
from holdfast.core.messages.answers import APPROVAL_PREFIX
from holdfast.core.messages.schema import UserAnswer
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, needs_to_answer
from holdfast.engine.commands.answer import already_answered_error, raise_if_answered, send_answer
from holdfast.engine.home import Home
from holdfast.engine.queries.digest import waiting_answers
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import EXIT_OK, BadInput, NothingToDo


def answer_requests(arguments: list[str], command: str, description: str, examples: str, *, allow: bool) -> int:
    parser = Parser(command, description, examples)
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument(
        "request", type=utf8_text, nargs="?", metavar="REQUEST", help="the request, if several are open"
    )
    parser.add_argument("--option", type=utf8_text, metavar="ID", help="one of the options that the agent offers")
    parser.add_argument("--all", action="store_true", help="all open requests without an answer")
    if allow:
        parser.add_argument(
            "--always", action="store_true", help="for an agent: allow exactly this call from now on, in this run"
        )
    if not allow:
        parser.add_argument(
            "-m", "--reason", type=utf8_text, metavar="TEXT", help="why; sent to the agent with its next prompt"
        )
        parser.add_argument(
            "--revoke", type=utf8_text, metavar="RULE", help="ask again for what `approve --always` allowed"
        )
        parser.add_argument(
            "--changes", type=utf8_text, metavar="TEXT", help="for a phase: what to change before you approve"
        )
    options = parser.parse_args(arguments)
    answer = UserAnswer("", allow, options.option, *(() if allow else (options.changes, options.reason)))
    if allow and options.always:
        answer = msgspec.structs.replace(answer, always=True)
    home = Home()
    run_id = home.find_run(options.run)
    state = asyncio.run(view_run(home, run_id)).state
    if not allow and options.revoke is not None:
        return _revoke(home, run_id, state, options)
    for need in asyncio.run(_requests_to_answer(home, run_id, state, options.request, all_open=options.all)):
        message = asyncio.run(send_answer(home, run_id, state, need, _answer_for(answer, need)))
        result = {"run": run_id, "request": need.key, "message": message}
        later = "" if home.is_owned(run_id) else f"; apply it with: holdfast resume {run_id}"
        print(json.dumps(result) if options.json else f"{command}: {printable(need.text)}{later}")
    return EXIT_OK


def _revoke(home: Home, run_id: str, state: RunState, options: argparse.Namespace) -> int:
    """Revoke a rule of the run. It applies at once if the run is running, else before its next step."""
    if options.request is not None or options.all:
        raise BadInput("--revoke takes a rule, and no request; list the rules with: holdfast show " + run_id)
    rules = [rule for rule in state.rules if rule.startswith(options.revoke)]
    if len(rules) != 1 or not options.revoke:
        known = ", ".join(state.rules) or "none"
        raise NothingToDo(f"run {run_id} has no rule {options.revoke!r}; its rules are: {known}")
    from holdfast.engine.commands.chat import revoke_rule  # loads what starts agents, which an answer does without

    message = asyncio.run(revoke_rule(home, run_id, rules[0]))
    result = {"run": run_id, "rule": rules[0], "message": message}
    print(json.dumps(result) if options.json else f"revoked rule {rules[0]}: {printable(rule_text(state, rules[0]))}")
    return EXIT_OK


async def _requests_to_answer(
    home: Home, run_id: str, state: RunState, request: str | None, *, all_open: bool
) -> list[Need]:
    """Return the requests to answer. Raises `AlreadyAnswered` if the only possible one has its answer."""
    open_requests = {need.key: need for need in needs_to_answer(state) if need.key is not None}
    if not open_requests:
        raise_if_answered(run_id, state, request)
        raise NothingToDo(f"run {run_id} has no open request")
    waiting = await waiting_answers(home, run_id, state)
    if all_open and (unanswered := [need for key, need in open_requests.items() if key not in waiting]):
        return unanswered
    key = _find_request(run_id, state, open_requests, request) if not all_open else next(iter(open_requests))
    if key in waiting:
        raise already_answered_error(open_requests[key].text, waiting[key], run_id, applied=False)
    return [open_requests[key]]


def _find_request(run_id: str, state: RunState, open_requests: Mapping[str, Need], request: str | None) -> str:
    if request is not None:
        found = [key for key in open_requests if key.startswith(request)]
        if not found:
            raise_if_answered(run_id, state, request)
        if len(found) != 1:
            raise BadInput(f"{request!r} is not an open request; the open requests are {_list_requests(open_requests)}")
        return found[0]
    if len(open_requests) > 1:
        raise BadInput(f"several requests are open; name one, or pass --all: {_list_requests(open_requests)}")
    return next(iter(open_requests))


def _answer_for(answer: UserAnswer, need: Need) -> UserAnswer:
    """Return the answer, addressed to this request."""
    request = need.key or ""
    if answer.always and request.startswith(APPROVAL_PREFIX):
        raise BadInput("--always is for a request of an agent; a phase asks for approval each time")
    if answer.changes is not None and not request.startswith(APPROVAL_PREFIX):
        raise BadInput("--changes is for a phase that waits for approval; for an agent, use --reason")
    if answer.changes is not None and answer.reason is not None:
        raise BadInput("pass either --changes (what to change) or --reason (why it is refused), not both")
    return msgspec.structs.replace(answer, request=request)


def _list_requests(open_requests: Mapping[str, Need]) -> str:
    return "; ".join(f"{key} ({need.text})" for key, need in open_requests.items())
