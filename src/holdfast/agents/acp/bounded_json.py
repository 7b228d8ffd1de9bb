"""JSON of an agent, as it goes into the log: long texts are shortened in the middle, and say how much is left out.

A frame of an agent may have 64 MB. One result of a tool must not take more of the log than a long conversation.
"""

import msgspec

from holdfast.core.events.base import JSON_NULL
from holdfast.core.text.cut import cut_middle

MAX_TEXT_CHARS = 1024 * 1024  # of one text: as much as is kept of a terminal's output
MAX_JSON_BYTES = 4 * MAX_TEXT_CHARS  # of all of it; what is longer has no form that a reader could use


def bounded_json(value: object) -> msgspec.Raw:
    if value is None:
        return JSON_NULL
    encoded = msgspec.json.encode(value)
    if len(encoded) <= MAX_TEXT_CHARS:
        return msgspec.Raw(encoded)
    encoded = msgspec.json.encode(_shortened(value))
    if len(encoded) <= MAX_JSON_BYTES:
        return msgspec.Raw(encoded)
    return msgspec.Raw(msgspec.json.encode(cut_middle(encoded.decode(), MAX_TEXT_CHARS)))


def _shortened(value: object) -> object:
    """Nesting is bounded: the transport refuses messages that are nested deeply."""
    match value:
        case str():
            return cut_middle(value, MAX_TEXT_CHARS)
        case dict():
            return {name: _shortened(part) for name, part in value.items()}
        case list():
            return [_shortened(part) for part in value]
        case _:
            return value
