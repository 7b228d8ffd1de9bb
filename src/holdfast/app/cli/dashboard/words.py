"""The fixed words of the dashboard: its keys, its help, and what it says where there is nothing to show."""

from holdfast.app.cli.screen import columns_of
from holdfast.app.cli.spans import Row, Span

KEYS = (
    ("⏎", "attach", "watch the run at work; Ctrl-C comes back here"),
    ("a", "approve", "allow what an agent asks to do, or what a phase waits for"),
    ("d", "deny", "refuse it; a phase can be told what to change"),
    ("r", "resume", "go on from where it stood, without this terminal"),
    ("x", "stop", "ask the run to stop cleanly"),
    ("s", "send", "a line of words for the run's agent"),
    ("/", "filter", "only runs with these words in name, status, workflow, repository or goal"),
    ("?", "help", "this page"),
    ("q", "quit", "runs go on"),
)

HELP = [
    *(f"{key:>4}  {name:8}  {what}" for key, name, what in KEYS),
    "",
    " ↑ ↓  choose a run, or scroll      Tab  from pane to pane",
    "",
    "   ?  in the list: it asks you something     !  it failed, or was cut off",
    "   ▸  it is at work                          ·  it can go on when you want",
]

NO_RUNS = [
    "There are no runs yet. In a git repository,",
    "",
    '    holdfast run "what you want done"',
    "",
    "begins one, and it appears here; holdfast demo shows what that is like.",
]


def keys_row(width: int) -> Row:
    """As many names as there is room for; the keys alone where there is little."""
    named = [[Span(f" {key} ", "bold"), Span(f"{name} ", "dim")] for key, name, _ in KEYS]
    if sum(columns_of(span.text) for pair in named for span in pair) <= width:
        return [span for pair in named for span in pair]
    return [Span(f" {key} ", "bold") for key, _, _ in KEYS]
