"""What is remembered for every agent of a run, loaded anew for each prompt: bounded, and each piece with its hash.

Guides are the project's own, from the task's worktree: they are as much under the agents' hands as any file there, so a
link that leads out of it is not followed. The rest is what the run itself can tell.
"""

import hashlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast.core.config.settings import MemoryCaps
from holdfast.core.text.sharing import shares
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.contained import read_start, resolve_inside

GUIDES = ("AGENTS.md", "CLAUDE.md")
PREFERENCES, OVERVIEW, PLANNED, LEDGER, PROGRESS = "preferences", "overview", "plan", "ledger", "progress"
_WIDEST = 4  # bytes of a character, at most
_HASHED = 16 * 1024 * 1024  # bytes: of a larger file nobody reads all


class Given(NamedTuple):
    """A channel that the run itself tells. Of most the beginning is kept when it is cut, of others the end."""

    name: str
    text: str
    from_end: bool = False


class Loaded(NamedTuple):
    """One channel: what of it is sent (`text`, in which a cut is named), and its whole size in bytes and hash.

    `room` are the characters that it may have of the prompt. Of a file that is too large there is no hash.
    """

    name: str
    text: str = ""
    cut: bool = False
    room: int = 0
    size: int = 0
    sha256: str | None = None  # the first 16 digits

    @property
    def present(self) -> bool:
        return self.size > 0


class _Found(NamedTuple):
    name: str
    text: str
    size: int  # of all of it, in bytes
    sha256: str | None
    more: int = 0  # bytes that were not even read
    from_end: bool = False


def load(worktree: str, caps: MemoryCaps, given: Sequence[Given] = ()) -> list[Loaded]:
    """Every channel in its order, also those that are not there, within both caps."""
    found = [*_guides(worktree, caps.channel), *map(_told, given)]
    saying = [one for one in found if one.text.strip()]
    rooms = dict(zip(map(id, saying), shares([len(one.text) for one in saying], caps.channel, caps.total), strict=True))
    return [_kept(one, rooms[id(one)]) if id(one) in rooms else _unsaid(one) for one in found]


def recorded(memory: Sequence[Loaded]) -> msgspec.Raw:
    """As `memory.loaded` has it."""
    rows = [
        {
            "name": one.name,
            "present": one.present,
            "bytes": one.size,
            "sha256": one.sha256,
            "sent": len(one.text),
            "cut": one.cut,
        }
        for one in memory
    ]
    return msgspec.Raw(msgspec.json.encode(rows))


def _kept(channel: _Found, room: int) -> Loaded:
    text, left = channel.text, len(channel.text) - room
    cut = left > 0 or channel.more > 0
    if left > 0:
        text = text[left:] if channel.from_end else text[:room]
    if cut:
        rest = f"{left} characters" if not channel.more else f"{left} characters and {channel.more} bytes"
        note = f"[… {rest} left out …]"
        text = f"{note}\n{text}" if channel.from_end else f"{text}\n{note}"
    return Loaded(channel.name, text, cut, room, channel.size, channel.sha256)


def _unsaid(channel: _Found) -> Loaded:
    """One that is not there, or has nothing but blanks."""
    return Loaded(channel.name, size=channel.size, sha256=channel.sha256 if channel.size else None)


def _told(given: Given) -> _Found:
    data = given.text.encode(errors="replace")
    return _Found(given.name, given.text, len(data), _digest(data), from_end=given.from_end)


def _guides(worktree: str, most: int) -> Iterator[_Found]:
    """Each file once: CLAUDE.md is often a link to AGENTS.md."""
    seen: set[str] = set()
    for name in GUIDES:
        found = _Found(name, "", 0, None)
        with suppress(OSError, Denied):
            real = resolve_inside(worktree, name)
            if real in seen:
                continue
            seen.add(real)
            whole, size = read_start(worktree, name, max(_HASHED, most * _WIDEST))
            data = whole[: most * _WIDEST]
            text = getincrementaldecoder("utf-8-sig")("replace").decode(data, final=size <= len(data))
            found = _Found(name, text, size, _digest(whole) if size <= len(whole) else None, max(0, size - len(data)))
        yield found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
