"""Try the targets of notifications, and tell what is not delivered yet."""

import os
from typing import NamedTuple

from holdfast.core.notify.kinds import NotificationKind
from holdfast.core.notify.notification import Notification
from holdfast.core.text.moment import format_moment
from holdfast.engine.commands.daily_digest import digest_notification
from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.engine.notify.channels import deliver
from holdfast.engine.notify.outbox import OUTBOX, Outbox
from holdfast.leaf.errors import BadInput, HoldfastError, NothingToDo
from holdfast.leaf.ids import new_effect_id
from holdfast.leaf.wall_clock import WallClock

_NONE = (
    "no notifications are configured; add a target to your config, for example [notify.desk] desktop = true "
    "(holdfast config path prints where it is)"
)


class Sent(NamedTuple):
    """One attempt. `problem` is None when it was delivered."""

    target: str
    id: str
    problem: str | None


class Waiting(NamedTuple):
    """A notification that is not delivered yet. `run` is None for the digest of all runs."""

    run: str | None
    target: str
    kind: str
    title: str
    attempts: int
    held: bool
    next_at: str
    problem: str | None


class Undelivered(NamedTuple):
    waiting: list[Waiting]
    given_up: int
    problems: dict[str, str]  # the last one, by run; of the home itself by its path


async def send_test(home: Home, name: str | None) -> list[Sent]:
    """Send a test to one target, or to all, once."""
    text = "This is a test. Notifications of your runs arrive here."
    test = Notification(
        id=new_effect_id(),
        kind=NotificationKind.TEST,
        title="Holdfast can notify you",
        text=text,
        at=format_moment(WallClock().now()),
    )
    return await _send(home, name, test)


async def send_digest(home: Home, name: str | None) -> list[Sent]:
    """Send the digest of the last 24 hours now, once, besides the daily ones."""
    digest = await digest_notification(home, WallClock().now())
    return await _send(home, name, digest)


async def _send(home: Home, name: str | None, notification: Notification) -> list[Sent]:
    targets = load_config(home=home).settings.notify
    if not targets:
        raise NothingToDo(_NONE)
    if name is not None and name not in targets:
        raise BadInput(f"there is no target {name!r}; your config has {', '.join(targets)}")
    chosen = {name: targets[name]} if name is not None else targets
    folder = home.path if os.path.isdir(home.path) else os.path.expanduser("~")
    return [Sent(key, notification.id, await deliver(each, notification, folder)) for key, each in chosen.items()]


def undelivered(home: Home) -> Undelivered:
    """Return what waits in the outboxes of all runs, and why."""
    found = Undelivered([], 0, {})
    given_up = 0
    for run_id in (None, *home.run_ids()):
        folder = home.path if run_id is None else home.folder(run_id)
        if not os.path.exists(os.path.join(folder, OUTBOX)):
            continue
        try:
            state = Outbox(folder).load()
        except HoldfastError as error:
            found.problems[run_id or home.path] = str(error)
            continue
        given_up += state.given_up
        if state.last_problem is not None and (state.entries or state.given_up):
            found.problems[run_id or home.path] = state.last_problem
        found.waiting.extend(
            Waiting(
                run_id,
                entry.target,
                entry.notification.kind,
                entry.notification.title,
                entry.attempts,
                entry.held,
                format_moment(max(entry.due, entry.since)),
                entry.problem,
            )
            for entry in state.entries
        )
    return found._replace(given_up=given_up)
