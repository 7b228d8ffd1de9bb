"""`NamedTuple` for modules that must start fast: mypy sees the one of `typing`, Python a plain tuple with names.

Importing `typing` takes about as long as starting Python, and `collections` is a good part of that.
"""

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        """Makes of a class's annotations the fields of a tuple; a row has no defaults and no methods of its own."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            names = {field: property(itemgetter(index)) for index, field in enumerate(fields)}
            return super().__new__(cls, name, bases or (tuple,), {**body, **names, "_fields": fields, "__slots__": ()})

    class NamedTuple(metaclass=_Maker):
        def __new__(cls, *values: object, **named: object) -> tuple:
            row = tuple.__new__(cls, (*values, *(named.pop(field) for field in cls._fields[len(values) :])))
            if named or len(row) != len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
            return row

        _make = classmethod(tuple.__new__)  # by the thousand: no call of Python's in between

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"


__all__ = ["NamedTuple"]
