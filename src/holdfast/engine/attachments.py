"""Attachments in the run's folder: `attachments/HASH/NAME`, written once, durable before a message names them."""

import hashlib
import os

from holdfast.core.messages.attachments import (
    FOLDER,
    MAX_ATTACHMENT_BYTES,
    Attachment,
    as_text,
    media_type_of,
    safe_name,
    size_text,
)
from holdfast.core.redaction.redaction import Redactor
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, HoldfastError, StorageFailed
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.contained import read_prefix
from holdfast.leaf.files.disk import make_directories, replace

_FAILPOINT = failpoint_pair("attachment.write")


def store_attachment(folder: str, name: str, data: bytes, media_type: str | None = None) -> Attachment:
    """Store a file in the run's folder. The same content under the same name is one file.

    Secrets of the sender's environment are removed from text, as from messages.
    """
    if not data:
        raise BadInput(f"{name} is empty; there is nothing to attach")
    if len(data) > MAX_ATTACHMENT_BYTES:
        limit = size_text(MAX_ATTACHMENT_BYTES)
        raise BadInput(f"{name} has {size_text(len(data))}; an attachment has at most {limit}. Name its path instead")
    text = as_text(data)
    if text is not None:
        data = Redactor.from_environment(os.environ).redact_text(text).encode()
    kept = safe_name(name)
    digest = hashlib.sha256(data).hexdigest()
    attachment = Attachment(digest, kept, media_type_of(kept, data, media_type), len(data))
    path = attachment_path(folder, attachment)
    try:
        make_directories(os.path.dirname(path))
        _FAILPOINT.before()
        replace(path, data)
        _FAILPOINT.after()
    except OSError as error:
        raise StorageFailed(f"cannot store {name}: {error.strerror}; the message was not sent") from error
    return attachment


def attachment_path(folder: str, attachment: Attachment) -> str:
    return os.path.join(folder, FOLDER, attachment.id, attachment.name)


async def share_attachment(home: Home, run_id: str, attachment: Attachment) -> None:
    """Put a stored file where the run's owner finds it on another machine; a folder of files is that place itself."""
    data = read_attachment_file(home.folder(run_id), attachment) if home.store_url is not None else None
    if data is not None:
        await home.store.save_file(run_id, _name(attachment), data)


async def has_attachment(home: Home, run_id: str, attachment: Attachment) -> bool:
    """True when the file is there; it is fetched from the store when another machine put it there."""
    folder = home.folder(run_id)
    if read_attachment_file(folder, attachment) is not None:
        return True
    if home.store_url is None or not attachment.is_valid:
        return False
    data = await home.store.load_file(run_id, _name(attachment))
    if data is None or hashlib.sha256(data).hexdigest() != attachment.id:
        return False
    path = attachment_path(folder, attachment)
    make_directories(os.path.dirname(path))
    _FAILPOINT.before()
    replace(path, data)
    _FAILPOINT.after()
    return True


def _name(attachment: Attachment) -> str:
    return attachment_path("", attachment)


def read_attachment_file(folder: str, attachment: Attachment) -> bytes | None:
    """Return the content; None when the file is missing or is not what was stored."""
    if not attachment.is_valid:
        return None
    try:
        data, _ = read_prefix(os.path.join(folder, FOLDER), f"{attachment.id}/{attachment.name}", MAX_ATTACHMENT_BYTES)
    except (OSError, HoldfastError):
        return None
    return data if hashlib.sha256(data).hexdigest() == attachment.id else None
