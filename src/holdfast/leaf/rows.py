"""`NamedTuple` for modules that must start fast: mypy sees `typing.NamedTuple`, Python a small class of our own.

Importing `typing` takes about as long as starting Python; importing `collections` is a good part of that.
"""

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:

    class _Maker(type):
        """Turns the annotations of a class into fields of a tuple. Defaults and methods are not supported."""

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

        _make = classmethod(tuple.__new__)  # called thousands of times, so it runs no Python code

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"


__all__ = ["NamedTuple"]
