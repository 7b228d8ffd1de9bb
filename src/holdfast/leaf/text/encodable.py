"""Text that can be encoded as UTF-8. A file name need not be text, and JSON may hold half of a surrogate pair."""

from typing import Any

import msgspec


def make_encodable(value: Any) -> Any:
    r"""The same data, with escapes for invalid characters in its strings: the byte of a file name becomes `\xe9`."""
    match value:
        case str():
            return _escape_surrogates(value)
        case dict():
            return {make_encodable(key): make_encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [make_encodable(item) for item in value]
        case msgspec.Struct():
            fields = {name: make_encodable(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
    return value


def _escape_surrogates(text: str) -> str:
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # not from a file name: half of a surrogate pair
        return text.encode(errors="backslashreplace").decode()
