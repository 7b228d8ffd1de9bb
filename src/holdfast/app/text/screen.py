"""Words on a terminal: colour only where it is wanted, and nothing from a log may drive the terminal."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDTH = 120  # where a terminal does not tell

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATUS = {
    "running": "cyan",
    "interrupted": "yellow",
    "done": "green",
    "unreadable": "red",
    "COMPLETE": "green",
    "IN_PROGRESS": "yellow",
    "FAILED": "red",
    "SKIPPED": "dim",
    "PENDING": "dim",
}
_REORDERING = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))  # text that reads otherwise
_CONTROL = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029, *_REORDERING), "·")


def colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None) -> str:
    if colour is None or not colourful():
        return text
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m"


def paint_status(status: str, width: int = 0) -> str:
    return paint(f"{status:{width}}", status_colour(status))


def status_colour(status: str) -> str | None:
    return _STATUS.get(status)


def plain(text: str) -> str:
    """Text from a log with its control characters made harmless."""
    return text if text.isprintable() else text.translate(_CONTROL)


def shortened(text: str, width: int) -> str:
    """Text that takes no more than so many columns of a terminal."""
    if text.isascii():
        return text if len(text) <= width else text[: max(0, width - 1)] + "…"
    from bisect import bisect_right
    from itertools import accumulate

    taken = [*accumulate(map(_columns_of, text))]
    if taken[-1] <= width:
        return text
    return text[: bisect_right(taken, width - 1)] + "…"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    """A Chinese character takes two, an accent that stands on another takes none."""
    from unicodedata import combining, east_asian_width

    return 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1


def terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH
    except OSError:
        return _WIDTH


def moment(ts: str | None) -> str:
    """`2026-02-14T10:06:15.000Z` as people read it."""
    return plain(ts or "")[:19].replace("T", " ")


def counted(number: int, thing: str) -> str:
    """`1 event`, `2 events`, `3 branches`."""
    more = "es" if thing.endswith("ch") else "s"
    return f"{number} {thing}{'' if number == 1 else more}"


def columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column has to be."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def warn(lines: Iterable[str]) -> None:
    """What a user should know, and what no program reads."""
    for line in lines:
        sys.stderr.write(f"{plain(line)}\n")


def program() -> str:
    """What to type to call this program."""
    from shutil import which

    if which("holdfast"):
        return "holdfast"
    called = sys.argv[0]
    return f"{sys.executable} -m holdfast" if os.path.basename(called) == "__main__.py" else os.path.relpath(called)
