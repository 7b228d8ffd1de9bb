"""What is in a bundle: a compressed tar file whose first member says what follows, with sizes and digests."""

import re

import msgspec

from holdfast.core.work.names import run_refs
from holdfast.leaf.errors import BadInput
from holdfast.leaf.ids import is_run_id
from holdfast.store.base import Position

FORMAT = 1
MANIFEST, REPOSITORY = "manifest.json", "repo.bundle"
LOG_FILE, INBOX_FILE = "events.jsonl", "inbox.jsonl"
SINGLE_FILES = (INBOX_FILE, "plan.json", "proposed-learnings.md")
FOLDERS = ("artifacts", "attachments", "ledger")
MAX_MANIFEST_BYTES = 64 * 1024 * 1024

_OID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_BAD_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|[./]$")  # git refuses these names, too


class BundledFile(msgspec.Struct, frozen=True):
    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`position` and `chain` are the end of the log. `base` is the commit where the run's branch began."""

    format: int
    run: str
    made: str
    by: str
    position: Position
    chain: str
    base: str | None
    refs: dict[str, str]
    files: tuple[BundledFile, ...]

    def check(self) -> None:
        """Raise `BadInput` unless every name in it belongs to this run: the file may be from anybody."""
        if self.format != FORMAT:
            raise BadInput(f"the bundle has format {self.format}, and this Holdfast reads {FORMAT}; upgrade Holdfast")
        if not is_run_id(self.run):
            raise BadInput(f"the bundle names the run {self.run!r}, which is no id of a run; nothing was imported")
        prefixes = run_refs(self.run)
        for ref, oid in self.refs.items():
            is_own = any(ref == prefix or ref.startswith(f"{prefix}/") for prefix in prefixes)
            if not is_own or _BAD_REF.search(ref) is not None or _OID.fullmatch(oid) is None:
                raise BadInput(f"the bundle has the ref {ref!r}, which is not one of its run; nothing was imported")
        names = [file.name for file in self.files]
        for name in names:
            if not is_allowed(name):
                raise BadInput(f"the bundle has the file {name!r}, which is not one of a run; nothing was imported")
        if len(set(names)) < len(names) or LOG_FILE not in names:
            raise BadInput("the bundle has a file twice, or no log; nothing was imported")


def is_allowed(name: str) -> bool:
    """Whether a file has its place in a run's folder, and cannot lead out of it."""
    if name in (LOG_FILE, REPOSITORY, *SINGLE_FILES):
        return True
    parts = name.split("/")
    return len(parts) > 1 and parts[0] in FOLDERS and all(map(_is_plain, parts))


def _is_plain(part: str) -> bool:
    return bool(part) and part not in (".", "..") and not set(part) & {"\0", "\\"} and part.isprintable()
