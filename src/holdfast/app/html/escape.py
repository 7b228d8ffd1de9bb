"""Converts text to HTML: escaped, without control characters, long parts folded."""

from html import escape

from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR

_MAX_PIECE_CHARS = 100_000  # the log has the rest
_FOLD_CHARS = 1_200  # longer pieces are folded
_FOLD_LINES = 24
_HEADLINE_CHARS = 160
_CONTROL = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def escape_text(text: str) -> str:
    """Return text that is safe in an element and a quoted attribute. Removes secrets, which older logs contain."""
    return escape(SHAPES_ONLY_REDACTOR.redact_text(text).translate(_CONTROL))


def cut_piece(text: str) -> str:
    if len(text) <= _MAX_PIECE_CHARS:
        return text
    return f"{text[:_MAX_PIECE_CHARS]}\n… {len(text) - _MAX_PIECE_CHARS:,} more characters are in the log"


def fold_text(text: str, kind: str = "text") -> str:
    """Return short text whole, and long text folded under its first line."""
    body = f'<div class="{kind}">{escape_text(cut_piece(text))}</div>'
    if len(text) <= _FOLD_CHARS and text.count("\n") < _FOLD_LINES:
        return body
    first = text.strip().split("\n", 1)[0][:_HEADLINE_CHARS]
    return f"<details><summary>{escape_text(first)} … <i>{len(text):,} characters</i></summary>{body}</details>"
