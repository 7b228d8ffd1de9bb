"""Bytes ↔ events. Reading is forgiving: what cannot be read is named and passed over, never a crash.

A line is read in two steps. Its head (who, when, what) is decoded at once; its data stays raw bytes until
somebody needs it, which for most of a long log is never. An unknown type, or one of a newer version, has
a head like any other: it is counted and shown, and nobody acts on it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core.events import TYPES
from holdfast.core.events.base import VERSION, Envelope, Event, Seq

_NO_DATA = msgspec.Raw(b"{}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Line(msgspec.Struct, frozen=True, gc=False):
    """The head of one event as it stands in a log, its data not yet decoded."""

    sid: str
    seq: Seq
    type: str
    v: int = VERSION
    ts: str | None = None
    feature: str | None = None
    agent: str | None = None
    data: msgspec.Raw = _NO_DATA


class Malformed(msgspec.Struct, frozen=True):
    """A line that is no event, and why."""

    reason: str


class Unfit(Exception):
    """An event of a known type whose data does not fit that type."""


_decode_head = msgspec.json.Decoder(Line)
_decode_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def encode(envelope: Envelope) -> bytes:
    """One line without its newline and without its chain link."""
    return _encode(envelope)


def parse(line: bytes) -> Line | Malformed | None:
    """One line of a log; None for a blank one."""
    text = line.removeprefix(_BYTE_ORDER_MARK).strip()
    if not text:
        return None
    try:
        return _decode_head.decode(text)
    except msgspec.ValidationError as error:
        return Malformed(f"not an event: {error}")
    except _UNREADABLE as error:
        return Malformed(_why_unreadable(text, error))


def is_json(line: bytes) -> bool:
    """True for a whole JSON value, event or not: no part of it was lost on the way to the disk."""
    try:
        _decode_any.decode(line)
    except _UNREADABLE:
        return False
    return True


def parse_lines(data: bytes) -> list[Line | Malformed | None]:
    """Every line of `data`, which ends with a newline, in order."""
    count = data.count(b"\n")
    # Inside a JSON value no newline stands between "}" and "{" (a comma would have to be there too), so when
    # every newline does, each one ends a line of whole objects; as many objects as lines is one a line.
    between = data.count(b"}\n{") + data.count(b"} \n{")
    if between == count - 1 and data.startswith(b"{") and data.endswith((b"}\n", b"} \n")):
        try:
            lines: list[Line | Malformed | None] = list(_decode_head.decode_lines(data))
        except _UNREADABLE:
            pass
        else:
            if len(lines) == count:
                return lines
    return [parse(line) for line in data.split(b"\n")[:-1]]


def _why_unreadable(text: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply to read"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if text.strip(b"\0") == b"":
        return "zero bytes, as an interrupted write leaves them"
    if text.startswith(b"{") and not text.endswith(b"}"):
        return "cut short: the JSON ends in the middle"
    return f"not JSON: {error}"


def data_of(line: Line) -> dict[str, Any]:
    """The data of a line as it was written, unknown fields included; empty when it is no object."""
    try:
        data = _decode_any.decode(line.data)
    except _UNREADABLE:
        return {}
    return data if isinstance(data, dict) else {}


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class Codec:
    """Gives the data of a line its type, whichever version wrote it.

    `upcasters[type, v]` turns the data of that type from version `v` into version `v + 1`. They are never
    deleted: a log written by the first release still loads in the last.
    """

    def __init__(
        self,
        types: Mapping[str, type[Event]] = TYPES,
        version: int = VERSION,
        upcasters: Mapping[tuple[str, int], Upcaster] | None = None,
    ) -> None:
        self.version = version
        self._decoders = {name: msgspec.json.Decoder(kind) for name, kind in types.items()}
        self._types = types
        self._upcasters = upcasters or {}

    def event(self, line: Line) -> Event | None:
        """The typed event; None when its type, or its version, is not known here."""
        decoder = self._decoders.get(line.type)
        if decoder is None or line.v > self.version:
            return None
        data: bytes | memoryview = line.data if line.data != b"null" else _NO_DATA
        try:
            if line.v == self.version:
                return decoder.decode(data)
            return msgspec.convert(self._upcast(line, _decode_any.decode(data)), self._types[line.type])
        except _UNREADABLE as error:
            raise Unfit(f"data does not fit {line.type}: {error}") from None

    def _upcast(self, line: Line, data: Any) -> Any:
        for version in range(max(line.v, 0), self.version):
            step = self._upcasters.get((line.type, version))
            if step is not None:
                data = step(data)
        return data


CODEC = Codec()
