"""Errors as answers: the same words as on the command line, with a status."""

import re
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from holdfast.app.text.screen import printable
from holdfast.leaf.errors import (
    AlreadyAnswered,
    BadInput,
    DecisionNeeded,
    Denied,
    HoldfastError,
    NoSuchRun,
    NothingToDo,
    PositionMismatch,
    RunExists,
    RunFenced,
    RunOwned,
    StorageFailed,
    TimedOut,
)

_STATUSES: tuple[tuple[type[HoldfastError], int], ...] = (  # the first that fits
    (NoSuchRun, 404),
    (NothingToDo, 409),
    (RunOwned, 409),
    (RunFenced, 409),
    (AlreadyAnswered, 409),
    (PositionMismatch, 409),
    (DecisionNeeded, 409),
    (Denied, 403),
    (RunExists, 409),
    (BadInput, 422),
    (TimedOut, 504),
    (StorageFailed, 503),
)
_REASONS: tuple[tuple[type[HoldfastError], str], ...] = (
    (PositionMismatch, "moved"),
    (RunOwned, "owned"),
    (AlreadyAnswered, "answered"),
    (DecisionNeeded, "decision"),
    (NothingToDo, "nothing"),
)


class NotFound(BadInput):
    """What a path names is not there."""


class Problem(msgspec.Struct, frozen=True):
    """What went wrong. `hint` is the part of the message that says what to do; `reason` is a word for programs."""

    error: str
    hint: str | None
    exit_code: int
    reason: str | None = None


def problem_response(error: HoldfastError) -> Response:
    return answer(status_of(error), _problem(error))


def answer(status: int, problem: Problem) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(problem), status, headers, media_type="application/json")


def storage_problem(error: OSError) -> Response:
    return problem_response(StorageFailed.from_os_error(error))


def status_of(error: HoldfastError) -> int:
    if isinstance(error, NotFound):
        return int(HTTPStatus.NOT_FOUND)
    by_class = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    if by_class is not None:
        return by_class
    by_code = {2: 422, 3: 504, 4: 409, 5: 409, 6: 409}  # a runner of its own ended with this code
    return by_code.get(error.exit_code, int(HTTPStatus.CONFLICT))


def _problem(error: HoldfastError) -> Problem:
    text = "\n".join(printable(line) for line in error.lines)
    what, _, hint = text.partition("; ")
    reason = next((word for kind, word in _REASONS if isinstance(error, kind)), None)
    return Problem(what, re.sub(r"\s+", " ", hint) or None, error.exit_code, reason)
