"""Wraps what an agent says to the terminal. Code keeps its lines, and list items their indentation."""

import re
from collections.abc import Iterator

from holdfast.app.text.screen import cut_to_width, display_width, printable
from holdfast.app.text.spans import Row, Span

MAX_WIDTH = 100  # columns: longer lines are hard to read
_MIN_WIDTH = 20
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+|\s*>\s?|\s*")
_IDEOGRAPHS = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003fffd"
_CLOSING = "、。，．：；！？）」』】〉》〕｝〗ー々…"  # never begin a line
_PIECE = re.compile(rf"\s+|[{_IDEOGRAPHS}][{_CLOSING}]*|[^\s{_IDEOGRAPHS}]+")  # between two pieces a line may end
_TAB = "    "


class MessageWrapper:
    """Wraps the lines of one message, which may come in pieces: it remembers whether a code block is open."""

    def __init__(self) -> None:
        self._in_code = False

    def rows(self, lines: list[str], width: int, indent: str = "  ") -> list[Row]:
        return [row for line in lines for row in self._rows(line, width, indent)]

    def copy(self) -> "MessageWrapper":
        """A wrapper for text that is shown and will be replaced."""
        other = MessageWrapper()
        other._in_code = self._in_code
        return other

    def _rows(self, line: str, width: int, indent: str) -> Iterator[Row]:
        line = printable(line.rstrip().replace("\t", _TAB))
        if _FENCE.match(line):
            self._in_code = not self._in_code
            yield [Span(f"{indent}{line}", "dim")]
        elif self._in_code or line.startswith(_TAB) or not line:
            yield [Span(f"{indent}{line}" if line else "", "cyan" if self._in_code else None)]
        else:
            colour = "bold" if line.startswith("#") else None
            for part in wrap_line(line, width, indent):
                yield [Span(part, colour)]


def wrap_line(line: str, width: int, indent: str = "", below: str | None = None) -> list[str]:
    """Return the line in parts that need at most `width` columns. Only a word longer than a line is cut.

    `indent` comes before the first part, `below` before the others: by default so far that items of lists line up.
    """
    columns = max(_MIN_WIDTH, min(width, MAX_WIDTH))
    item = _ITEM.match(line)
    start = item.end() if item is not None else 0
    hanging = below if below is not None else indent + " " * min(start, columns // 2)
    rows, row = [], indent + line[:start]
    is_empty = True  # the row, but for its indentation and the mark of an item
    for piece in _PIECE.findall(line[start:].rstrip()):
        if not is_empty and display_width(row + piece) > columns:
            rows.append(row.rstrip())
            row, is_empty = hanging, True
        if is_empty and piece.isspace():
            continue
        rest = piece
        while display_width(row + rest) > columns:  # a word longer than a line
            head = cut_to_width(rest, columns - display_width(row)) or rest[:1]
            rows.append(row + head)
            row, rest = hanging, rest[len(head) :]
        row, is_empty = row + rest, False
    return [*rows, row.rstrip() or indent]
