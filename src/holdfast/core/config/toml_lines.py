"""The line of every key of a TOML document, which the standard library's parser does not report.

Only for documents that `tomllib` parsed without errors.
"""

import re
from bisect import bisect_right

KeyPath = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BARE_PATH = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_NAME = re.compile(r"""(?:(?:^|\.)[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*)+""")
_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?""""{0,2}' r"|'''.*?''''{0,2}" r'|"(?:[^"\\]|\\.)*"' r"|'[^']*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]+")  # numbers, dates, true and false


def key_lines(text: str) -> dict[KeyPath, int]:
    """The first line of each path. Elements of a list have their index as key."""
    return _Scanner(text).lines()


def format_toml_path(path: KeyPath) -> str:
    """A path as TOML writes it, with indexes for elements: `agents."my agent".secrets[0]`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_format_key(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def parse_key(name: str) -> tuple[str, ...]:
    """The path of a dotted TOML key. `ValueError` when it is not one."""
    if _BARE_PATH.fullmatch(name):
        return tuple(name.split("."))
    import tomllib  # noqa: PLC0415 - slow to import, and few names are quoted

    try:
        found = tomllib.loads(f"{name} = 0" if _NAME.fullmatch(name) else "")
    except tomllib.TOMLDecodeError:  # an unknown escape
        found = {}
    if not found:
        raise ValueError(f"{name!r} is not the name of a setting")
    path: list[str] = []
    while isinstance(found, dict):
        ((key, found),) = found.items()
        path.append(key)
    return tuple(path)


def _format_key(part: str) -> str:
    if _BARE.fullmatch(part):
        return part
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'


class _Scanner:
    """Scans the document once. `_position` is the current offset."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._lines: dict[KeyPath, int] = {}
        self._lengths: dict[KeyPath, int] = {}  # of lists that `[[…]]` defines

    def lines(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip(_SPACE)
        while self._position < len(self._text):
            table = self._header() if self._text[self._position] == "[" else self._key_value(table)
            self._skip(_SPACE)
        return self._lines

    def _header(self) -> KeyPath:
        line = self._line()
        is_array = self._text.startswith("[[", self._position)
        self._position += 2 if is_array else 1
        table: KeyPath = ()
        *above, last = self._dotted_key()
        for part in above:
            table = self._newest((*table, part))
            self._lines.setdefault(table, line)
        table = (*table, last)
        if is_array:
            self._lines.setdefault(table, line)
            self._lengths[table] = self._lengths.get(table, 0) + 1
            table = self._newest(table)
        self._lines[table] = line  # its own header, even if the header of a subtable came before
        self._position += 2 if is_array else 1
        return table

    def _newest(self, path: KeyPath) -> KeyPath:
        """The last table of a list of tables, which a later header refers to; any other path unchanged."""
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _key_value(self, table: KeyPath) -> KeyPath:
        """Scan a key and its value. Returns the table, which stays the current one."""
        line = self._line()
        path = table
        for part in self._dotted_key():
            path = (*path, part)
            self._lines.setdefault(path, line)
        self._position += 1  # the =
        self._value(path)
        return table

    def _dotted_key(self) -> list[str]:
        """The parts of a dotted key."""
        parts = [self._key_part()]
        while self._text[self._position] == ".":
            self._position += 1
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        self._skip(_BLANK)
        quoted = self._text[self._position] in "\"'"
        word = self._match(_TEXT if quoted else _BARE)
        self._skip(_BLANK)
        if not quoted:
            return word
        import tomllib  # noqa: PLC0415 - slow to import

        return next(iter(tomllib.loads(f"{word} = 0")))

    def _value(self, path: KeyPath) -> None:
        self._skip(_BLANK)
        match self._text[self._position]:
            case "[":
                self._elements(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._match(_TEXT)
            case _:
                self._match(_PLAIN)

    def _elements(self, path: KeyPath) -> None:
        number = 0
        self._skip_opening()
        while self._text[self._position] != "]":
            self._lines[*path, number] = self._line()
            self._value((*path, number))
            self._skip_comma()
            number += 1
        self._position += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._skip_opening()
        while self._text[self._position] != "}":
            self._key_value(path)
            self._skip_comma()
        self._position += 1

    def _skip_opening(self) -> None:
        self._position += 1
        self._skip(_SPACE)

    def _skip_comma(self) -> None:
        self._skip(_SPACE)
        if self._text[self._position] == ",":
            self._skip_opening()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._match(pattern)

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        assert match is not None, f"not TOML at {self._position}"
        self._position = match.end()
        return match[0]

    def _line(self) -> int:
        return bisect_right(self._line_starts, self._position)
