"""Files that go with a message: how they are named, and the form in which an agent gets each of them.

The protocol lets every agent take text and links. Images, audio and embedded text go only to an agent that says that it
takes them; any other gets a link, and the path in the text.
"""

import re
from collections.abc import Collection
from enum import StrEnum

import msgspec

MAX_ATTACHMENT_BYTES = 10 * 1024 * 1024
MAX_ATTACHMENTS = 20  # of one message
MAX_EMBEDDED_BYTES = 256 * 1024  # a longer text is sent as a link
FOLDER = "attachments"  # in the run's folder

IMAGE, AUDIO, EMBEDDED = "image", "audio", "embedded_context"  # what an agent may take, beside text and links

_MAX_NAME_CHARS = 100
_UNKNOWN_TYPE = "application/octet-stream"
_ID = re.compile(r"[0-9a-f]{64}")
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+_-]{0,100}")
_MENTION = re.compile(r"(?<!\S)@(\S+)")
_PUNCTUATION = ".,;:!?)]}'\""
_KB, _MB = 1000, 1_000_000
_TYPES = {
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **{kind: f"image/{kind}" for kind in ("png", "gif", "webp", "bmp", "tiff")},
    "svg": "image/svg+xml",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "json": "application/json",
    "md": "text/markdown",
    **{kind: f"text/{kind}" for kind in ("html", "css", "csv", "xml")},
}


class Attachment(msgspec.Struct, frozen=True):
    """A file of a message, kept in the run's folder. `id` is the SHA-256 of its content."""

    id: str
    name: str
    media_type: str
    size: int

    @property
    def is_valid(self) -> bool:
        """Whether it names a file in the folder of attachments: any program may write to an inbox."""
        return _ID.fullmatch(self.id) is not None and self.name == safe_name(self.name) and self.size >= 0


class AttachmentForm(StrEnum):
    """How an agent got a file."""

    IMAGE = "image"
    AUDIO = "audio"
    EMBEDDED = "embedded"
    LINK = "link"
    MISSING = "missing"  # it was not in the run's folder any more


def safe_name(name: str) -> str:
    """The last part of a path, as a name that any file system takes and that starts no option and hides no file."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    kept = "".join(char if char.isalnum() or char in "._-" else "_" for char in last).lstrip(".-")
    stem, dot, extension = kept[-_MAX_NAME_CHARS:].lstrip(".-").rpartition(".")
    return f"{stem}{dot}{extension}".encode(errors="replace").decode().replace("?", "_") or "file"


def media_type_of(name: str, data: bytes, given: str | None = None) -> str:
    """The media type: the given one if it is valid, else by the name, else by the content."""
    wanted = (given or "").partition(";")[0].strip().casefold()
    if _MEDIA_TYPE.fullmatch(wanted):
        return wanted
    known = _TYPES.get(name.rpartition(".")[2].casefold())
    if known is not None:
        return known
    return _UNKNOWN_TYPE if as_text(data) is None else "text/plain"


def as_text(data: bytes) -> str | None:
    """The content as text; None when it is none."""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def choose_form(media_type: str, data: bytes, accepts: Collection[str]) -> AttachmentForm:
    if media_type.startswith("image/") and IMAGE in accepts and not media_type.endswith("+xml"):
        return AttachmentForm.IMAGE
    if media_type.startswith("audio/") and AUDIO in accepts:
        return AttachmentForm.AUDIO
    is_short_text = len(data) <= MAX_EMBEDDED_BYTES and as_text(data) is not None
    return AttachmentForm.EMBEDDED if EMBEDDED in accepts and is_short_text else AttachmentForm.LINK


def mentioned_names(text: str) -> list[str]:
    """What `@NAME` in a message may mean, in order: the name as written, and without the punctuation after it."""
    found: dict[str, None] = {}
    for word in _MENTION.findall(text):
        found |= dict.fromkeys(name for name in (word, word.rstrip(_PUNCTUATION)) if name)
    return [*found]


def size_text(size: int) -> str:
    if size < _KB:
        return f"{size} bytes"
    return f"{size / _KB:.0f} kB" if size < _MB else f"{size / _MB:.1f} MB"


def attachment_line(name: str, media_type: str, size: int, path: str) -> str:
    """The line about an attachment in a prompt. It stays in the history, so a new session finds the file, too."""
    return f"Attached file: {name} ({media_type}, {size_text(size)}), stored at {path}"
