"""`NamedTuple` for modules that must start fast: mypy sees the one of `typing`, Python a plain `namedtuple`.

Importing `typing` takes about as long as starting Python.
"""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            made = namedtuple(name, body["__annotations__"])  # noqa: PYI024 - this is what the module is for
            made.__doc__ = body.get("__doc__")
            return made

    class NamedTuple(metaclass=_Maker):
        """Fields by annotation; no defaults and no methods."""


__all__ = ["NamedTuple"]
