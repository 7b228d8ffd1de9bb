"""The memory that every agent of a run gets, reloaded for each prompt: bounded, and each channel with its hash.

Guides are the project's own files in the task's worktree. Agents can write there like anywhere else, so a link that
leads out of the worktree is not followed. The other channels come from the run itself.
"""

import hashlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast.core.config.settings import MemoryCaps
from holdfast.core.text.sharing import allocate_room
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.contained import read_prefix, resolve_inside

GUIDE_FILES = ("AGENTS.md", "CLAUDE.md")
PREFERENCES, OVERVIEW, PLANNED, LEDGER, PROGRESS = "preferences", "overview", "plan", "ledger", "progress"
_MAX_CHAR_BYTES = 4  # at most
_MAX_HASHED_BYTES = 16 * 1024 * 1024  # larger files are not hashed


class MemoryText(NamedTuple):
    """A channel whose text comes from the run. Cutting keeps the beginning of most channels and the end of others."""

    name: str
    text: str
    from_end: bool = False


class LoadedChannel(NamedTuple):
    """One channel: the text that is sent (a cut is marked in it), its whole size in bytes, and its hash.

    `room` is how many characters of the prompt it may use. A file that is too large has no hash.
    """

    name: str
    text: str = ""
    cut: bool = False
    max_chars: int = 0
    size: int = 0
    sha256: str | None = None  # the first 16 digits

    @property
    def is_present(self) -> bool:
        return self.size > 0


class _Source(NamedTuple):
    name: str
    text: str
    size: int  # of the whole file, in bytes
    sha256: str | None
    unread_bytes: int = 0  # bytes that were not read
    from_end: bool = False


def load_memory(worktree: str, caps: MemoryCaps, texts: Sequence[MemoryText] = ()) -> list[LoadedChannel]:
    """Load every channel in order, including absent ones, within both caps."""
    found = [*_read_guides(worktree, caps.channel), *map(_source_from_text, texts)]
    saying = [source for source in found if source.text.strip()]
    rooms = dict(
        zip(
            map(id, saying),
            allocate_room([len(source.text) for source in saying], caps.channel, caps.total),
            strict=True,
        )
    )
    return [
        _cut_to_fit(source, rooms[id(source)]) if id(source) in rooms else _empty_channel(source) for source in found
    ]


def encode_channels(channels: Sequence[LoadedChannel]) -> msgspec.Raw:
    """Encode for the `memory.loaded` event."""
    rows = [
        {
            "name": channel.name,
            "present": channel.is_present,
            "bytes": channel.size,
            "sha256": channel.sha256,
            "sent": len(channel.text),
            "cut": channel.cut,
        }
        for channel in channels
    ]
    return msgspec.Raw(msgspec.json.encode(rows))


def _cut_to_fit(channel: _Source, max_chars: int) -> LoadedChannel:
    text, left = channel.text, len(channel.text) - max_chars
    cut = left > 0 or channel.unread_bytes > 0
    if left > 0:
        text = text[left:] if channel.from_end else text[:max_chars]
    if cut:
        rest = (
            f"{left} characters" if not channel.unread_bytes else f"{left} characters and {channel.unread_bytes} bytes"
        )
        note = f"[… {rest} left out …]"
        text = f"{note}\n{text}" if channel.from_end else f"{text}\n{note}"
    return LoadedChannel(channel.name, text, cut, max_chars, channel.size, channel.sha256)


def _empty_channel(channel: _Source) -> LoadedChannel:
    """An absent or blank channel."""
    return LoadedChannel(channel.name, size=channel.size, sha256=channel.sha256 if channel.size else None)


def _source_from_text(text: MemoryText) -> _Source:
    data = text.text.encode(errors="replace")
    return _Source(text.name, text.text, len(data), _digest(data), from_end=text.from_end)


def _read_guides(worktree: str, max_chars: int) -> Iterator[_Source]:
    """Read each file once: CLAUDE.md is often a link to AGENTS.md."""
    seen: set[str] = set()
    for name in GUIDE_FILES:
        found = _Source(name, "", 0, None)
        with suppress(OSError, Denied):
            real = resolve_inside(worktree, name)
            if real in seen:
                continue
            seen.add(real)
            whole, size = read_prefix(worktree, name, max(_MAX_HASHED_BYTES, max_chars * _MAX_CHAR_BYTES))
            data = whole[: max_chars * _MAX_CHAR_BYTES]
            text = getincrementaldecoder("utf-8-sig")("replace").decode(data, final=size <= len(data))
            found = _Source(name, text, size, _digest(whole) if size <= len(whole) else None, max(0, size - len(data)))
        yield found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
