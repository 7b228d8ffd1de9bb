"""Bytes ↔ events. Reading is forgiving: what cannot be read is named and passed over, never a crash.

A line is read in two steps. Its head (who, when, what) is decoded at once; its data stays raw bytes until
somebody needs it, which for most of a long log is never. An unknown type, or one of a newer version, has
a head like any other: it is counted and shown, and nobody acts on it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core.events import TYPES
from holdfast.core.events.base import NOTHING, VERSION, Envelope, Event, Seq

_NO_DATA = msgspec.Raw(b"{}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_CANNOT_UPCAST = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
_HEAD = ("sid", "seq", "type", "v", "ts", "feature", "agent")
_WORD = (str, int, float)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class Line(msgspec.Struct, frozen=True, gc=False):
    """The head of one event as it stands in a log, its data not yet decoded."""

    sid: str
    seq: Seq
    type: str
    v: int = VERSION
    ts: str | None = None
    data: msgspec.Raw = _NO_DATA
    feature: str | None = None
    agent: str | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A line that is no event, and why."""

    reason: str


class Unfit(Exception):
    """An event of a known type whose data does not fit that type. `without` is what is left of it, if enough is.

    Enough is every field that the type cannot do without. A flag that cannot be read is taken for false: a
    checkpoint is then no place to resume from, and an error not resolved.
    """

    def __init__(self, reason: str, without: Event | None = None) -> None:
        super().__init__(reason)
        self.without = without


_decode_line = msgspec.json.Decoder(Line)
_decode_any = msgspec.json.Decoder()
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

encode: Callable[[Envelope], bytes] = _encode  # a line without its newline and without its chain link


def parse(line: bytes) -> Line | Malformed | None:
    """One line of a log; None for a blank one."""
    text = line.removeprefix(_BYTE_ORDER_MARK).strip()
    if not text:
        return None
    try:
        return _decode_line.decode(text)
    except msgspec.ValidationError as error:
        return _odd_head(text) or Malformed(f"not an event: {error}")
    except UNREADABLE as error:
        mended = _without_half_characters(text)
        return parse(mended) if mended != text else Malformed(_why_unreadable(text, error))


def _odd_head(text: bytes) -> Line | None:
    """A line that says who, which and what, though another field of its head is not what it should be."""
    try:
        fields = _decode_fields(text)
        head = {name: _decode_any.decode(fields[name]) for name in _HEAD if name in fields}
        line = msgspec.convert({name: head[name] for name in ("sid", "seq", "type")}, Line)
    except (*UNREADABLE, LookupError):
        return None
    version, data = head.get("v"), fields.get("data", _NO_DATA)
    words = {name: str(head[name]) for name in ("ts", "feature", "agent") if isinstance(head.get(name), _WORD)}
    return msgspec.structs.replace(line, v=version if type(version) is int else VERSION, data=data, **words)


def is_json(line: bytes) -> bool:
    """True for a whole JSON value, event or not: no part of it was lost on the way to the disk."""
    try:
        _decode_any.decode(line)
    except UNREADABLE:
        mended = _without_half_characters(line)
        return mended != line and is_json(mended)
    return True


def parse_lines(data: bytes) -> list[Line | Malformed | None]:
    """Every line of `data`, which ends with a newline, in order."""
    lines = data.split(b"\n")
    lines.pop()
    try:
        return list(map(_decode_line.decode, lines))
    except UNREADABLE:  # a line among them is odd: look at each
        return list(map(parse, lines))


def _without_half_characters(text: bytes) -> bytes:
    """Programs that cut text in the middle of a character write half of it, escaped: JSON allows that, UTF-8 not."""
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], text)


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
    except UNREADABLE:
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
        self._with_raw = frozenset(name for name, kind in types.items() if msgspec.Raw in kind.__annotations__.values())
        self._upcasters = upcasters or {}

    def event(self, line: Line) -> Event | None:
        """The typed event; None when its type, or its version, is not known here."""
        decoder = self._decoders.get(line.type)
        if decoder is None or line.v > self.version:
            return None
        data: bytes | msgspec.Raw = line.data if line.data != NOTHING else _NO_DATA
        if line.v != self.version:
            data = self._upcast(line, data)
        try:
            event = decoder.decode(data)
            if line.type in self._with_raw:
                bytes(data).decode()  # what is raw nobody has looked into, and a flipped bit may be no text
            return event
        except UNREADABLE as error:
            left = _what_fits(self._types[line.type], data)
            raise Unfit(f"data does not fit {line.type}: {error}", left) from None

    def _upcast(self, line: Line, data: bytes | msgspec.Raw) -> bytes:
        try:
            found = _decode_any.decode(data)
        except UNREADABLE as error:
            raise Unfit(f"data does not fit {line.type}: {error}") from None
        for version in range(max(line.v, 0), self.version):
            step = self._upcasters.get((line.type, version))
            if step is not None:
                try:
                    found = step(found)
                except _CANNOT_UPCAST as error:
                    raise Unfit(f"data does not fit {line.type} v{version}: {error!r}") from error
        try:
            return _encode(found)
        except _CANNOT_UPCAST as error:
            raise Unfit(f"data does not fit {line.type}: {error}") from error


def _what_fits(kind: type[Event], data: bytes | msgspec.Raw) -> Event | None:
    """The event made of those fields that fit; None when one is missing that it cannot do without."""
    try:
        found = _decode_any.decode(data)
        fields = msgspec.structs.fields(kind)
        given = {f.encode_name: (f.type, found[f.encode_name]) for f in fields if f.encode_name in found}
        fitting = {name: value for name, (type_, value) in given.items() if _fits(value, type_)}
        flags = {name: False for name, (type_, _) in given.items() if type_ is bool and name not in fitting}
        return msgspec.convert({**fitting, **flags}, kind)
    except (*UNREADABLE, TypeError):
        return None


def _fits(value: Any, type_: Any) -> bool:
    try:
        msgspec.convert(value, type_)
    except UNREADABLE:
        return False
    return True


CODEC = Codec()
