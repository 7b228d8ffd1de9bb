"""What `run` and `resume` share: run a session, show it, handle signals, and report how it ended."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.cli.live.line_view import OutputStyle
from holdfast.app.cli.live.live import choose_style, show_run
from holdfast.app.cli.live.redacted_stderr import redact_stderr
from holdfast.app.text.screen import fold_line, paint, printable, warn
from holdfast.core.conversation.permission import Policy
from holdfast.core.end_reason import EndReason, end_reason_text
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.engine.queries.setup.cost_cap import cost_cap_warning
from holdfast.engine.queries.setup.settings import mistakes_in_roles, roles_of_flag, with_absolute_paths
from holdfast.leaf.errors import EXIT_INTERRUPTED, EXIT_OK, BadInput, DecisionNeeded, HoldfastError, TimedOut
from holdfast.leaf.importing import NoCollection
from holdfast.leaf.process.load import load_factor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.commands.session import Chooser, SessionResult  # loads what speaks to agents

_EXIT_CODES: Mapping[str, int] = {
    EndReason.ALL_DONE: EXIT_OK,
    RunStatus.DONE: EXIT_OK,
    EndReason.PLANNED: EXIT_OK,
    RunStatus.ARCHIVED: EXIT_OK,
    EndReason.INTERRUPTED: EXIT_INTERRUPTED,
    EndReason.STOPPED: EXIT_OK,
    EndReason.IDLE: EXIT_OK,
    EndReason.WALL_CLOCK: TimedOut.exit_code,
    EndReason.WAITING: DecisionNeeded.exit_code,
}
_LAST_LINES_S = 10.0  # for the view to show the last lines
_SETTING_OF_OPTION = {
    "agent": "agent",
    "model": "model",
    "parallel": "parallel",
    "allow": "permissions.policy",
    "budget": "caps.dollars",
    "max_tokens": "caps.tokens",
    "iterations": "caps.iterations",
}
_HINTS = {
    EndReason.COST_CAP: "raise it with --budget DOLLARS",
    EndReason.TOKEN_CAP: "raise it with --max-tokens N",
    EndReason.WALL_CLOCK: "raise it with --max-minutes N",
    EndReason.DAY_BUDGET: "`holdfast watch` continues when the day turns",
    EndReason.REPOSITORY_BUDGET: "raise it in your config",
    EndReason.TASK_BUDGET: "raise it with --set budgets.task_dollars=N or budgets.task_tokens=N",
    EndReason.ITERATION_CAP: "raise it with --iterations N",
    EndReason.DECLINED: "say it in other words: holdfast send RUN MESSAGE",
    EndReason.REFUSED: "allow more with --allow or permissions.rules",
    EndReason.REVIEW_CAP: "resume continues with fixing",
    EndReason.CHECKS_CAP: "resume tries the phase again",
}
_NEEDED_OPTIONS = {  # without these, the next session ends as this one did
    EndReason.COST_CAP: "--budget DOLLARS",
    EndReason.TOKEN_CAP: "--max-tokens N",
}


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--agent", type=utf8_text, metavar="NAME", help="the agent: claude, codex, gemini, builtin, playbook:FILE, …"
    )
    parser.add_argument("--model", type=utf8_text, metavar="NAME", help="the model, as the agent names it")
    parser.add_argument("--parallel", type=_count, metavar="N", help="how many tasks run at once")
    parser.add_argument(
        "--allow", choices=[policy.value for policy in Policy], help="what agents may do without your permission"
    )
    parser.add_argument("--budget", type=_amount, metavar="DOLLARS", help="stop when the run has cost this much")
    parser.add_argument("--max-tokens", type=_count, metavar="N", help="stop when the run has used this many tokens")
    parser.add_argument("--max-minutes", type=_amount, metavar="N", help="stop this session after N minutes")
    parser.add_argument("--iterations", type=_count, metavar="N", help="how many iterations a task may take")
    parser.add_argument(
        "--set",
        type=utf8_text,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting, such as caps.iterations=3",
    )
    parser.add_argument("--detach", action="store_true", help="run in the background, without this terminal")
    parser.add_argument("--quiet", action="store_true", help="print only errors, permission requests and the result")


def _count(text: str) -> int:
    with suppress(ValueError):
        if (number := int(text)) >= 1:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")


def _amount(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(text)) < float("inf"):
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")


def flags_from_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings given as options, by their dotted names."""
    named = {setting: getattr(options, option, None) for option, setting in _SETTING_OF_OPTION.items()}
    if getattr(options, "max_minutes", None) is not None:
        named["caps.wall_clock"] = options.max_minutes * 60
    flags: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    for pair in options.set:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise BadInput(f"--set {pair!r} is not KEY=VALUE; list the keys with: holdfast config")
        flags[key] = _parse_value(value)
        for role, mistake in mistakes_in_roles(roles_of_flag(key, flags[key])):
            raise BadInput(f"--set {key}: {role}: {mistake}")
    return with_absolute_paths(flags)


def _parse_value(text: str) -> Any:
    """Return the JSON value, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


class SessionChoice(NamedTuple):
    """How a session continues: a function that chooses, and the same choice as options for a detached runner.

    `state` is the run's, if the caller has read the log already.
    """

    choose: Chooser
    runner_options: Sequence[str] = ()
    state: RunState | None = None


def run_and_show(
    home: Home, run_id: str, choice: SessionChoice, flags: Mapping[str, Any], options: argparse.Namespace
) -> int:
    """Run a session and show it."""
    redact_stderr()
    if options.detach or choose_style(options) in (
        OutputStyle.JSON,
        OutputStyle.QUIET,
    ):  # otherwise the log shows the warning
        warning = asyncio.run(cost_cap_warning(home, run_id, flags, choice.state))
        warn([warning] if warning is not None else [])
    if options.detach:
        pid = asyncio.run(start_detached(home, run_id, *_flag_options(flags), *choice.runner_options))
        _print_result(
            options,
            {"run": run_id, "pid": pid},
            f"{run_id} started (pid {pid}); watch it with: holdfast attach {run_id}",
        )
        return EXIT_OK
    ended = asyncio.run(_run_and_watch(home, run_id, choice.choose, dict(flags), options))
    is_unchanged = ended.reason == EndReason.ALL_DONE and asyncio.run(_has_no_commit(home, run_id))
    text = f"{paint('done', 'green')}, nothing was changed" if is_unchanged else _end_message(run_id, ended)
    _print_result(options, {"run": run_id, "ended": ended.reason, "detail": ended.detail}, text)
    return exit_code_for(ended.reason)


def exit_code_for(reason: str) -> int:
    """Return the exit code for the end reason of a session, or for the status of a run."""
    return _EXIT_CODES.get(reason, HoldfastError.exit_code)


def _flag_options(flags: Mapping[str, Any]) -> list[str]:
    return [part for name, value in flags.items() for part in ("--set", f"{name}={json.dumps(value)}")]


async def _run_and_watch(
    home: Home, run_id: str, choose: Chooser, flags: dict[str, Any], options: argparse.Namespace
) -> SessionResult:
    with NoCollection():
        from holdfast.engine.commands.session import SessionHandle, SessionOptions, SessionResult, run_session

    handle, notices = SessionHandle(), asyncio.Queue[str]()
    after = await end_of_log(home, run_id)  # before the session writes anything, so that the view shows all of it
    how = SessionOptions(flags, bool(getattr(options, "now", False)), getattr(options, "expect", None))
    session = asyncio.ensure_future(run_session(home, run_id, choose, handle=handle, options=how))
    _handle_signals(handle.stop, session, notices.put_nowait)
    view = asyncio.ensure_future(show_run(home, run_id, style=choose_style(options), after=after, notices=notices))
    try:
        ended = await session
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(view), _LAST_LINES_S * load_factor())  # for its last lines
        return ended
    except asyncio.CancelledError:
        return SessionResult(EndReason.INTERRUPTED)
    finally:
        view.cancel()
        with suppress(asyncio.CancelledError):
            await view


def _handle_signals(
    stop: Callable[[str], None], session: asyncio.Future[SessionResult], notify: Callable[[str], None]
) -> None:
    """The first signal stops cleanly, the second at once. Closing the terminal does not stop the run."""
    signals = 0

    def interrupt() -> None:
        nonlocal signals
        signals += 1
        if signals == 2:  # noqa: PLR2004 - a third changes nothing: only ending the agents is left
            session.cancel()
        if signals > 1:
            return
        notify("stopping cleanly; press Ctrl-C again to stop at once")
        stop(EndReason.INTERRUPTED)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)


async def _has_no_commit(home: Home, run_id: str) -> bool:
    """Whether the run's branch is still where it began."""
    state = (await view_run(home, run_id)).state
    own = state.branches.get((state.run and state.run.branch) or "")
    return own is not None and own.tip in (None, own.base)


def _end_message(run_id: str, ended: SessionResult) -> str:
    detail = f": {printable(ended.detail)}" if ended.detail else ""
    match ended.reason:
        case EndReason.ALL_DONE:
            return f"{paint('done', 'green')}; see it: holdfast diff {run_id}; merge it: holdfast merge {run_id}"
        case EndReason.INTERRUPTED | EndReason.STOPPED:
            return f"stopped; nothing is lost. Continue with: holdfast resume {run_id}"
        case EndReason.IDLE:
            return f"waiting for your next message; send it with: holdfast send {run_id} MESSAGE"
        case EndReason.WAITING:
            return f"waiting for you; see what it needs: holdfast show {run_id}"
        case EndReason.QUOTA | EndReason.OUTAGE:
            text = f"parked: {end_reason_text(ended.reason)}{detail}. Nothing is lost"
            return f"{text}; `holdfast watch` continues it then, holdfast resume {run_id} --now at once"
        case reason:
            hint = f" ({_HINTS[EndReason(reason)].replace('RUN', run_id)})" if reason in _HINTS else ""
            text = f"not done: {end_reason_text(reason)}{hint}{detail.removesuffix('.')}. The work is kept"
            option = f" {_NEEDED_OPTIONS[EndReason(reason)]}" if reason in _NEEDED_OPTIONS else ""
            return f"{text}; details: holdfast show {run_id}; continue: holdfast resume {run_id}{option}"


def _print_result(options: argparse.Namespace, data: Mapping[str, Any], text: str) -> None:
    with suppress(OSError):
        if options.json:
            print(json.dumps(data), flush=True)
        else:
            sys.stderr.write(f"{fold_line(text, sys.stderr)}\n")
            sys.stderr.flush()
