"""Writes docs/session.svg: a run whose runner is killed with SIGKILL, and its resume, in a real terminal.

.venv/bin/python scripts/screenshot.py

The commands are those of scripts/first_hour.py, run by the checkout's own program; nothing is drawn by hand.
"""

import os
import re
import sys
import tempfile

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__":
    sys.path[0] = ROOT

from scripts.first_hour import FirstHour  # noqa: E402
from scripts.shell_session import Shown, screen_lines  # noqa: E402

PICTURE = os.path.join(ROOT, "docs", "session.svg")
_COLUMNS = 92
_SHOWN = ("holdfast run", "holdfast approve", "holdfast resume", "holdfast diff", "holdfast merge")
_FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)  # they would be fetched from the network


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        hour = FirstHour(folder, os.path.dirname(os.path.abspath(sys.executable)), columns=_COLUMNS)
        hour.prepare()
        commands = [shown for shown in hour.work() if shown.command.startswith(_SHOWN)]
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True, color_system="standard")
        for shown in sorted(commands, key=lambda shown: shown.began):
            _print_command(console, shown)
        picture = console.export_svg(title="holdfast", code_format=_FONT_FACE.sub("", CONSOLE_SVG_FORMAT))
    with open(PICTURE, "w") as file:
        file.write("\n".join(line.rstrip() for line in picture.splitlines()) + "\n")
    print(f"wrote {os.path.relpath(PICTURE)}")
    return 0


def _print_command(console: Console, shown: Shown) -> None:
    another = "   # in another terminal" if shown.command.startswith("holdfast approve") else ""
    console.print(Text(f"$ {shown.command}{another}", style="bold"))
    for line in screen_lines(shown.output):
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    if shown.exit_code < 0:
        console.print(Text("⚡ kill -9", style="bold red"))
    console.print()


if __name__ == "__main__":
    sys.exit(main())
