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
from holdfast.leaf.failpoints import around
from holdfast.store.files.disk import make_directories, replace

_CRASH = around("artifact.write")
_OTHER = {"json": "yaml", "yaml": "json"}


class How(StrEnum):
    """What a file is, compared to the log."""

    MISSING = "missing"
    OLDER = "older"
    EDITED = "edited"


class Difference(NamedTuple):
    """A file that is not as the log has it. `aside` is where what it says goes, when it is somebody's own."""

    how: How
    file: str  # below the run's folder
    text: bytes  # of the log
    found: bytes = b""
    aside: str | None = None


def differences(folder: str, state: RunState) -> list[Difference]:
    """Nothing is touched."""
    return [one for one in (_compared(folder, *each) for each in _documents(state)) if one is not None]


def write_artifacts(folder: str, state: RunState) -> None:
    """Every document as the log has it."""
    for one in differences(folder, state):
        path = os.path.join(folder, one.file)
        make_directories(os.path.dirname(path))
        _CRASH.before()
        if one.aside is not None:
            replace(os.path.join(folder, one.aside), one.found)
        replace(path, one.text)
        _CRASH.after()
    _forget_other_forms(folder, state)


def _forget_other_forms(folder: str, state: RunState) -> None:
    """Data that was JSON and is YAML now is not to be read as what it was. Somebody's own file is left alone."""
    for stem, ending, document in _documents(state):
        other = os.path.join(folder, f"{stem}.{_OTHER.get(ending)}")
        old = _content(other)
        if old is not None and fingerprint(old) in document.earlier:
            os.unlink(other)


def told(run_id: str, one: Difference, *, plans: bool) -> str:
    """For whoever resumes: what was found, what is done about it, and how an edit of theirs is taken up."""
    match one.how:
        case How.MISSING:
            return f"{one.file} was not there; it is written again from the log"
        case How.OLDER:
            return f"{one.file} was older than the log; it is written again from it"
        case How.EDITED:
            change = " --change" if plans else ""
            return (
                f"{one.file} was edited after it was handed in; the log decides, so it is written again as it was. "
                f"The edit is kept as {one.aside}; `holdfast send {run_id}{change} - < FILE` has it taken up"
            )


def _documents(state: RunState) -> Iterator[tuple[str, str, Document]]:
    for phase, progress in state.phases.items():
        for name, document in progress.documents.items():
            stem, _, ending = document_path(state, phase, name, document).rpartition(".")
            yield stem, ending, document


def _compared(folder: str, stem: str, ending: str, document: Document) -> Difference | None:
    file, text = f"{stem}.{ending}", document.text.encode(errors="replace")
    found = _content(os.path.join(folder, file))
    if found == text:
        return None
    if found is None:
        return Difference(How.MISSING, file, text)
    if fingerprint(found) in document.earlier:
        return Difference(How.OLDER, file, text, found)
    return Difference(How.EDITED, file, text, found, f"{stem}.edited-{fingerprint(found, 6)}.{ending}")


def _content(path: str) -> bytes | None:
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return None
