"""The digest of all runs, once a day, to the targets that ask for one."""

import asyncio
from contextlib import suppress

from holdfast.core.notify.kinds import NotificationKind
from holdfast.core.notify.notification import Notification, notification_id
from holdfast.core.notify.schedule import day_of, is_past
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.spending import spent_text
from holdfast.core.text.cut import cut
from holdfast.core.text.moment import format_moment
from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.engine.notify.notifier import Notifier
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.runs import list_runs
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.wall_clock import WallClock

_LOOK_S = 60.0  # the clock may be set, and the machine suspended
_DAY_S = 24 * 3600.0
_MAX_CHARS = 4_000


async def send_daily_digests(home: Home, clock: WallClock) -> None:
    """Send each day's digest once, until cancelled. The day that was sent is on the disk."""
    while True:
        with suppress(HoldfastError, OSError):  # an unreadable config or a full disk: it is looked at again
            await send_due_digests(home, clock)
        await asyncio.sleep(_LOOK_S)


async def send_due_digests(home: Home, clock: WallClock) -> None:
    """Send today's digest to each target whose time has come, and what earlier attempts left."""
    targets = {name: each for name, each in load_config(home=home).settings.notify.items() if each.digest is not None}
    if not targets:
        return
    now = clock.now()
    due = [name for name, target in targets.items() if is_past(target.digest or "", now)]

    async def make() -> Notification:
        return await digest_notification(home, now)

    await Notifier(home, None, targets, clock).send_once_a_day(day_of(now), due, make)


async def digest_notification(home: Home, now: float) -> Notification:
    """What happened in all runs during the last 24 hours."""
    since = format_moment(now - _DAY_S)
    runs = [run for run in await list_runs(home) if (run.summary.updated or "") >= since]
    lines = [f"{run.id} ({run.status}): {_digest_line(await digest_of(home, run.id, since))}" for run in runs]
    count = f"{len(lines)} run{'' if len(lines) == 1 else 's'}"
    return Notification(
        id=notification_id("daily", home.path, day_of(now)),
        kind=NotificationKind.DIGEST,
        title=f"Holdfast: {count} in the last 24 hours",
        text=cut("\n".join(lines) or "nothing happened", _MAX_CHARS),
        at=format_moment(now),
    )


def _digest_line(digest: Digest) -> str:
    parts = [
        *([f"done {', '.join(digest.completed)}"] if digest.completed else []),
        *([f"failed {', '.join(digest.failed)}"] if digest.failed else []),
        *([f"needs you: {digest.needs[0].text}"] if digest.needs else []),
    ]
    if digest.tokens or digest.dollars is not None or digest.unpriced:
        parts.append(spent_text(digest.tokens, digest.dollars, digest.unpriced, digest.estimate))
    return "; ".join(parts) or "nothing finished"
