"""`holdfast attach`: watch a run that is at work elsewhere."""

import asyncio
import json
import os
import shlex
import sys
from contextlib import suppress
from typing import NoReturn

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.live.live import Style, View, style_of
from holdfast.app.text.digest import told_digest
from holdfast.engine.agents.tmux import attaching
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home, is_owned
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.follow import Follower
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.wait import until_free
from holdfast.leaf.errors import INTERRUPTED, OK, BadInput, NothingToDo

_EXAMPLES = """\
  holdfast attach auth-system            what it did so far, and all that it does; Ctrl-C detaches
  holdfast attach auth-system --tmux     its agents' terminals, a window each; C-b d detaches
  holdfast attach auth-system --json     each event as it is written, on stdout"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "attach",
        "Watch a run at work, until its sitting ends. Ctrl-C detaches: the run goes on. Any number may watch.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("--tmux", action="store_true", help="its agents' own terminals, where they work in tmux")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    if options.tmux:
        command = attaching(home, run_id)
        if not options.json:
            _become(command)
        print(json.dumps({"run": run_id, "command": command}))
        return OK
    style = style_of(options)
    try:
        return asyncio.run(_attached(home, run_id, style))
    except KeyboardInterrupt:
        if style is not Style.JSON:
            _say(f"detached; {run_id} goes on: holdfast attach {run_id}, holdfast stop {run_id}")
        return INTERRUPTED


def _become(command: list[str]) -> NoReturn:
    """Tmux itself, in our place; its own key detaches."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(f"tmux needs a terminal; in one: {shlex.join(command)}")
    os.environ.pop("TMUX", None)  # another server's: it would not let us in
    os.execv(command[0], command)  # noqa: S606 - that is what it is for


async def _attached(home: str, run_id: str, style: Style) -> int:
    follower = await Follower.of(home, run_id)
    seen = await view_run(home, run_id)
    if seen.status != "running":
        raise NothingToDo(f"nobody is at work on {run_id} ({seen.status}); holdfast show {run_id} tells how it stands")
    _say(f"attached to {run_id}; Ctrl-C detaches, and the run goes on")
    view = View(run_id, follower, style)
    free = asyncio.ensure_future(until_free(home, run_id))
    looking = asyncio.ensure_future(_look(view, told_digest(await digest_of(home, run_id, view=seen), run_id)))
    try:
        await asyncio.wait((free, looking), return_when=asyncio.FIRST_COMPLETED)
        looked = looking.done()
        for one in (free, looking):
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one
        if not looked:
            await view.catch_up()
    finally:
        await view.leave()
    await _farewell(home, run_id, style)
    return OK


async def _look(view: View, digest: list[str]) -> None:
    if digest:
        await view.say(*digest, "")
    await view.follow()


async def _farewell(home: str, run_id: str, style: Style) -> None:
    if style is Style.JSON or is_owned(home, run_id):
        return
    seen = await view_run(home, run_id)
    if seen.status == "interrupted":
        _say(f"its runner died; nothing is lost: holdfast resume {run_id}")


def _say(words: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
