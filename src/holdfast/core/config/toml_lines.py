"""The line of every key of a TOML document, which the standard library's reader does not tell.

Only for documents that it read: what is wrong in a document has been found before anybody asks for lines.
"""

import re
import tomllib
from bisect import bisect_right

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"""(?:(?:^|\.)[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*)+""")
_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?""""{0,2}' r"|'''.*?''''{0,2}" r'|"(?:[^"\\]|\\.)*"' r"|'[^']*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]+")  # numbers, dates, true and false


def lines_of(text: str) -> dict[Path, int]:
    """By path, the line on which it is first named. An element of a list is named by its number."""
    return _Scan(text).lines()


def spelled(path: Path) -> str:
    """As TOML writes it, with elements by their number: `agents."my agent".secrets[0]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def path_of(name: str) -> tuple[str, ...]:
    """The path that a dotted name stands for, as TOML reads it. `ValueError` when it is no name."""
    try:
        found = tomllib.loads(f"{name} = 0" if _NAME.fullmatch(name) else "")
    except tomllib.TOMLDecodeError:  # an escape that there is not
        found = {}
    if not found:
        raise ValueError(f"{name!r} is no name of a setting")
    path: list[str] = []
    while isinstance(found, dict):
        ((key, found),) = found.items()
        path.append(key)
    return tuple(path)


def _key(part: str) -> str:
    if _BARE.fullmatch(part):
        return part
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(one if one.isprintable() else f"\\U{ord(one):08X}" for one in escaped) + '"'


class _Scan:
    """Walks over the document once. `_at` is where it stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._found: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}  # of the lists that `[[…]]` makes

    def lines(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_SPACE)
        while self._at < len(self._text):
            table = self._header() if self._text[self._at] == "[" else self._pair(table)
            self._skip(_SPACE)
        return self._found

    def _header(self) -> Path:
        line = self._line()
        listed = self._text.startswith("[[", self._at)
        self._at += 2 if listed else 1
        table: Path = ()
        *above, last = self._name()
        for part in above:
            table = self._newest((*table, part))
            self._found.setdefault(table, line)
        table = (*table, last)
        if listed:
            self._found.setdefault(table, line)
            self._lengths[table] = self._lengths.get(table, 0) + 1
            table = self._newest(table)
        self._found[table] = line  # its own header, though one of a table in it may have come before
        self._at += 2 if listed else 1
        return table

    def _newest(self, path: Path) -> Path:
        """Of a list of tables, its last one: that is what a later header speaks of."""
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _pair(self, table: Path) -> Path:
        """A key and its value; the table that it stands in goes on."""
        line = self._line()
        path = table
        for part in self._name():
            path = (*path, part)
            self._found.setdefault(path, line)
        self._at += 1  # the =
        self._value(path)
        return table

    def _name(self) -> list[str]:
        """The parts of a dotted key, up to what follows it."""
        parts = [self._part()]
        while self._text[self._at] == ".":
            self._at += 1
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        self._skip(_BLANK)
        quoted = self._text[self._at] in "\"'"
        word = self._take(_TEXT if quoted else _BARE)
        self._skip(_BLANK)
        return next(iter(tomllib.loads(f"{word} = 0"))) if quoted else word

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        match self._text[self._at]:
            case "[":
                self._elements(path)
            case "{":
                self._inline(path)
            case '"' | "'":
                self._take(_TEXT)
            case _:
                self._take(_PLAIN)

    def _elements(self, path: Path) -> None:
        number = 0
        self._open()
        while self._text[self._at] != "]":
            self._found[*path, number] = self._line()
            self._value((*path, number))
            self._next()
            number += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._open()
        while self._text[self._at] != "}":
            self._pair(path)
            self._next()
        self._at += 1

    def _open(self) -> None:
        self._at += 1
        self._skip(_SPACE)

    def _next(self) -> None:
        self._skip(_SPACE)
        if self._text[self._at] == ",":
            self._open()

    def _skip(self, what: re.Pattern[str]) -> None:
        self._take(what)

    def _take(self, what: re.Pattern[str]) -> str:
        match = what.match(self._text, self._at)
        assert match is not None, f"not TOML at {self._at}"
        self._at = match.end()
        return match[0]

    def _line(self) -> int:
        return bisect_right(self._starts, self._at)
