"""Reads the JSON lines of another tool, one at a time, however long the file is.

A damaged line is skipped and counted. A line beyond `MAX_LINE_BYTES` is skipped like one: memory stays bounded.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.leaf.files.yaml import read_yaml

MAX_LINE_BYTES = 32 * 1024 * 1024
MAX_FILE_BYTES = 16 * 1024 * 1024  # of a document that is read as a whole
MAX_AMOUNT = 2**53

_NUL = rb"\u0000"
_decode = msgspec.json.Decoder().decode
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class JsonLines:
    """The objects of a file, each with the byte where its line starts. `skipped` counts the lines that are none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.skipped = 0
        self.first_skipped: int | None = None

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, (position, raw) in enumerate(self._raw_lines(), start=1):
            found = _object(raw) if raw is not None else None
            if found is not None:
                yield position, found
            elif raw is None or raw.strip():
                self.skipped += 1
                self.first_skipped = self.first_skipped or number

    def finding(self) -> str | None:
        """What to tell people about skipped lines."""
        if not self.skipped:
            return None
        lines = "1 line is" if self.skipped == 1 else f"{self.skipped} lines are"
        return f"{os.path.basename(self.path)}: {lines} damaged and left out (the first is line {self.first_skipped})"

    def _raw_lines(self) -> Iterator[tuple[int, bytes | None]]:
        try:
            must_be_file(self.path)
            with open(self.path, "rb") as file:
                position = 0
                while raw := file.readline(MAX_LINE_BYTES):
                    start, is_whole = position, raw.endswith(b"\n")
                    position += len(raw)
                    while not raw.endswith(b"\n") and (rest := file.readline(MAX_LINE_BYTES)):
                        is_whole, raw = False, rest[-1:]
                        position += len(rest)
                    is_last = not is_whole and position - start < MAX_LINE_BYTES
                    yield start, raw if is_whole or is_last else None
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror}; adopt needs to read it") from None


def must_be_file(path: str) -> None:
    """Raise `BadInput` for a pipe, a socket or a device: a read of one may never end."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise BadInput(f"{path} is not a file; adopt reads only files")


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        found = _decode(raw)
        if not isinstance(found, dict):
            return None
        return _without_nul(found) if _NUL in raw else found  # no path, branch or argument can have one
    except _ERRORS:
        return None


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "")
        case dict():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case list():
            return [_without_nul(item) for item in value]
        case _:
            return value


def head_of(path: str, most: int = 20) -> list[dict[str, Any]]:
    """Return the first objects of a file; empty when it cannot be read."""
    found: list[dict[str, Any]] = []
    try:
        for _, item in JsonLines(path):
            found.append(item)
            if len(found) >= most:
                break
    except BadInput:
        return []
    return found


def read_object(path: str) -> dict[str, Any] | None:
    """Return the JSON object of a file; None when it is missing or damaged."""
    text = read_text(path)
    return _object(text.encode(errors="replace")) if text is not None else None


def read_text(path: str) -> str | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES).decode(errors="replace")
    except OSError:
        return None


def read_yaml_table(path: str, findings: list[str]) -> dict[str, Any]:
    """Return the mapping of a YAML file; empty when it is missing or damaged, which is added to the findings."""
    text = read_text(path)
    if text is None:
        return {}
    try:
        return table(read_yaml(text, path).value)
    except HoldfastError as error:
        findings.append(f"{os.path.basename(path)} cannot be read: {error}")
        return {}


def text_of(value: Any) -> str:
    """Return text as it is, and any other value as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def number(value: Any) -> int:
    return int(plausible_amount(value))


def plausible_amount(value: Any) -> float:
    """Return a count or a price; 0 for what is none, and for what no tool can have spent."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= MAX_AMOUNT else 0


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
