"""Variants of one kind: one of them is tried by `make test`, all of them by `make torture`."""

import pytest


def first(*values: object, also: int = 0) -> list[object]:
    """For `parametrize`: the first value, and as many more as `also` says, in every suite; the rest in the long one."""
    short = 1 + also
    return [*values[:short], *(pytest.param(value, marks=pytest.mark.torture) for value in values[short:])]
