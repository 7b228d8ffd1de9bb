"""What is remembered for every agent of a run, loaded anew for each prompt: bounded, and each piece with its hash.

Guides are the project's own, from the task's worktree: they are as much under the agents' hands as any file there, so a
link that leads out of it is not followed. The rest is what the run itself can tell.
"""

import hashlib
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from holdfast.agents.confined import inside, read_start
from holdfast.core.settings import MemoryCaps
from holdfast.leaf.errors import Denied

GUIDES = ("AGENTS.md", "CLAUDE.md")
PROGRESS = "progress"
_WIDEST = 4  # bytes of a character, at most


class Loaded(NamedTuple):
    """One channel. What was cut is said in its text; its characters and its hash are those of that text."""

    name: str
    text: str
    characters: int
    cut: bool
    sha256: str  # the first 16 digits


class _Found(NamedTuple):
    name: str
    text: str
    more: int = 0  # bytes that were not even read
    from_end: bool = False


def load(worktree: str, caps: MemoryCaps, progress: str = "", others: Mapping[str, str] | None = None) -> list[Loaded]:
    """The channels that say something, within both caps; whichever comes first has the room first.

    Of guides and others (a plan, an overview) the beginning is kept; of progress the end.
    """
    told = [_Found(name, text) for name, text in (others or {}).items()]
    found = [*_guides(worktree, caps.channel), *told, _Found(PROGRESS, progress, from_end=True)]
    room = caps.total
    loaded: list[Loaded] = []
    for channel in found:
        if channel.text.strip():
            kept = min(room, caps.channel, len(channel.text))
            room -= kept
            loaded.append(_kept(channel, kept))
    return loaded


def _kept(channel: _Found, most: int) -> Loaded:
    text, left = channel.text, len(channel.text) - most
    cut = left > 0 or channel.more > 0
    if left > 0:
        text = text[left:] if channel.from_end else text[:most]
    if cut:
        rest = f"{left} characters" if not channel.more else f"{left} characters and {channel.more} bytes"
        note = f"[… {rest} left out …]"
        text = f"{note}\n{text}" if channel.from_end else f"{text}\n{note}"
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return Loaded(channel.name, text, len(text), cut, digest)


def _guides(worktree: str, most: int) -> Iterator[_Found]:
    """Each file once: CLAUDE.md is often a link to AGENTS.md."""
    seen: set[str] = set()
    for name in GUIDES:
        with suppress(OSError, Denied):
            real = inside(worktree, name)
            if real not in seen:
                seen.add(real)
                data, size = read_start(worktree, name, most * _WIDEST)
                text = getincrementaldecoder("utf-8-sig")("replace").decode(data, final=size <= len(data))
                yield _Found(name, text, max(0, size - len(data)))
