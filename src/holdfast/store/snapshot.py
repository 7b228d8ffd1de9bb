"""Snapshots: a fold on disk, with the point of the log that it covers and a digest of itself.

It is read only when it can be trusted: made by this version of the fold, whole, and of this very log (the
line that ends at its position carries its link). Otherwise it is as if there were none.
"""

import hashlib

import msgspec

from holdfast.core.fold.fold import FOLD_VERSION
from holdfast.core.log import chain
from holdfast.core.log.codec import UNREADABLE
from holdfast.core.state import RunState
from holdfast.store.base import Head, Log, Snapshot


class _Sheet(msgspec.Struct):
    fold: int
    position: int
    chain: str
    digest: str
    state: msgspec.Raw


_decode = msgspec.json.Decoder(_Sheet).decode
_decode_state = msgspec.json.Decoder(RunState).decode


def to_bytes(snapshot: Snapshot) -> bytes:
    state = msgspec.json.encode(snapshot.state)
    head = snapshot.head
    return msgspec.json.encode(
        _Sheet(FOLD_VERSION, head.position, head.chain, _digest(head, state), msgspec.Raw(state))
    )


async def from_bytes(data: bytes, log: Log) -> Snapshot | None:
    try:
        sheet = _decode(data)
        head = Head(sheet.position, sheet.chain)
        if sheet.fold != FOLD_VERSION or sheet.digest != _digest(head, sheet.state):
            return None
        state = _decode_state(sheet.state)
    except UNREADABLE:
        return None
    return Snapshot(head, state) if await is_of(log, head) else None


def covered(path: str) -> Head | None:
    """How much of the log an undamaged snapshot saw, whether or not it fits the log of today."""
    try:
        with open(path, "rb") as file:
            sheet = _decode(file.read())
    except (OSError, *UNREADABLE):
        return None
    head = Head(sheet.position, sheet.chain)
    return head if sheet.digest == _digest(head, sheet.state) else None


async def is_of(log: Log, head: Head) -> bool:
    """True when the log has a line that ends there and carries that link."""
    if head.position == 0:
        return head == Head()
    async for batch in log.read_back(head.position):
        lines = batch.data.split(b"\n")
        return batch.end == head.position and lines[-1] == b"" and chain.carried(lines[-2]) == head.chain
    return False


def _digest(head: Head, state: bytes | msgspec.Raw) -> str:
    return hashlib.sha256(f"{head.position} {head.chain} ".encode() + bytes(state)).hexdigest()
