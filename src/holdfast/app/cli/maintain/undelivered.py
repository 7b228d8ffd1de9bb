"""Messages that nobody will read once their run is archived or deleted: the commands name them before they ask."""

import asyncio
import sys
from collections.abc import Sequence

from holdfast.app.text.confirm import is_confirmed
from holdfast.app.text.salvaged import NotConfirmed
from holdfast.app.text.screen import pluralize, printable, shorten_to_width
from holdfast.engine.home import Home
from holdfast.engine.queries.queued import list_queued
from holdfast.leaf.errors import Denied

_MAX_SHOWN = 5
_TEXT_CHARS = 80


def tell_undelivered(home: Home, run_id: str) -> int:
    """Name the run's undelivered messages on stderr; return how many there are."""
    found = asyncio.run(list_queued(home, run_id))
    if found:
        sys.stderr.write(f"  {printable(run_id)}: {pluralize(len(found), 'message')} not delivered to any agent:\n")
    for message in found[:_MAX_SHOWN]:
        text = shorten_to_width(printable(" ".join(message.text.split())), _TEXT_CHARS)
        sys.stderr.write(f"    {text}\n")
    if len(found) > _MAX_SHOWN:
        sys.stderr.write(f"    … and {len(found) - _MAX_SHOWN} more\n")
    return len(found)


def confirm_undelivered(home: Home, run_ids: Sequence[str], action: str) -> None:
    """Ask once if a run has undelivered messages. Without a terminal, raise `Denied`."""
    count = sum(tell_undelivered(home, run_id) for run_id in run_ids)
    if not count:
        return
    if not sys.stdin.isatty():
        raise Denied(
            f"nothing changed: {pluralize(count, 'message')} would never be delivered; deliver with: holdfast resume "
            f"{run_ids[0] if len(run_ids) == 1 else 'RUN'}, or pass -y to {action.lower()} all the same"
        )
    if not is_confirmed(f"{action} without delivering {'it' if count == 1 else 'them'}"):
        raise NotConfirmed("cancelled; nothing changed")
