"""A comparison on the screen: whole, as one line a file, or as JSON."""

import json
import sys

from holdfast.app.text.screen import columns, counted, paint, plain
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
            print(json.dumps(file._asdict(), ensure_ascii=False))
    elif stat:
        _print_stat(comparison.files)
    else:
        _print_patch(comparison.patch)


def _print_stat(files: tuple[ChangedFile, ...]) -> None:
    rows = [(plain(file.path), _count("+", file.added), _count("-", file.removed)) for file in files]
    if not rows:
        return
    wide, plus, minus = columns(rows)
    for path, added, removed in rows:
        print(f"{path:{wide}}  {paint(f'{added:>{plus}}', 'green')} {paint(f'{removed:>{minus}}', 'red')}".rstrip())
    sys.stderr.write(f"{counted(len(rows), 'file')}\n")


def _count(sign: str, lines: int | None) -> str:
    return "binary" if lines is None else f"{sign}{lines}"


def _print_patch(patch: bytes) -> None:
    """For a pipe as git wrote it; on a terminal in colour, and with nothing that could drive the terminal."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(patch)
        return
    for line in patch.decode(errors="replace").removesuffix("\n").split("\n"):
        colour = "bold" if line.startswith(_HEADINGS) else _COLOURS.get(line[:1])
        print(paint(plain(line.replace("\t", "    ")), colour))
