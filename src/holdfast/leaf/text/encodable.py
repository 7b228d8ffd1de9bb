"""Text that can be written as UTF-8. A file name need not be text, and JSON may hold half of a character."""

from typing import Any

import msgspec


def encodable(value: Any) -> Any:
    r"""The same data; in its strings an escape stands for what is no character: the byte of a name as `\xe9`."""
    match value:
        case str():
            return _escaped(value)
        case dict():
            return {encodable(key): encodable(each) for key, each in value.items()}
        case list() | tuple():
            return [encodable(each) for each in value]
        case msgspec.Struct():
            fields = {name: encodable(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
    return value


def _escaped(text: str) -> str:
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # not from a file name
        return text.encode(errors="backslashreplace").decode()
