"""The fixed texts of the dashboard: keys, help, and the text for no runs."""

from holdfast.app.text.screen import display_width
from holdfast.app.text.spans import Row, Span, row_text

KEYS = (
    ("⏎", "attach", "watch the run; Ctrl-C returns here"),
    ("a", "approve", "allow what an agent or a phase requests"),
    ("d", "deny", "refuse it; tell an agent why, or a phase what to change"),
    ("r", "resume", "continue the run in the background"),
    ("x", "stop", "stop the run cleanly"),
    ("s", "send", "send a message to the run's agent"),
    ("/", "filter", "show only runs that contain these words"),
    ("?", "help", "show this page"),
    ("q", "quit", "quit; runs continue"),
)

MORE_KEYS = (  # not in the row of keys
    ("b", "rewind", "go back to a point of the run, or take back a rewind"),
    ("f", "fork", "a new run with the past of this one"),
)

HELP = [
    *(f"{key:>4}  {name:8}  {about}" for key, name, about in (*KEYS, *MORE_KEYS)),
    "",
    " ↑ ↓  select a run, or scroll; Tab changes the pane",
    "",
    "in the list: ? waits for you   ! failed or interrupted",
    "             ▸ running         · stopped, can be resumed",
]

NO_RUNS = [
    "No runs yet. Start one in a git repository:",
    "",
    '    holdfast run "add OAuth login"',
    "",
    "or try: holdfast demo",
]


def error_line(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror}"
    return " ".join(str(error).split())


def keys_row(width: int) -> Row:
    """Return the keys with their names, or the keys alone if the terminal is narrow."""
    named = [span for key, name, _ in KEYS for span in (Span(f"  {key}", "bold"), Span(f" {name}", "dim"))]
    short = [Span(f"  {key}", "bold") for key, _, _ in KEYS]
    return (
        _without_indent(named) if display_width(row_text(_without_indent(named))) <= width else _without_indent(short)
    )


def _without_indent(row: Row) -> Row:
    return [row[0]._replace(text=row[0].text.lstrip()), *row[1:]]
