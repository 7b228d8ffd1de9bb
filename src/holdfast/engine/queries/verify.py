"""Verifies that a log is complete: read strictly, and compared with its snapshot and its anchors."""

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from holdfast.core.log.verification import Damage, LogVerification, Verifier
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.anchors import FoundAnchors, find_anchors
from holdfast.engine.workspace.repository import open_repository
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.ids import is_run_id
from holdfast.store.base import Log
from holdfast.store.log_file import open_log_file
from holdfast.store.snapshot import matches_log


async def verify_run(home: Home, run_id: str, copies: Sequence[str] = ()) -> LogVerification:
    """Verify a run's own log strictly: it must be chained and contain what its snapshot and its anchors recorded."""
    store = home.store
    log = store.log(run_id)
    owned = home.is_owned(run_id)
    folder = home.folder(run_id)
    mirror = await _mirror_of(home, run_id)
    copies = [*copies, *([mirror] if mirror is not None else [])]
    verdict = await _verify(log, await find_anchors(log, folder, run_id, copies), must_be_chained=True, in_flight=owned)
    seen = await store.covered_head(run_id)
    if seen is not None and verdict.damage_count == 0 and not await matches_log(log, seen):
        missing = Damage(
            verdict.lines + 1, f"truncated or rewritten: a snapshot was made of another log, {seen.position} bytes long"
        )
        verdict = msgspec.structs.replace(verdict, damage=(missing,), damage_count=1)
    return verdict


async def _mirror_of(home: Home, run_id: str) -> str | None:
    """Return this machine's mirror of a cluster run's remote, which has its anchors; None without one."""
    with suppress(HoldfastError, OSError):
        info = (await view_run(home, run_id)).state.run
        if info is not None and info.remote is not None:
            return (await open_repository(home, info, run_id)).common_dir
    return None


async def verify_log(path: str, copies: Sequence[str] = ()) -> LogVerification:
    """Verify any log strictly. A log of one of our runs, even a copy, must also match its chain and its anchors."""
    log, folder = open_log_file(path), os.path.dirname(os.path.realpath(path))
    name = os.path.basename(folder)
    found = await find_anchors(log, folder, name if is_run_id(name) else None, copies)
    return await _verify(log, found, must_be_chained=False, in_flight=False)


async def _verify(log: Log, found_anchors: FoundAnchors, *, must_be_chained: bool, in_flight: bool) -> LogVerification:
    """Read the anchors first: a runner may append meanwhile, but the log never has less than the anchors."""
    verifier = Verifier(must_be_chained=must_be_chained, anchors=found_anchors.anchors)
    async for batch in log.read():
        verifier.feed(batch.data)
    verdict = verifier.result(b"" if in_flight else await log.torn_tail())
    anchors = msgspec.structs.replace(
        verdict.anchors,
        repositories=found_anchors.repositories,
        absent=found_anchors.missing,
        unread=found_anchors.unreadable,
    )
    return msgspec.structs.replace(verdict, anchors=anchors)
