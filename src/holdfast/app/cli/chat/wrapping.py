"""Wraps what an agent says to the terminal. Code keeps its lines, and list items their indentation."""

import re
from collections.abc import Iterator
from textwrap import TextWrapper

from holdfast.app.text.screen import printable
from holdfast.app.text.spans import Row, Span

MAX_WIDTH = 100  # columns: longer lines are hard to read
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+|\s*>\s?|\s*")
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


def wrap_line(line: str, width: int, indent: str = "") -> list[str]:
    item = _ITEM.match(line)
    hanging = " " * (item.end() if item is not None else 0)
    wrapper = TextWrapper(
        width=max(20, min(width, MAX_WIDTH)),
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    leading = line[: len(line) - len(line.lstrip())]
    wrapper.initial_indent = indent + leading
    return wrapper.wrap(line.lstrip()) or [indent]
