"""Prints a comparison as a patch, as one line per file, or as JSON."""

import json
import sys

import msgspec

from holdfast.app.text.screen import column_widths, paint, pluralize, printable
from holdfast.engine.queries.diff import ChangedFile, Comparison

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_HEADINGS = (
    "diff ",
    "index ",
    "--- ",
    "+++ ",
    "new file",
    "deleted file",
    "rename ",
    "similarity ",
    "old mode",
    "new mode",
)


def print_comparison(comparison: Comparison, *, stat: bool, as_json: bool) -> None:
    if as_json:
        for file in comparison.files:
            print(json.dumps(msgspec.to_builtins(file), ensure_ascii=False))
    elif stat:
        _print_stat(comparison.files)
    else:
        _print_patch(comparison.patch)


def _print_stat(files: tuple[ChangedFile, ...]) -> None:
    rows = [(printable(file.path), _count("+", file.added), _count("-", file.removed)) for file in files]
    if not rows:
        return
    path_width, added_width, removed_width = column_widths(rows)
    for path, added, removed in rows:
        counts = f"{paint(f'{added:>{added_width}}', 'green')} {paint(f'{removed:>{removed_width}}', 'red')}"
        print(f"{path:{path_width}}  {counts}".rstrip())
    sys.stderr.write(f"{pluralize(len(rows), 'file')}\n")


def _count(sign: str, lines: int | None) -> str:
    return "binary" if lines is None else f"{sign}{lines}"


def _print_patch(patch: bytes) -> None:
    """Print the bytes that git wrote; on a terminal, in colour and without control characters."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(patch)
        return
    for line in patch.decode(errors="replace").removesuffix("\n").split("\n"):
        colour = "bold" if line.startswith(_HEADINGS) else _COLOURS.get(line[:1])
        print(paint(printable(line.replace("\t", "    ")), colour))
