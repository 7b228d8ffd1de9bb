"""Variants of one kind: a few of them are tried by `make test`, all of them by `make torture`.

A tuple holds the values of several names of `parametrize`. Where the one value is a tuple itself, wrap it in another.
"""

from collections.abc import Iterable

import pytest


def first(*values: object, also: int = 0) -> list[object]:
    """The first value, and as many more as `also` says, in every suite; the rest in the long one."""
    return [_variant(value, is_long=number > also) for number, value in enumerate(values)]


def every(step: int, values: Iterable[object], offset: int = 0) -> list[object]:
    """Each value of that step in every suite; those between in the long one."""
    return [_variant(value, is_long=number % step != offset) for number, value in enumerate(values)]


def _variant(value: object, *, is_long: bool) -> object:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=[pytest.mark.torture] if is_long else [])
