"""The documents of phases as files, held against the log. The log decides; what a person wrote there is never lost.

A file is as the log has it, older than that, not there, or somebody's own. What is somebody's own is set aside under
a name that follows from its content: to do so twice, or to be cut off and do it again, makes no difference.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.state import Document, RunState
from holdfast.core.summary.gates import document_path
from holdfast.core.text.fingerprint import fingerprint
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace

_FAILPOINT = failpoint_pair("artifact.write")
_OTHER_EXTENSION = {"json": "yaml", "yaml": "json"}


class ArtifactStatus(StrEnum):
    """What a file is, compared to the log."""

    MISSING = "missing"
    OLDER = "older"
    EDITED = "edited"


class Difference(NamedTuple):
    """A file that is not as the log has it. `aside` is where what it says goes, when it is somebody's own."""

    status: ArtifactStatus
    file: str  # below the run's folder
    expected: bytes  # of the log
    actual: bytes = b""
    set_aside_path: str | None = None


def find_differences(folder: str, state: RunState) -> list[Difference]:
    """Nothing is touched."""
    return [one for one in (_compare(folder, *each) for each in _documents(state)) if one is not None]


def write_artifacts(folder: str, state: RunState) -> None:
    """Every document as the log has it."""
    for one in find_differences(folder, state):
        path = os.path.join(folder, one.file)
        make_directories(os.path.dirname(path))
        _FAILPOINT.before()
        if one.set_aside_path is not None:
            replace(os.path.join(folder, one.set_aside_path), one.actual)
        replace(path, one.expected)
        _FAILPOINT.after()
    _delete_other_formats(folder, state)


def _delete_other_formats(folder: str, state: RunState) -> None:
    """Data that was JSON and is YAML now is not to be read as what it was. Somebody's own file is left alone."""
    for stem, ending, document in _documents(state):
        other = os.path.join(folder, f"{stem}.{_OTHER_EXTENSION.get(ending)}")
        old = _read_or_none(other)
        if old is not None and fingerprint(old) in document.earlier:
            os.unlink(other)


def describe_difference(run_id: str, difference: Difference, *, has_planner: bool) -> str:
    """For whoever resumes: what was found, what is done about it, and how an edit of theirs is taken up."""
    match difference.status:
        case ArtifactStatus.MISSING:
            return f"{difference.file} was not there; it is written again from the log"
        case ArtifactStatus.OLDER:
            return f"{difference.file} was older than the log; it is written again from it"
        case ArtifactStatus.EDITED:
            change = " --change" if has_planner else ""
            return (
                f"{difference.file} was edited after it was handed in; the log decides, "
                "so it is written again as it was. "
                f"The edit is kept as {difference.set_aside_path}; `holdfast send "
                f"{run_id}{change} - < FILE` has it taken up"
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
