"""The first and the last lines of a long output: the cause of a failure is usually in one or the other."""

_MAX_LINE_CHARS = 300


def excerpt_lines(text: str, first: int, last: int) -> list[str]:
    """At most so many lines from each end, without blank ones, with a note of how many are missing."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    missing = len(lines) - first - last
    if missing > 1:
        lines = [*lines[:first], f"[… {missing} lines left out …]", *lines[len(lines) - last :]]
    return [line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}…" for line in lines]
