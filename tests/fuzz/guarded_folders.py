"""Where an agent works that says anything: a folder of its own, and beside it what is none of its business.

Only what it asked for in a whole request may change its folder. What is no request changes nothing, and beside the
folder nothing changes at all.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

WORK, BESIDE = b"@WORK@", b"@BESIDE@"  # in what is said: the two folders
COMMAND = "touch made"  # all that is ever run: what chance makes of it is not
MADE = "made"

_DEEP, _DEEPEST = 200, 10_000  # brackets

_FIELDS: dict[str, dict[str, type]] = {
    "fs/read_text_file": {"path": str},
    "fs/write_text_file": {"path": str, "content": str},
    "session/request_permission": {"toolCall": dict, "options": list},
    "terminal/create": {"command": str},
    "terminal/kill": {"terminalId": str},
    "terminal/output": {"terminalId": str},
    "terminal/release": {"terminalId": str},
    "terminal/wait_for_exit": {"terminalId": str},
}


class Request(NamedTuple):
    """Something that wants an answer.

    `whole` when nothing is missing from it, and nothing of the wrong type. `deep` when it is nested so deep that it
    may be taken for no message at all.
    """

    id: Any
    method: str
    params: Any
    whole: bool
    deep: bool


def requests(said: bytes) -> Iterator[Request]:
    for line in said.split(b"\n")[:-1]:
        frame = _decoded(line)
        if isinstance(frame, dict) and _wants_an_answer(frame):
            deep = line.count(b"[") + line.count(b"{") > _DEEP
            yield Request(frame["id"], frame["method"], frame.get("params"), _is_whole(frame), deep)


def _wants_an_answer(frame: dict[str, Any]) -> bool:
    """It is no answer itself, and has an id by which one is found."""
    named = isinstance(frame.get("method"), str) and type(frame.get("id")) in (int, str)
    return named and not {"result", "error"} & frame.keys()


def _decoded(line: bytes) -> Any:
    """Though it be nested deeper than the one who hears it can follow."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEEPEST)
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    finally:
        sys.setrecursionlimit(usual)


def _is_whole(frame: dict[str, Any]) -> bool:
    fields, params = _FIELDS.get(frame["method"]), frame.get("params")
    if fields is None or not isinstance(params, dict):
        return False
    return all(isinstance(params.get(name), kind) for name, kind in {"sessionId": str, **fields}.items())


class GuardedFolders:
    """Two folders that lead into each other by links, and are as they were made until somebody changes them."""

    def __init__(self, folder: str) -> None:
        self.root = os.path.realpath(folder)
        self.work = os.path.join(self.root, "work")
        self.beside = os.path.join(self.root, "beside")
        for path in (self.work, self.beside):
            os.makedirs(os.path.join(path, "folder"))
            os.mkdir(os.path.join(path, ".git"))
            for name in ("kept", "folder/kept", ".git/config"):
                with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                    file.write(f"as it was in {name}\n")
        os.symlink(self.beside, os.path.join(self.work, "out"))
        os.symlink(os.path.join(self.beside, "new"), os.path.join(self.work, "leak"))
        self._before = _snapshot(self.root)

    def placed(self, said: bytes) -> bytes:
        """With the names of these folders."""
        return said.replace(WORK, os.fsencode(self.work)).replace(BESIDE, os.fsencode(self.beside))

    def must_be_as_asked(self, said: bytes) -> set[str]:
        """Whatever changed, by its path from the root: each stands in a whole request, as it is now."""
        asked = list(self._asked(said))
        folders = {(folder, _FOLDER) for path, _ in asked for folder in _above(path)} - self._before.items()
        now = _snapshot(self.root)
        changed = {path for path in now.keys() | self._before.keys() if now.get(path) != self._before.get(path)}
        for path in changed:
            assert (path, now.get(path)) in {*asked, *folders}, f"nobody asked for {path} as {now.get(path)!r}"
        return {os.path.relpath(path, self.root) for path in changed}

    def _asked(self, said: bytes) -> Iterator[tuple[str, bytes]]:
        """The files that may be there by what was said, with their contents."""
        for request in requests(said):
            if not request.whole:
                continue
            match request.method:
                case "fs/write_text_file":
                    path, content = self._inside(request.params["path"]), request.params["content"]
                case "terminal/create":
                    cwd = request.params.get("cwd")
                    path, content = self._inside(os.path.join(cwd if isinstance(cwd, str) else "", MADE)), ""
                case _:
                    continue
            if path is not None:
                yield path, content.encode()

    def _inside(self, path: str) -> str | None:
        """Where it leads, when that is in the folder, and not git's."""
        if "\0" in path:
            return None
        real = os.path.realpath(os.path.join(self.work, path))
        parts = os.path.relpath(real, self.work).split(os.sep)
        return None if ".." in parts[:1] or ".git" in parts else real


_FOLDER = b"/"


def _above(path: str) -> Iterator[str]:
    while path != (path := os.path.dirname(path)):
        yield path


def _snapshot(root: str) -> dict[str, bytes]:
    """By path, what a file holds or where a link leads; a folder's is a slash."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[path] = b"-> " + os.fsencode(os.readlink(path))
            elif os.path.isdir(path):
                found[path] = _FOLDER
            else:
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found


def must_be_answers(said: bytes, heard: bytes, noted: int) -> None:
    """Each request has one answer, and what is no whole request is refused. So many lines were taken for no message."""
    answers = [frame for line in heard.splitlines() if "method" not in (frame := msgspec.json.decode(line))]
    asked = list(requests(said))
    missing = _ids(one.id for one in asked) - _ids(answer["id"] for answer in answers)
    assert missing.total() <= min(noted, sum(one.deep for one in asked)), f"no answer to {missing}"
    surplus = _ids(answer["id"] for answer in answers) - _ids(one.id for one in asked)
    assert not surplus, f"answers to nothing: {surplus}"
    granted = [answer for answer in answers if "error" not in answer]
    wrongly = _ids(answer["id"] for answer in granted) - _ids(one.id for one in asked if one.whole)
    assert not wrongly, f"granted what is no request: {wrongly}"
    offered = [option for one in asked if one.whole for option in _offered(one)]
    for answer in answers:
        if "error" in answer:
            assert isinstance(answer["error"]["code"], int), answer
            assert isinstance(answer["error"]["message"], str), answer
        else:
            chosen = (answer["result"] or {}).get("outcome", {}).get("optionId")
            assert chosen is None or chosen in offered, chosen


def _offered(request: Request) -> Iterator[object]:
    if request.method == "session/request_permission":
        yield from (option.get("optionId") for option in request.params["options"] if isinstance(option, dict))


def _ids(ids: Iterable[object]) -> Counter[str]:
    """What is none is counted by its type: it may be too deep to be written."""
    return Counter(repr(one) if isinstance(one, str | int | float | None) else type(one).__name__ for one in ids)
