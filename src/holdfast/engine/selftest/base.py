"""What a check says. Each is a function, and what it rests on can be replaced, so that it is seen to say no."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from holdfast.leaf.errors import HoldfastError


class SelftestVerdict(StrEnum):
    HOLDS = "holds"
    DOUBT = "doubt"  # it cannot be seen from here, or holds less than one may think
    FAILS = "fails"


class SelftestFinding(NamedTuple):
    """What was measured; and what to do, when it is not as it should be."""

    verdict: SelftestVerdict
    measured: str
    advice: str | None = None


def holds(measured: str) -> SelftestFinding:
    return SelftestFinding(SelftestVerdict.HOLDS, measured)


def doubt(measured: str, advice: str) -> SelftestFinding:
    return SelftestFinding(SelftestVerdict.DOUBT, measured, advice)


def fails(measured: str, advice: str) -> SelftestFinding:
    return SelftestFinding(SelftestVerdict.FAILS, measured, advice)


class CheckFailed(HoldfastError):
    """A promise that was seen not to be kept, in the middle of a check."""


@contextmanager
def as_check_failure(description: str) -> Iterator[None]:
    """Turn the system's refusal into a broken promise."""
    try:
        yield
    except OSError as error:
        raise CheckFailed(f"{description}: {error.strerror}") from error
