"""What agents propose for later runs, and what a person says to it. Nothing is told to anybody before that.

A proposal is known by its role and its words, whichever runs it came from: what was refused once is not proposed
again. An accepted one is a line in a file of the user's; the word itself is a mark at home, beside it.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.core.text.fingerprint import fingerprint
from holdfast.engine.naming import find_run, run_ids
from holdfast.engine.prompts.templates import folders_at
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.leaf.failpoints import around
from holdfast.leaf.files.supplied import read_supplied
from holdfast.store.files.disk import replace
from holdfast.store.files.exclusive import alone_in
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from holdfast.workflows.prompt_templates import file_name

KIND = "preferences"
_LARGEST = 1024 * 1024  # bytes
_CRASH = around("preference.decide")
_CRASH_IN_MARKING = around("preference.mark")


class Said(StrEnum):
    """What became of a proposal."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REFUSED = "refused"


class Preference(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: str
    text: str
    said: Said = Said.PROPOSED
    file: str | None = None  # that holds it, once it is accepted
    runs: tuple[str, ...] = ()


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A person's word, as it is kept."""

    role: str
    text: str
    said: Said
    file: str | None = None


class Places(NamedTuple):
    home: str
    checkout: str

    @property
    def marks(self) -> str:
        return os.path.join(self.home, KIND)


async def preferences(places: Places, run: str | None = None) -> list[Preference]:
    """All that were proposed, by any run or by one, with what was said to each."""
    wanted = run_ids(places.home) if run is None else [find_run(places.home, run)]
    found: dict[str, Preference] = {}
    for run_id in wanted:
        for role, text in await _proposed(places.home, run_id):
            one = Preference(id=fingerprint(f"{role}\n{text}".encode(errors="replace"), 8), role=role, text=text)
            known = found.get(one.id) or _with_word(places, one)
            found[one.id] = msgspec.structs.replace(known, runs=(*known.runs, run_id))
    return list(found.values())


async def accept(places: Places, names: Iterable[str], *, here: bool) -> list[Preference]:
    """From now on the agents of that role are told, in every run; or in those of this checkout, when it is `here`."""
    repository, own = folders_at(places.checkout, KIND)
    folder = repository if here else own
    return [_accepted(places, one, folder) for one in await _named(places, names)]


async def refuse(places: Places, names: Iterable[str]) -> list[Preference]:
    wanted = await _named(places, names)
    for one in wanted:
        if one.said is Said.ACCEPTED:
            raise BadInput(f"{one.id} is accepted already; take its line out of {one.file} to have it told no more")
    return [_marked(places, one, Said.REFUSED, None) for one in wanted]


async def _proposed(home: str, run_id: str) -> list[tuple[str, str]]:
    """A log that cannot be read proposes nothing; `holdfast ls` tells of it."""
    with suppress(HoldfastError):
        store = FileStore(home)
        state = (await fold_log(store.log(run_id), await store.snapshot(run_id))).fold.state
        return [(role, " ".join(text.split())) for role, texts in state.preferences.items() for text in texts]
    return []


async def _named(places: Places, names: Iterable[str]) -> list[Preference]:
    known = await preferences(places)
    return [_one(known, name) for name in names]


def _one(known: list[Preference], name: str) -> Preference:
    matches = [one for one in known if name and one.id.startswith(name)]
    if len(matches) != 1:
        many = f"{name!r} could be any of {', '.join(one.id for one in matches)}; type more of it"
        none = f"no preference {name!r} was proposed; `holdfast preferences ls` lists them"
        raise BadInput(many if matches else none)
    return matches[0]


def _accepted(places: Places, one: Preference, folder: str) -> Preference:
    """First the line, then the word for it: cut off between the two, it is accepted, and known by the line."""
    file = os.path.join(folder, f"{file_name(one.role)}.md")
    with alone_in(folder):
        lines = _lines(file)
        if _line(one) not in lines:
            _CRASH.before()
            replace(file, "".join(f"{line}\n" for line in [*lines, _line(one)]).encode(errors="replace"))
            _CRASH.after()
    return _marked(places, one, Said.ACCEPTED, file)


def _marked(places: Places, one: Preference, said: Said, file: str | None) -> Preference:
    mark = Mark(role=one.role, text=one.text, said=said, file=file)
    with alone_in(places.marks):
        _CRASH_IN_MARKING.before()
        replace(os.path.join(places.marks, one.id), msgspec.json.encode(mark) + b"\n")
        _CRASH_IN_MARKING.after()
    return msgspec.structs.replace(one, said=said, file=file)


def _with_word(places: Places, one: Preference) -> Preference:
    """What is in a file is told to agents, and so accepted, whatever the mark says; taken out, it is open again."""
    mark = _mark(places, one)
    files = [os.path.join(folder, f"{file_name(one.role)}.md") for folder in folders_at(places.checkout, KIND)]
    for path in ([mark.file] if mark is not None and mark.file is not None else []) + files:
        if _line(one) in _lines(path):
            return msgspec.structs.replace(one, said=Said.ACCEPTED, file=path)
    refused = mark is not None and mark.said is Said.REFUSED
    return msgspec.structs.replace(one, said=Said.REFUSED) if refused else one


def _mark(places: Places, one: Preference) -> Mark | None:
    with suppress(FileNotFoundError, msgspec.MsgspecError), open(os.path.join(places.marks, one.id), "rb") as file:
        return msgspec.json.decode(file.read(), type=Mark)
    return None


def _line(one: Preference) -> str:
    return f"- {one.text}"


def _lines(path: str) -> list[str]:
    try:
        content = read_supplied(path, _LARGEST + 1)
        if len(content) > _LARGEST:
            raise BadInput(f"{path}: larger than {_LARGEST} bytes; preferences are some lines")
        return content.decode().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8; preferences are Markdown, a line each") from None
