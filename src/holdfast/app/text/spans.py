"""Words in colours, a row at a time: made by those who know what to say, put on a screen by those who have one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast.app.text.screen import columns_of, paint, shortened


class Span(NamedTuple):
    """Words in a colour."""

    text: str
    colour: str | None = None


Row = Sequence[Span]


def text_of(row: Row) -> str:
    return "".join(span.text for span in row)


def painted(rows: Iterable[Row]) -> Iterator[str]:
    """For stdout, with colours where they are wanted."""
    for row in rows:
        yield "".join(paint(span.text, span.colour) for span in row)


def padded(text: str, width: int) -> str:
    """So many columns, neither more nor fewer."""
    text = shortened(text, width)
    return text + " " * (width - columns_of(text))


def fitted(row: Row, width: int) -> Row:
    """No wider than this: what does not fit is cut off, and seen to be."""
    kept: list[Span] = []
    for span in row:
        room = width - sum(columns_of(one.text) for one in kept)
        kept.append(Span(shortened(span.text, room) if room > 0 else "", span.colour))
        if columns_of(span.text) > room:
            break
    return kept
