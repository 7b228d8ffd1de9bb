"""Bytes ↔ events. Reading is tolerant: an unreadable line is reported and skipped, never a crash.

A line is read in two steps. Its head (who, when, what) is decoded at once; its data stays raw bytes until a reader
needs it, which for most of a long log is never. Events of an unknown type or a newer version have a head too: they are
counted and shown, but have no effect.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core.events import TYPES
from holdfast.core.events.base import JSON_NULL, VERSION, Envelope, Event, Seq

_NO_DATA = msgspec.Raw(b"{}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_UPCAST_ERRORS = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
_HEAD_FIELDS = ("sid", "seq", "type", "v", "ts", "feature", "agent")
_SCALARS = (str, int, float)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class Line(msgspec.Struct, frozen=True, gc=False):
    """One event of a log with its head decoded and its data still raw."""

    sid: str
    seq: Seq
    type: str
    v: int = VERSION
    ts: str | None = None
    data: msgspec.Raw = _NO_DATA
    feature: str | None = None
    agent: str | None = None


class Malformed(msgspec.Struct, frozen=True):
    """A line that is not an event, and why."""

    reason: str


class InvalidEventData(Exception):
    """The data of an event does not fit its type. `partial_event` has the valid fields, if all required ones are valid.

    An invalid flag counts as false: then a checkpoint is not resumable, and an error is not resolved.
    """

    def __init__(self, reason: str, partial_event: Event | None = None) -> None:
        super().__init__(reason)
        self.partial_event = partial_event


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
        return _parse_odd_head(text) or Malformed(f"not an event: {error}")
    except DECODE_ERRORS as error:
        repaired = _replace_half_characters(text)
        return parse(repaired) if repaired != text else Malformed(_why_unreadable(text, error))


def _parse_odd_head(text: bytes) -> Line | None:
    """A line with valid `sid`, `seq` and `type`, although another field of its head is invalid."""
    try:
        fields = _decode_fields(text)
        head = {name: _decode_any.decode(fields[name]) for name in _HEAD_FIELDS if name in fields}
        line = msgspec.convert({name: head[name] for name in ("sid", "seq", "type")}, Line)
    except (*DECODE_ERRORS, LookupError):
        return None
    version, data = head.get("v"), fields.get("data", _NO_DATA)
    texts = {name: str(head[name]) for name in ("ts", "feature", "agent") if isinstance(head.get(name), _SCALARS)}
    return msgspec.structs.replace(line, v=version if type(version) is int else VERSION, data=data, **texts)


def is_json(line: bytes) -> bool:
    """Whether the line is a complete JSON value, so that no part was lost on the way to the disk."""
    try:
        _decode_any.decode(line)
    except DECODE_ERRORS:
        repaired = _replace_half_characters(line)
        return repaired != line and is_json(repaired)
    return True


def parse_lines(data: bytes) -> list[Line | Malformed | None]:
    """Every line of `data`, which ends with a newline, in order."""
    lines = data.split(b"\n")
    lines.pop()
    try:
        return list(map(_decode_line.decode, lines))
    except DECODE_ERRORS:  # one of them is invalid: parse each
        return list(map(parse, lines))


def _replace_half_characters(text: bytes) -> bytes:
    """Replace escaped halves of surrogate pairs, as programs write them when they cut text: they are not UTF-8."""
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
    """The data of a line as written, with unknown fields; empty when it is not an object."""
    try:
        data = _decode_any.decode(line.data)
    except DECODE_ERRORS:
        return {}
    return data if isinstance(data, dict) else {}


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class Codec:
    """Decodes the data of a line, of any version.

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
        self._decoders: dict[str, msgspec.json.Decoder[Event]] = {}  # each made when first used: no log has all types
        self._versions = {name: max(version, kind.envelope_version) for name, kind in types.items()}
        self._types = types
        self._with_raw = frozenset(name for name, kind in types.items() if msgspec.Raw in kind.__annotations__.values())
        self._upcasters = upcasters or {}

    def is_newer(self, line: Line) -> bool:
        """Whether a newer Holdfast wrote the line, and this one does not know what it means."""
        return line.v > self._versions.get(line.type, self.version)

    def event(self, line: Line) -> Event | None:
        """The typed event; None when its type or version is unknown."""
        decoder = self._decoders.get(line.type) or self._new_decoder(line.type)
        if decoder is None or self.is_newer(line):
            return None
        data: bytes | msgspec.Raw = line.data if line.data != JSON_NULL else _NO_DATA
        if line.v < self.version:
            data = self._upcast(line, data)
        try:
            event = decoder.decode(data)
            if line.type in self._with_raw:
                bytes(data).decode()  # raw parts are not checked otherwise, and a flipped bit may make invalid UTF-8
            return event
        except DECODE_ERRORS as error:
            left = _partial_event(self._types[line.type], data)
            raise InvalidEventData(f"data does not fit {line.type}: {error}", left) from None

    def _new_decoder(self, type_: str) -> msgspec.json.Decoder[Event] | None:
        kind = self._types.get(type_)
        if kind is None:
            return None
        decoder = self._decoders[type_] = msgspec.json.Decoder(kind)
        return decoder

    def _upcast(self, line: Line, data: bytes | msgspec.Raw) -> bytes:
        try:
            found = _decode_any.decode(data)
        except DECODE_ERRORS as error:
            raise InvalidEventData(f"data does not fit {line.type}: {error}") from None
        for version in range(max(line.v, 0), self.version):
            step = self._upcasters.get((line.type, version))
            if step is not None:
                try:
                    found = step(found)
                except _UPCAST_ERRORS as error:
                    raise InvalidEventData(f"data does not fit {line.type} v{version}: {error!r}") from error
        try:
            return _encode(found)
        except _UPCAST_ERRORS as error:
            raise InvalidEventData(f"data does not fit {line.type}: {error}") from error


def _partial_event(kind: type[Event], data: bytes | msgspec.Raw) -> Event | None:
    """The event with its valid fields; None when a required field is invalid."""
    try:
        found = _decode_any.decode(data)
        fields = msgspec.structs.fields(kind)
        given = {f.encode_name: (f.type, found[f.encode_name]) for f in fields if f.encode_name in found}
        fitting = {name: value for name, (type_, value) in given.items() if _fits(value, type_)}
        flags = {name: False for name, (type_, _) in given.items() if type_ is bool and name not in fitting}
        return msgspec.convert({**fitting, **flags}, kind)
    except (*DECODE_ERRORS, TypeError):
        return None


def _fits(value: Any, type_: Any) -> bool:
    try:
        msgspec.convert(value, type_)
    except DECODE_ERRORS:
        return False
    return True


CODEC = Codec()
