"""Rows of coloured text, independent of the screen that shows them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast.app.text.screen import display_width, paint, shorten_to_width


class Span(NamedTuple):
    """Text in one colour."""

    text: str
    colour: str | None = None


Row = Sequence[Span]


def row_text(row: Row) -> str:
    return "".join(span.text for span in row)


def paint_rows(rows: Iterable[Row]) -> Iterator[str]:
    """Yield rows for stdout, in colour if stdout is a colour terminal."""
    for row in rows:
        yield "".join(paint(span.text, span.colour) for span in row)


def pad_to_width(text: str, width: int) -> str:
    """Cut or pad text to exactly `width` columns."""
    text = shorten_to_width(text, width)
    return text + " " * (width - display_width(text))


def fit_row(row: Row, width: int) -> Row:
    """Cut a row to `width` columns; an ellipsis marks the cut."""
    kept: list[Span] = []
    for span in row:
        room = width - sum(display_width(previous.text) for previous in kept)
        kept.append(Span(shorten_to_width(span.text, room) if room > 0 else "", span.colour))
        if display_width(span.text) > room:
            break
    return kept
