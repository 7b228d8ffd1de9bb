"""Variants of one kind: a few of them are tried by `make test`, all of them by `make torture`."""

from collections.abc import Iterable

import pytest


def first(*values: object, also: int = 0) -> list[object]:
    """For `parametrize`: the first value, and as many more as `also` says, in every suite; the rest in the long one."""
    short = 1 + also
    return [*values[:short], *(_long(value) for value in values[short:])]


def every(step: int, values: Iterable[object], offset: int = 0) -> list[object]:
    """For `parametrize`: each value of that step in every suite; those between in the long one."""
    return [value if number % step == offset else _long(value) for number, value in enumerate(values)]


def _long(value: object) -> object:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.torture)
