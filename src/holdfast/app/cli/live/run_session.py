"""What `run` and `resume` share: move a run, show it, and turn signals and outcomes into what people expect."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.app.cli.arguments import Parser, words
from holdfast.app.cli.live.live import Style, style_of, watch
from holdfast.app.cli.live.redacted_stderr import redact_stderr
from holdfast.app.text.screen import paint, plain, warn
from holdfast.core.conversation.permission import Policy
from holdfast.core.end_reason import EndReason
from holdfast.engine.commands.create import lasting
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.config.config import mistakes_in_roles, roles_in
from holdfast.engine.queries.cost_cap import cost_cap_warning
from holdfast.engine.queries.logs import end_of_log
from holdfast.engine.session.resume_choice import Chooser, Ended
from holdfast.leaf.errors import INTERRUPTED, OK, BadInput, DecisionNeeded, HoldfastError, TimedOut
from holdfast.leaf.process.load import slowness

_CODES = {
    EndReason.ALL_DONE: OK,
    "done": OK,
    EndReason.PLANNED: OK,
    "archived": OK,
    EndReason.INTERRUPTED: INTERRUPTED,
    EndReason.STOPPED: OK,
    EndReason.WALL_CLOCK: TimedOut.exit_code,
    EndReason.WAITING: DecisionNeeded.exit_code,
}
_LAST_LINES_S = 10.0  # for the view to show the end, where somebody reads it
_LIMITS = {
    EndReason.ITERATION_CAP: "iteration limit reached (caps.iterations)",
    EndReason.EVALUATOR_CAP: "evaluator limit reached (caps.evaluator_calls)",
    EndReason.NO_CASE: "the worker never submitted its case",
    EndReason.REFUSED: "tool calls were refused and nothing was changed; permissions or --allow decide what is allowed",
    EndReason.REVIEW_CAP: "review limit reached: the review did not pass, a resume continues with fixing",
    EndReason.CHECKS_CAP: "limit reached: the checks of a phase did not pass, a resume tries it again",
}


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--agent", type=words, metavar="NAME", help="who works: claude, codex, gemini, builtin, playbook:FILE, …"
    )
    parser.add_argument("--parallel", type=int, metavar="N", help="tasks at the same time")
    parser.add_argument(
        "--allow", choices=[policy.value for policy in Policy], help="what agents may do without asking you"
    )
    parser.add_argument(
        "--set",
        type=words,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting of the config, as caps.iterations=3",
    )
    parser.add_argument("--detach", action="store_true", help="work on without this terminal")
    parser.add_argument("--quiet", action="store_true", help="say only how it ended")


def flags_of(options: argparse.Namespace) -> dict[str, Any]:
    """Settings by their dotted names, as the config has them."""
    named = {"agent": options.agent, "parallel": options.parallel, "permissions.policy": options.allow}
    flags: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for pair in options.set:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadInput(f"--set {pair!r} is no KEY=VALUE; `holdfast config` lists the keys")
        flags[key] = _value(value)
        for role, wrong in mistakes_in_roles(roles_in(key, flags[key])):
            raise BadInput(f"--set {key}: {role}: {wrong}")
    return lasting(flags)


def _value(text: str) -> Any:
    """A number, a truth, a list, or the words themselves."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def move(
    home: str,
    run_id: str,
    choose: Chooser,
    flags: Mapping[str, Any],
    options: argparse.Namespace,
    passed_on: Sequence[str] = (),
) -> int:
    """`passed_on` are the options by which a runner in a process of its own makes the same choice."""
    redact_stderr()
    if options.detach or style_of(options) in (Style.JSON, Style.QUIET):  # else it is shown with all that is logged
        warning = asyncio.run(cost_cap_warning(home, run_id, flags))
        warn([warning] if warning is not None else [])
    if options.detach:
        pid = asyncio.run(start_detached(home, run_id, *_as_options(flags), *passed_on))
        _tell(options, {"run": run_id, "pid": pid}, f"{run_id} is at work (pid {pid}): holdfast attach {run_id}")
        return OK
    ended = asyncio.run(_moved(home, run_id, choose, dict(flags), style_of(options)))
    _tell(options, {"run": run_id, "ended": ended.reason, "detail": ended.detail}, _words(run_id, ended))
    return code_of(ended.reason)


def code_of(reason: str) -> int:
    """The exit code for how a sitting ended, or a run stands."""
    return _CODES.get(reason, HoldfastError.exit_code)


def _as_options(flags: Mapping[str, Any]) -> list[str]:
    return [part for name, value in flags.items() for part in ("--set", f"{name}={json.dumps(value)}")]


async def _moved(home: str, run_id: str, choose: Chooser, flags: dict[str, Any], style: Style) -> Ended:
    from holdfast.engine.session.session import Handle, sit

    handle, notices = Handle(), asyncio.Queue[str]()
    after = await end_of_log(home, run_id)  # before the session writes anything: what is shown has all of it
    sitting = asyncio.ensure_future(sit(home, run_id, choose, handle=handle, flags=flags))
    _heed_signals(handle.stop, sitting, notices.put_nowait)
    view = asyncio.ensure_future(watch(home, run_id, style=style, after=after, notices=notices))
    try:
        ended = await sitting
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(view), _LAST_LINES_S * slowness())  # it has the end still to show
        return ended
    except asyncio.CancelledError:
        return Ended("interrupted")
    finally:
        view.cancel()
        with suppress(asyncio.CancelledError):
            await view


def _heed_signals(stop: Callable[[str], None], sitting: "asyncio.Future[Ended]", tell: Callable[[str], None]) -> None:
    """The first asks to stop cleanly, the second stops at once. A terminal that goes does not end the run."""
    asked = 0

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:  # noqa: PLR2004 - a third has nothing to add: what is left is to bury the agents
            sitting.cancel()
        if asked > 1:
            return
        tell("stopping cleanly; again to stop at once")
        stop("interrupted")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)


def _words(run_id: str, ended: Ended) -> str:
    detail = f": {plain(ended.detail)}" if ended.detail else ""
    match ended.reason:
        case EndReason.ALL_DONE:
            return f"{paint('done', 'green')}: holdfast diff {run_id} shows the work, holdfast merge {run_id} takes it"
        case EndReason.INTERRUPTED | EndReason.STOPPED:
            return f"stopped; nothing is lost: holdfast resume {run_id}"
        case EndReason.WAITING:
            return f"it waits for you: holdfast show {run_id} tells for what"
        case reason if reason in _LIMITS:
            return f"not done: {_LIMITS[EndReason(reason)]}{detail}. Its work is kept: holdfast resume {run_id}"
        case reason:
            return f"it ended ({reason}){detail}; its work is kept: holdfast show {run_id}, holdfast resume {run_id}"


def _tell(options: argparse.Namespace, data: Mapping[str, Any], words: str) -> None:
    with suppress(OSError):
        if options.json:
            print(json.dumps(data), flush=True)
        else:
            sys.stderr.write(f"{words}\n")
            sys.stderr.flush()
