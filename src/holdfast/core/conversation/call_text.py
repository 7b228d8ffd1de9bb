"""A tool call in words, as a person is asked about it: the command, the paths, the changes, the rest of its input.

Text that an agent chose must not drive a terminal, nor look like something else: what cannot be printed is escaped.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.events.conversation import FileDiff

SUMMARY_CHARS = 240
_TITLE_CHARS = 80
LINE_CHARS = 1_000
_DIFF_CHARS = 400_000  # of both texts; comparing longer ones takes too long
_CONTEXT = 2  # lines around a change
_LABEL = 7  # columns


class Described(Protocol):
    """An open request of a run's state, or the event by which it was made."""

    @property
    def title(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def paths(self) -> list[str]: ...
    @property
    def command(self) -> str | None: ...
    @property
    def diffs(self) -> list[FileDiff]: ...
    @property
    def note(self) -> str | None: ...
    @property
    def input(self) -> Any: ...  # JSON, as text or bytes


def visible(text: str) -> str:
    """One line in which every character can be seen."""
    text = text.replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", "    ")
    return text if text.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible_lines(text: str) -> list[str]:
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def summary_of(asked: Described) -> str:
    """One line: what will run, and what the agent calls it."""
    title = visible(asked.title)
    if asked.command is not None:
        command = shorten(visible(asked.command), SUMMARY_CHARS)
        return command if title in command else f"{command} ({shorten(title, _TITLE_CHARS)})"
    title = shorten(title, SUMMARY_CHARS)
    paths = [visible(path) for path in asked.paths]
    if paths:
        unnamed = [path for path in paths if path not in title and path.rpartition("/")[2] not in title]
        return f"{title}: {shorten(', '.join(unnamed), SUMMARY_CHARS)}" if unnamed else title
    given = input_of(asked)
    return f"{title}: {shorten(visible(_json(given)), SUMMARY_CHARS)}" if given is not None else title


def lines_of(asked: Described) -> list[str]:
    """All that is known of the call, in lines without control characters."""
    given = input_of(asked)
    lines = [
        *_block("runs", visible_lines(asked.command) if asked.command is not None else []),
        *(line for path in asked.paths for line in _block("path", [visible(path)])),
        *(line for diff in asked.diffs for line in _diff_lines(diff)),
        *_rest(asked, given),
    ]
    if given is None and not asked.diffs and asked.note is not None:
        lines += _block("shows", visible_lines(asked.note) if asked.note else [])
        lines += ["its agent told no input for this call; its title is all that is known"]
    return lines


def cut(lines: Sequence[str], most: int, where: str) -> list[str]:
    """No more lines than so many, none longer than `LINE_CHARS`; how much is missing, and where all of it is.

    The end is kept as well as the beginning: what matters may be hidden behind a long harmless part.
    """
    kept, missing = list(lines), 0
    if len(kept) > most:
        tail = most // 4
        left_out = kept[most - tail : len(kept) - tail]
        missing = sum(map(len, left_out))
        kept[most - tail : len(kept) - tail] = [f"… {len(left_out)} lines left out …"]
    shortened = [shorten(line, LINE_CHARS) for line in kept]
    missing += sum(len(line) for line in kept) - sum(map(len, shortened))
    return [*shortened, f"… {missing:,} characters are not shown; {where}"] if missing > 0 else shortened


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a line that is too long, and how much is missing between them."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]} […{len(text) - most:,} more characters…] {text[len(text) - tail :]}"


def input_of(asked: Described) -> Any:
    try:
        return msgspec.json.decode(asked.input)
    except msgspec.MsgspecError:
        return None


def _block(label: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"{label if number == 0 else '':{_LABEL}}{line}"


def _diff_lines(diff: FileDiff) -> Iterator[str]:
    old, new = (diff.old or "").splitlines(), diff.new.splitlines()
    if diff.old is None or len(diff.old) + len(diff.new) > _DIFF_CHARS:
        yield from _block("writes", [visible(diff.path), *(f"+{visible(line)}" for line in new)])
        return
    changed = difflib.unified_diff(old, new, n=_CONTEXT, lineterm="")
    body = [visible(line) for line in changed][2:]  # without its two lines of file names
    yield from _block("edits", [visible(diff.path), *body])


def _rest(asked: Described, given: Any) -> Iterator[str]:
    """What of the input is not shown yet."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        yield from _block("input", visible_lines(given) if isinstance(given, str) else [visible(_json(given))])
        return
    shown = {asked.command, *asked.paths}
    shown |= {text for diff in asked.diffs for text in (diff.old, diff.new, diff.path)}
    for name, value in given.items():
        if isinstance(value, str) and value in shown:
            continue
        lines = visible_lines(value) if isinstance(value, str) else [visible(_json(value))]
        yield from _block("input", [f"{visible(str(name))}: {lines[0]}", *(f"  {line}" for line in lines[1:])])


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
