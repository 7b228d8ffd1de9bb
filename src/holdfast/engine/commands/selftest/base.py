"""What a check returns. Each check is a function whose dependencies can be replaced, so that tests can make it fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from holdfast.leaf.errors import HoldfastError


class SelftestVerdict(StrEnum):
    HOLDS = "holds"
    DOUBT = "doubt"  # cannot be determined from here, or holds less than expected
    FAILS = "fails"


class SelftestFinding(NamedTuple):
    """What a check measured, and what to do if it is not as required."""

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
    """A requirement that was observed to fail in the middle of a check."""


@contextmanager
def as_check_failure(description: str) -> Iterator[None]:
    """Turn an OSError into a failed check."""
    try:
        yield
    except OSError as error:
        raise CheckFailed(f"{description}: {error.strerror}") from error
