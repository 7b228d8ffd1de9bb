"""A tool call as text for a permission request: the command, the paths, the changes, the rest of its input.

An agent chooses this text, so it must not control the terminal or look like something else: unprintable characters are
escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.events.conversation import FileDiff

SUMMARY_CHARS = 240
_TITLE_CHARS = 80
LINE_CHARS = 1_000
_DIFF_CHARS = 400_000  # of both texts; comparing longer ones takes too long
_CONTEXT_LINES = 2  # around a change
LABEL_COLUMNS = 7  # before every line of a call
DIFF_LABELS = ("writes", "edits")  # of the parts with lines of files


class ToolCallDescription(Protocol):
    """An open request in the state, or its `permission.requested` event."""

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


def to_printable(text: str) -> str:
    """The text as one line in which every character is visible."""
    text = text.replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", "    ")
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def to_printable_lines(text: str) -> list[str]:
    return [to_printable(line) for line in text.replace("\r\n", "\n").split("\n")]


def call_summary(call: ToolCallDescription) -> str:
    """One line: what will run, and the agent's name for it."""
    title = to_printable(call.title)
    if call.command is not None:
        command = shorten(to_printable(call.command), SUMMARY_CHARS)
        return command if title in command else f"{command} ({shorten(title, _TITLE_CHARS)})"
    title = shorten(title, SUMMARY_CHARS)
    paths = [to_printable(path) for path in call.paths]
    if paths:
        unnamed = [path for path in paths if path not in title and path.rpartition("/")[2] not in title]
        return f"{title}: {shorten(', '.join(unnamed), SUMMARY_CHARS)}" if unnamed else title
    call_input = decode_input(call)
    return f"{title}: {shorten(to_printable(_json(call_input)), SUMMARY_CHARS)}" if call_input is not None else title


def call_lines(call: ToolCallDescription) -> list[str]:
    """Everything known about the call, in lines without control characters."""
    call_input = decode_input(call)
    lines = [
        *_block("runs", to_printable_lines(call.command) if call.command is not None else []),
        *(line for path in call.paths for line in _block("path", [to_printable(path)])),
        *(line for diff in call.diffs for line in _diff_lines(diff)),
        *_remaining_input_lines(call, call_input),
    ]
    if call_input is None and not call.diffs and call.note is not None:
        lines += _block("shows", to_printable_lines(call.note) if call.note else [])
        lines += ["the agent did not report the input of this call; only its title is known"]
    return lines


def cut_lines(lines: Sequence[str], max_lines: int, full_text_hint: str) -> list[str]:
    """At most `max_lines` lines of at most `LINE_CHARS`, with a note of how much is missing and where to see it.

    Keeps the end as well as the beginning: a long harmless part may hide what matters.
    """
    kept, missing = list(lines), 0
    if len(kept) > max_lines:
        tail = max_lines // 4
        left_out = kept[max_lines - tail : len(kept) - tail]
        missing = sum(map(len, left_out))
        kept[max_lines - tail : len(kept) - tail] = [f"… {len(left_out)} lines left out …"]
    shortened = [shorten(line, LINE_CHARS) for line in kept]
    missing += sum(len(line) for line in kept) - sum(map(len, shortened))
    return [*shortened, f"… {missing:,} characters are not shown; {full_text_hint}"] if missing > 0 else shortened


def shorten(text: str, max_chars: int) -> str:
    """The beginning and the end of a long line, and how much is missing between them."""
    if len(text) <= max_chars:
        return text
    tail = max_chars // 4
    return f"{text[: max_chars - tail]} […{len(text) - max_chars:,} more characters…] {text[len(text) - tail :]}"


def decode_input(call: ToolCallDescription) -> Any:
    try:
        return msgspec.json.decode(call.input)
    except msgspec.MsgspecError:
        return None


def _block(label: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"{label if number == 0 else '':{LABEL_COLUMNS}}{line}"


def _diff_lines(diff: FileDiff) -> Iterator[str]:
    old, new = (diff.old or "").splitlines(), diff.new.splitlines()
    if diff.old is None or len(diff.old) + len(diff.new) > _DIFF_CHARS:
        yield from _block("writes", [to_printable(diff.path), *(f"+{to_printable(line)}" for line in new)])
        return
    from difflib import unified_diff  # noqa: PLC0415 - slow to import, and few texts have a difference

    changed = unified_diff(old, new, n=_CONTEXT_LINES, lineterm="")
    body = [to_printable(line) for line in changed][2:]  # without the two file name lines
    yield from _block("edits", [to_printable(diff.path), *body])


def _remaining_input_lines(call: ToolCallDescription, call_input: Any) -> Iterator[str]:
    """The parts of the input that are not shown yet."""
    if call_input is None:
        return
    if not isinstance(call_input, Mapping):
        yield from _block(
            "input",
            to_printable_lines(call_input) if isinstance(call_input, str) else [to_printable(_json(call_input))],
        )
        return
    shown = {call.command, *call.paths}
    shown |= {text for diff in call.diffs for text in (diff.old, diff.new, diff.path)}
    for name, value in call_input.items():
        if isinstance(value, str) and value in shown:
            continue
        lines = to_printable_lines(value) if isinstance(value, str) else [to_printable(_json(value))]
        yield from _block("input", [f"{to_printable(str(name))}: {lines[0]}", *(f"  {line}" for line in lines[1:])])


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
