"""Snapshots: a state on disk, with the log position that it covers and its own digest.

A snapshot counts only if this version of the fold made it, it is undamaged, and it belongs to this log (the line that
ends at its position carries its link). Otherwise it is ignored.
"""

import hashlib

import msgspec

from holdfast.core.fold.fold import FOLD_VERSION
from holdfast.core.log import chain
from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.core.state import RunState
from holdfast.store.base import Head, Log, Snapshot


class _SnapshotFile(msgspec.Struct):
    fold: int
    position: int
    chain: str
    digest: str
    state: msgspec.Raw


_decode = msgspec.json.Decoder(_SnapshotFile).decode
_decode_state = msgspec.json.Decoder(RunState).decode


def to_bytes(snapshot: Snapshot) -> bytes:
    state = msgspec.json.encode(snapshot.state)
    head = snapshot.head
    return msgspec.json.encode(
        _SnapshotFile(FOLD_VERSION, head.position, head.chain, _digest(head, state), msgspec.Raw(state))
    )


async def from_bytes(data: bytes, log: Log) -> Snapshot | None:
    try:
        content = _decode(data)
        head = Head(content.position, content.chain)
        if content.fold != FOLD_VERSION or content.digest != _digest(head, content.state):
            return None
        state = _decode_state(content.state)
    except DECODE_ERRORS:
        return None
    return Snapshot(head, state) if await matches_log(log, head) else None


def read_covered_head(path: str) -> Head | None:
    """Return the head that an undamaged snapshot covers, whether or not it matches the current log."""
    try:
        with open(path, "rb") as file:
            return covered_head(file.read())
    except OSError:
        return None


def covered_head(data: bytes) -> Head | None:
    """The same for the bytes of a snapshot."""
    try:
        content = _decode(data)
    except DECODE_ERRORS:
        return None
    head = Head(content.position, content.chain)
    return head if content.digest == _digest(head, content.state) else None


async def matches_log(log: Log, head: Head) -> bool:
    """True when a line of the log ends at this position and carries this link."""
    if head.position == 0:
        return head == Head()
    async for batch in log.read_backwards(head.position):
        lines = batch.data.split(b"\n")
        return batch.end == head.position and lines[-1] == b"" and chain.carried_link(lines[-2]) == head.chain
    return False


def _digest(head: Head, state: bytes | msgspec.Raw) -> str:
    return hashlib.sha256(f"{head.position} {head.chain} ".encode() + bytes(state)).hexdigest()
