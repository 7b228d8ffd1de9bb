"""The fixed words of the dashboard: its keys, its help, and what it says where there is nothing to show."""

from holdfast.app.text.screen import columns_of
from holdfast.app.text.spans import Row, Span, text_of

KEYS = (
    ("⏎", "attach", "watch the run at work; Ctrl-C comes back here"),
    ("a", "approve", "allow what an agent, or a phase, asks for"),
    ("d", "deny", "refuse it; a phase can be told what to change"),
    ("r", "resume", "go on from where it stood, without this terminal"),
    ("x", "stop", "ask the run to stop cleanly"),
    ("s", "send", "a line of words for the run's agent"),
    ("/", "filter", "only runs about which these words can be said"),
    ("?", "help", "this page"),
    ("q", "quit", "runs go on"),
)

HELP = [
    *(f"{key:>4}  {name:8}  {what}" for key, name, what in KEYS),
    "",
    " ↑ ↓  choose a run, or scroll; Tab goes from pane to pane",
    "",
    "in the list: ? asks you   ! failed, or was cut off",
    "             ▸ at work    · can go on when you want",
]

NO_RUNS = [
    "There are no runs yet. In a git repository,",
    "",
    '    holdfast run "what you want done"',
    "",
    "begins one, and it appears here; holdfast demo shows what that is like.",
]


def complaint(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror}"
    return " ".join(str(error).split())


def keys_row(width: int) -> Row:
    """As many names as there is room for; the keys alone where there is little."""
    named = [span for key, name, _ in KEYS for span in (Span(f"  {key}", "bold"), Span(f" {name}", "dim"))]
    short = [Span(f"  {key}", "bold") for key, _, _ in KEYS]
    return _begun(named) if columns_of(text_of(_begun(named))) <= width else _begun(short)


def _begun(row: Row) -> Row:
    return [row[0]._replace(text=row[0].text.lstrip()), *row[1:]]
