"""Text into HTML: escaped, without control characters, and long parts folded away."""

from html import escape

from holdfast.core.redaction.redaction import SHAPES

_LONGEST = 100_000  # characters of one piece; the log has the rest
_FOLDED = 1_200  # characters from which on a piece is folded
_FOLDED_LINES = 24
_HEADLINE = 160
_CONTROL = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def words(text: str) -> str:
    """Safe in an element and in a quoted attribute, and without secrets: older logs hold them."""
    return escape(SHAPES.text(text).translate(_CONTROL))


def cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters are in the log"


def folded(text: str, kind: str = "text") -> str:
    """Whole when it is short; else its first line, which opens."""
    body = f'<div class="{kind}">{words(cut(text))}</div>'
    if len(text) <= _FOLDED and text.count("\n") < _FOLDED_LINES:
        return body
    first = text.strip().split("\n", 1)[0][:_HEADLINE]
    return f"<details><summary>{words(first)} … <i>{len(text):,} characters</i></summary>{body}</details>"
