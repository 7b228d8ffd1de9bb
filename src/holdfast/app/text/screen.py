"""Text on a terminal: colour where the terminal supports it, and no control characters from a log."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

_DEFAULT_COLUMNS = 120  # if the terminal does not report its size

ANSI_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATUS_COLOURS = {
    "running": "cyan",
    "interrupted": "yellow",
    "quota": "yellow",
    "outage": "yellow",
    "day_budget": "yellow",
    "done": "green",
    "unreadable": "red",
    "COMPLETE": "green",
    "IN_PROGRESS": "yellow",
    "FAILED": "red",
    "SKIPPED": "dim",
    "PENDING": "dim",
}
WAITING_FOR_TIME = ("quota", "outage", "day_budget")
_STATUS_TEXTS = {
    "iter_cap": "iteration limit",
    "evaluator_cap": "evaluator limit",
    "review_cap": "review limit",
    "checks_cap": "checks limit",
    "token_cap": "token limit",
    "disk_space": "disk space",
    "cost_cap": "cost limit",
    "day_budget": "day's budget",
    "repository_budget": "repository's budget",
    "task_budget": "task's budget",
    "wall_clock": "time limit",
    "no_case": "no case",
    "no_plan": "no plan",
    "empty_responses": "empty turns",
}
_BIDI_CHARACTERS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))  # reorder text
_CONTROL_CHARACTERS = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029, *_BIDI_CHARACTERS), "·")


def uses_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None) -> str:
    if colour is None or not uses_colour():
        return text
    return f"\x1b[{ANSI_CODES[colour]}m{text}\x1b[0m"


def paint_status(status: str, width: int = 0) -> str:
    return paint(f"{status:{width}}", status_colour(status))


def status_text(status: str) -> str:
    """Return a run's status for people; `--json` has the code."""
    return _STATUS_TEXTS.get(status, status)


def status_with_countdown(status: str, resumes_at: str | None, now: float) -> str:
    """`quota 2h 5m`: the status of a run, and how long it waits for a provider."""
    if status not in WAITING_FOR_TIME or resumes_at is None:
        return status_text(status)
    from holdfast.core.text.moment import format_countdown, parse_moment

    until = parse_moment(resumes_at)
    return status_text(status) if until is None else f"{status_text(status)} {format_countdown(until - now)}"


def status_colour(status: str) -> str | None:
    return _STATUS_COLOURS.get(status)


def printable(text: str) -> str:
    """Replace control characters, so that text from a log cannot control the terminal."""
    return text if text.isprintable() else text.translate(_CONTROL_CHARACTERS)


def shorten_to_width(text: str, width: int) -> str:
    """Cut text to a number of terminal columns."""
    return text if display_width(text) <= width else cut_to_width(text, max(0, width - 1)) + "…"


def cut_to_width(text: str, width: int) -> str:
    """Return the beginning of a text that fits into a number of terminal columns."""
    if text.isascii():
        return text[:width]
    from bisect import bisect_right
    from itertools import accumulate

    return text[: bisect_right([*accumulate(map(_character_width, text))], width)]


def display_width(text: str) -> int:
    """Return how many terminal columns a text needs."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    """A Chinese character needs two columns, a combining accent none."""
    from unicodedata import combining, east_asian_width

    return 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1


def terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _DEFAULT_COLUMNS
    except OSError:
        return _DEFAULT_COLUMNS


def format_bytes(count: int) -> str:
    """`999 B`, `12.3 KB`, `4.5 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def format_time(ts: str | None) -> str:
    """Return `2026-02-14T10:06:15.000Z` as `2026-02-14 10:06:15`."""
    return printable(ts or "")[:19].replace("T", " ")


def pluralize(number: int, thing: str) -> str:
    """`1 event`, `2 events`, `3 branches`."""
    more = "es" if thing.endswith("ch") else "s"
    return f"{number} {thing}{'' if number == 1 else more}"


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def fold_line(line: str, stream: TextIO, below: str = "") -> str:
    """Break a line that is too long for a terminal between its words; what is piped stays one line."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        columns = 0
    if columns <= len(below) or len(line) <= columns:
        return line
    import re
    from textwrap import fill

    if display_width(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= columns:
        return line

    return fill(line, columns, subsequent_indent=below, break_long_words=False, break_on_hyphens=False)


def warn(lines: Iterable[str]) -> None:
    """Print lines for people to stderr; stdout is for data."""
    for line in lines:
        sys.stderr.write(f"{fold_line(printable(line), sys.stderr)}\n")


def program_name() -> str:
    """Return the command that starts this program."""
    from shutil import which

    if which("holdfast"):
        return "holdfast"
    called = sys.argv[0]
    return f"{sys.executable} -m holdfast" if os.path.basename(called) == "__main__.py" else os.path.relpath(called)
