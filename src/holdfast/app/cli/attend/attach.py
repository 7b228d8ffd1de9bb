"""`holdfast attach`: watch a run that another process owns."""

import asyncio
import json
import os
import shlex
import sys
from contextlib import suppress
from typing import NoReturn

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.live.line_view import LineView, OutputStyle
from holdfast.app.cli.live.live import choose_style, open_view
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.digest import format_digest
from holdfast.app.text.screen import status_text
from holdfast.core.run_status import RunStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.live.follow import Follower
from holdfast.engine.queries.live.terminal import attach_command
from holdfast.engine.queries.live.wait import is_between_workers, wait_until_free, wait_until_placed
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import EXIT_INTERRUPTED, EXIT_OK, BadInput, NothingToDo

_EXAMPLES = """\
  holdfast attach auth-system            what it did so far, then its events as they happen; Ctrl-C detaches
  holdfast attach auth-system --tmux     its agents' terminals, one window each; C-b d detaches
  holdfast attach auth-system --json     print each event to stdout as it is written"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "attach",
        "Watch a run until its session ends. Ctrl-C detaches; the run continues. Several people can watch at once.",
        _EXAMPLES,
    )
    add_run(parser, "the newest of this repository that is running")
    parser.add_argument("--tmux", action="store_true", help="show its agents' own terminals, if they run in tmux")
    options = parser.parse_args(arguments)
    home = Home()
    run_id = find_run(home, options.run, "running", "")
    if options.tmux:
        command = attach_command(home, run_id)
        if not options.json:
            _exec_tmux(command)
        print(json.dumps({"run": run_id, "command": command}))
        return EXIT_OK
    style = choose_style(options)
    try:
        return asyncio.run(_attach(home, run_id, style))
    except KeyboardInterrupt:
        if style is not OutputStyle.JSON:
            _print_status(
                f"detached; {run_id} continues. Watch it: holdfast attach {run_id}; stop it: holdfast stop {run_id}"
            )
        return EXIT_INTERRUPTED


def _exec_tmux(command: list[str]) -> NoReturn:
    """Replace this process with tmux; its own key detaches."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(f"tmux needs a terminal; in a terminal, run: {shlex.join(command)}")
    os.environ.pop("TMUX", None)  # of another tmux server: tmux refuses to nest
    os.execv(command[0], command)  # noqa: S606 - the purpose of this function


async def _attach(home: Home, run_id: str, style: OutputStyle) -> int:
    """Show a run until its session ends, on a cluster also while it moves from worker to worker."""
    is_attached = False
    while True:
        run_view = await view_run(home, run_id)
        if is_between_workers(run_view):
            _print_status(f"{run_id} waits for a worker of the cluster; Ctrl-C detaches")
            await wait_until_placed(home, run_id)
            is_attached = True
        elif run_view.status == RunStatus.RUNNING:
            await _watch_session(home, run_id, style)
            if not is_between_workers(await view_run(home, run_id)):
                return EXIT_OK
        elif is_attached:  # the session was short
            _print_status(f"{run_id}: {status_text(run_view.status)}; see: holdfast show {run_id}")
            return EXIT_OK
        else:
            raise NothingToDo(f"{run_id} is not running ({status_text(run_view.status)}); see: holdfast show {run_id}")


async def _watch_session(home: Home, run_id: str, style: OutputStyle) -> None:
    follower = await Follower.create(home, run_id)
    run_view = await view_run(home, run_id)
    _print_status(f"attached to {run_id}; Ctrl-C detaches, the run continues")
    view = open_view(home, run_id, follower, style)
    free = asyncio.ensure_future(wait_until_free(home, run_id))
    showing = asyncio.ensure_future(
        _show_run(view, format_digest(await digest_of(home, run_id, view=run_view), run_id))
    )
    try:
        await asyncio.wait((free, showing), return_when=asyncio.FIRST_COMPLETED)
        end_was_shown = showing.done()
        for future in (free, showing):
            future.cancel()
            with suppress(asyncio.CancelledError):
                await future
        if not end_was_shown:
            await view.catch_up()
    finally:
        await view.close()
    await _print_outcome(home, run_id, style)


async def _show_run(view: LineView, digest: list[str]) -> None:
    if digest:
        await view.print_lines(*digest, "")
    await view.follow()


async def _print_outcome(home: Home, run_id: str, style: OutputStyle) -> None:
    if style is OutputStyle.JSON or home.is_owned(run_id):
        return
    run_view = await view_run(home, run_id)
    if run_view.status == RunStatus.INTERRUPTED and not is_between_workers(run_view):
        _print_status(f"the runner died; nothing is lost. Continue with: holdfast resume {run_id}")


def _print_status(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
