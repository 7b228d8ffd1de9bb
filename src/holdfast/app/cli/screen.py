"""Words on a terminal: colour only where it is wanted, and nothing from a log may drive the terminal."""

import os
import sys
from collections.abc import Sequence

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
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
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "·")


def colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None) -> str:
    if colour is None or not colourful():
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def paint_status(status: str, width: int = 0) -> str:
    return paint(f"{status:{width}}", _STATUS.get(status))


def plain(text: str) -> str:
    """Text from a log with its control characters made harmless."""
    return text.translate(_CONTROL)


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return 120


def moment(ts: str | None) -> str:
    """`2026-02-14T10:06:15.000Z` as people read it."""
    return plain(ts or "")[:19].replace("T", " ")


def columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column has to be."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
