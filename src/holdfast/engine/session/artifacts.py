"""The documents of phases as files, compared with the log. The log decides, and a person's edits are never lost.

A file is as the log has it, an older version, missing, or edited by a person. An edited file is moved aside under a
name derived from its content, so repeating this after an interruption changes nothing.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.phase_state import Document
from holdfast.core.state import RunState
from holdfast.core.summary.gates import document_path
from holdfast.core.text.fingerprint import fingerprint
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace

_FAILPOINT = failpoint_pair("artifact.write")
_OTHER_EXTENSION = {"json": "yaml", "yaml": "json"}


class ArtifactStatus(StrEnum):
    """The state of a file, compared with the log."""

    MISSING = "missing"
    OLDER = "older"
    EDITED = "edited"


class Difference(NamedTuple):
    """A file that differs from the log. If a person edited it, `aside` is where its content is moved."""

    status: ArtifactStatus
    file: str  # below the run's folder
    expected: bytes  # of the log
    actual: bytes = b""
    set_aside_path: str | None = None


def find_differences(folder: str, state: RunState) -> list[Difference]:
    """Return the files that differ. Changes nothing."""
    return [
        difference for difference in (_compare(folder, *each) for each in _documents(state)) if difference is not None
    ]


def write_artifacts(folder: str, state: RunState) -> None:
    """Write every document as the log has it."""
    for difference in find_differences(folder, state):
        path = os.path.join(folder, difference.file)
        make_directories(os.path.dirname(path))
        _FAILPOINT.before()
        if difference.set_aside_path is not None:
            replace(os.path.join(folder, difference.set_aside_path), difference.actual)
        replace(path, difference.expected)
        _FAILPOINT.after()
    _delete_other_formats(folder, state)


def delete_abandoned(folder: str, before: RunState, after: RunState) -> None:
    """Delete the documents that a rewind took back, unless a person edited them.

    Left behind, they would be taken for edits of those that are written in their place.
    """
    kept = {f"{stem}.{ending}": document.text for stem, ending, document in _documents(after)}
    for stem, ending, document in _documents(before):
        file, text = f"{stem}.{ending}", document.text
        difference = _compare(folder, stem, ending, document)
        is_ours = difference is None or difference.status is ArtifactStatus.OLDER
        if is_ours and kept.get(file) != text:
            with suppress(OSError):
                os.unlink(os.path.join(folder, file))


def _delete_other_formats(folder: str, state: RunState) -> None:
    """Delete a document's older format, such as JSON for data that is YAML now. An edited file stays."""
    for stem, ending, document in _documents(state):
        other = os.path.join(folder, f"{stem}.{_OTHER_EXTENSION.get(ending)}")
        old = _read_or_none(other)
        if old is not None and fingerprint(old) in document.earlier:
            os.unlink(other)


def describe_difference(run_id: str, difference: Difference, *, has_planner: bool) -> str:
    """Explain to the user who resumes: what was found, what happens to it, and how to keep an edit."""
    match difference.status:
        case ArtifactStatus.MISSING:
            return f"{difference.file} was not there; it is written again from the log"
        case ArtifactStatus.OLDER:
            return f"{difference.file} was older than the log; it is written again from it"
        case ArtifactStatus.EDITED:
            change = " --change" if has_planner else ""
            return (
                f"{difference.file} was edited after it was handed in; the log decides, "
                "so the recorded version is written again. "
                f"The edit is kept as {difference.set_aside_path}; `holdfast send "
                f"{run_id}{change} - < FILE` hands it in"
            )


def _documents(state: RunState) -> Iterator[tuple[str, str, Document]]:
    for phase, progress in state.phases.items():
        for name, document in progress.documents.items():
            stem, _, ending = document_path(state, phase, name, document).rpartition(".")
            yield stem, ending, document


def _compare(folder: str, stem: str, extension: str, document: Document) -> Difference | None:
    file, text = f"{stem}.{extension}", document.text.encode(errors="replace")
    found = _read_or_none(os.path.join(folder, file))
    if found == text:
        return None
    if found is None:
        return Difference(ArtifactStatus.MISSING, file, text)
    if fingerprint(found) in document.earlier:
        return Difference(ArtifactStatus.OLDER, file, text, found)
    return Difference(ArtifactStatus.EDITED, file, text, found, f"{stem}.edited-{fingerprint(found, 6)}.{extension}")


def _read_or_none(path: str) -> bytes | None:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return None
