"""What goes with the text of a prompt: attachments, and files of the worktree that the text names with `@`."""

import asyncio
import base64
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.agents.acp.messages import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextResource,
)
from holdfast.core.events import Event
from holdfast.core.events.conversation import FilesSent, SentFile
from holdfast.core.messages.attachments import (
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENTS,
    Attachment,
    AttachmentForm,
    as_text,
    attachment_line,
    choose_form,
    media_type_of,
)
from holdfast.engine.attachments import attachment_path, read_attachment_file
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.files.contained import read_prefix, resolve_inside


class PromptFiles(NamedTuple):
    """The files of one prompt: stored ones, and names that may be files of the worktree."""

    stored: tuple[Attachment, ...] = ()
    mentioned: tuple[str, ...] = ()


class PromptContent(NamedTuple):
    """The files as content blocks, what the log records of them, and the lines about them in the text."""

    blocks: tuple[ContentBlock, ...] = ()
    sent: tuple[SentFile, ...] = ()
    lines: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        return "\n\n".join((text, *self.lines))

    def events(self, conversation_id: str, turn: str) -> list[Event]:
        sent = [*self.sent]
        return [FilesSent(conversation=conversation_id, turn=turn, sent=sent)] if sent else []


NO_FILES = PromptFiles()


class _File(NamedTuple):
    name: str
    media_type: str
    path: str
    data: bytes
    size: int


async def read_content(folder: str, cwd: str, files: PromptFiles, accepts: Collection[str]) -> PromptContent:
    """Read the files of a prompt. `folder` is the run's, `cwd` the worktree; `accepts` what the agent takes."""
    if files == NO_FILES:
        return PromptContent()
    return await asyncio.to_thread(_read_content, folder, cwd, files, accepts)


def _read_content(folder: str, cwd: str, files: PromptFiles, accepts: Collection[str]) -> PromptContent:
    blocks: list[ContentBlock] = []
    sent: list[SentFile] = []
    lines: list[str] = []
    for attachment in files.stored:
        path = attachment_path(folder, attachment) if attachment.is_valid else attachment.name
        lines.append(attachment_line(attachment.name, attachment.media_type, attachment.size, path))
        data = read_attachment_file(folder, attachment)
        if data is None:
            sent.append(_sent(attachment.name, attachment.media_type, attachment.size, AttachmentForm.MISSING))
            lines[-1] += " (the file is missing)"
            continue
        file = _File(attachment.name, attachment.media_type, path, data, attachment.size)
        form, block = _block(file, accepts)
        blocks.append(block)
        sent.append(_sent(file.name, file.media_type, file.size, form, attachment.id))
    for file in _mentioned_files(cwd, files.mentioned):
        form, block = _block(file, accepts)
        blocks.append(block)
        sent.append(_sent(file.name, file.media_type, file.size, form))
    return PromptContent(tuple(blocks), tuple(sent), tuple(lines))


def _sent(name: str, media_type: str, size: int, form: AttachmentForm, stored_id: str | None = None) -> SentFile:
    return SentFile(name=name, media_type=media_type, size=size, form=form, id=stored_id)


def _mentioned_files(cwd: str, names: Sequence[str]) -> Iterator[_File]:
    """Yield each regular file of the worktree that is named. Most words with an `@` name none."""
    seen: set[str] = set()
    for name in names:
        if len(seen) >= MAX_ATTACHMENTS:
            return
        with suppress(OSError, HoldfastError):
            path = resolve_inside(cwd, name)
            if path in seen or not os.path.isfile(path):
                continue
            data, size = read_prefix(cwd, name, MAX_ATTACHMENT_BYTES)
            seen.add(path)
            yield _File(name, media_type_of(path, data), path, data, size)


def _block(file: _File, accepts: Collection[str]) -> tuple[AttachmentForm, ContentBlock]:
    """Return the file in the best form that the agent takes. What was not read whole is a link."""
    form = choose_form(file.media_type, file.data, accepts) if file.size == len(file.data) else AttachmentForm.LINK
    from pathlib import Path  # noqa: PLC0415 - slow to import; few prompts have files

    uri, media_type = Path(file.path).as_uri(), file.media_type
    match form:
        case AttachmentForm.IMAGE:
            return form, ImageContent(data=base64.b64encode(file.data).decode(), mime_type=media_type, uri=uri)
        case AttachmentForm.AUDIO:
            return form, AudioContent(data=base64.b64encode(file.data).decode(), mime_type=media_type)
        case AttachmentForm.EMBEDDED:
            resource = TextResource(uri=uri, mime_type=media_type, text=as_text(file.data) or "")
            return form, EmbeddedResource(resource=resource)
    return AttachmentForm.LINK, ResourceLink(name=file.name, uri=uri, mime_type=media_type, size=file.size)
