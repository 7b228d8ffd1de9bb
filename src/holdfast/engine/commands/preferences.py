"""Preferences that agents propose for later runs, and the user's decision. No agent sees one before it is accepted.

A proposal is identified by its role and text, whichever run it came from: a refused one is not proposed again. An
accepted one is a line in a file of the user; the decision is stored in the home.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.core.text.fingerprint import fingerprint
from holdfast.engine.home import Home
from holdfast.engine.prompts.templates import user_folders_at
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import replace
from holdfast.leaf.files.exclusive import lock_folder
from holdfast.leaf.files.supplied import read_repository_file
from holdfast.store.fold import fold_log
from holdfast.workflows.prompt_templates import file_name

KIND = "preferences"
_MAX_FILE_BYTES = 1024 * 1024
_FAILPOINT = failpoint_pair("preference.decide")
_FAILPOINT_MARK = failpoint_pair("preference.mark")


class PreferenceStatus(StrEnum):
    """The state of a proposal."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REFUSED = "refused"


class Preference(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: str
    text: str
    said: PreferenceStatus = PreferenceStatus.PROPOSED
    file: str | None = None  # the file that holds it, once accepted
    runs: tuple[str, ...] = ()


class PreferenceDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A stored decision on a proposal."""

    role: str
    text: str
    said: PreferenceStatus
    file: str | None = None


class PreferencePaths(NamedTuple):
    home: Home
    checkout: str

    @property
    def decisions_folder(self) -> str:
        return os.path.join(self.home, KIND)


async def list_preferences(paths: PreferencePaths, run_name: str | None = None) -> list[Preference]:
    """Return all proposals, of any run or of one, with their decisions."""
    run_ids = paths.home.run_ids() if run_name is None else [paths.home.find_run(run_name)]
    found: dict[str, Preference] = {}
    for run_id in run_ids:
        for role, text in await _read_proposals(paths.home, run_id):
            preference = Preference(id=fingerprint(f"{role}\n{text}".encode(errors="replace"), 8), role=role, text=text)
            known = found.get(preference.id) or _with_status(paths, preference)
            found[preference.id] = msgspec.structs.replace(known, runs=(*known.runs, run_id))
    return list(found.values())


async def accept_preferences(paths: PreferencePaths, ids: Iterable[str], *, in_checkout: bool) -> list[Preference]:
    """Accept proposals: agents of that role get them from now on.

    In every run, or if `here` only in this checkout's.
    """
    repository, own = user_folders_at(paths.checkout, KIND)
    folder = repository if in_checkout else own
    return [_accept(paths, preference, folder) for preference in await _find_preferences(paths, ids)]


async def refuse_preferences(paths: PreferencePaths, ids: Iterable[str]) -> list[Preference]:
    preferences = await _find_preferences(paths, ids)
    for preference in preferences:
        if preference.said is PreferenceStatus.ACCEPTED:
            raise BadInput(
                f"{preference.id} is accepted already; take its line out of {preference.file} to withdraw it"
            )
    return [_record_decision(paths, preference, PreferenceStatus.REFUSED, None) for preference in preferences]


async def _read_proposals(home: Home, run_id: str) -> list[tuple[str, str]]:
    """Return a run's proposals. A log that cannot be read has none; `holdfast ls` reports it."""
    with suppress(HoldfastError):
        store = home.store
        state = (await fold_log(store.log(run_id), await store.snapshot(run_id))).fold.state
        return [(role, " ".join(text.split())) for role, texts in state.preferences.items() for text in texts]
    return []


async def _find_preferences(paths: PreferencePaths, ids: Iterable[str]) -> list[Preference]:
    known = await list_preferences(paths)
    return [_find_preference(known, name) for name in ids]


def _find_preference(known: list[Preference], prefix: str) -> Preference:
    matches = [preference for preference in known if prefix and preference.id.startswith(prefix)]
    if len(matches) != 1:
        ambiguous = f"{prefix!r} could be any of {', '.join(preference.id for preference in matches)}; type more of it"
        none = f"no preference {prefix!r} was proposed; `holdfast preferences ls` lists them"
        raise BadInput(ambiguous if matches else none)
    return matches[0]


def _accept(paths: PreferencePaths, preference: Preference, folder: str) -> Preference:
    """Write the line first, then the decision. If interrupted in between, the line shows that it was accepted."""
    file = os.path.join(folder, f"{file_name(preference.role)}.md")
    with lock_folder(folder):
        lines = _read_lines(file)
        if _file_line(preference) not in lines:
            _FAILPOINT.before()
            replace(file, "".join(f"{line}\n" for line in [*lines, _file_line(preference)]).encode(errors="replace"))
            _FAILPOINT.after()
    return _record_decision(paths, preference, PreferenceStatus.ACCEPTED, file)


def _record_decision(
    paths: PreferencePaths, preference: Preference, status: PreferenceStatus, file: str | None
) -> Preference:
    mark = PreferenceDecision(role=preference.role, text=preference.text, said=status, file=file)
    with lock_folder(paths.decisions_folder):
        _FAILPOINT_MARK.before()
        replace(os.path.join(paths.decisions_folder, preference.id), msgspec.json.encode(mark) + b"\n")
        _FAILPOINT_MARK.after()
    return msgspec.structs.replace(preference, said=status, file=file)


def _with_status(paths: PreferencePaths, preference: Preference) -> Preference:
    """A line in a file counts as accepted, whatever the stored decision says.

    Once removed, the proposal is open again.
    """
    mark = _read_decision(paths, preference)
    files = [
        os.path.join(folder, f"{file_name(preference.role)}.md") for folder in user_folders_at(paths.checkout, KIND)
    ]
    for path in ([mark.file] if mark is not None and mark.file is not None else []) + files:
        if _file_line(preference) in _read_lines(path):
            return msgspec.structs.replace(preference, said=PreferenceStatus.ACCEPTED, file=path)
    refused = mark is not None and mark.said is PreferenceStatus.REFUSED
    return msgspec.structs.replace(preference, said=PreferenceStatus.REFUSED) if refused else preference


def _read_decision(paths: PreferencePaths, preference: Preference) -> PreferenceDecision | None:
    with (
        suppress(FileNotFoundError, msgspec.MsgspecError),
        open(os.path.join(paths.decisions_folder, preference.id), "rb") as file,
    ):
        return msgspec.json.decode(file.read(), type=PreferenceDecision)
    return None


def _file_line(preference: Preference) -> str:
    return f"- {preference.text}"


def _read_lines(path: str) -> list[str]:
    try:
        content = read_repository_file(path, _MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise BadInput(f"{path}: larger than {_MAX_FILE_BYTES} bytes; preferences are some lines")
        return content.decode().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8; preferences are Markdown, a line each") from None
