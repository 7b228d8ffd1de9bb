"""Questions on the terminal. Enter takes the answer in brackets; the end of the input cancels."""

import sys

from holdfast.leaf.errors import BadInput


def ask_choice(question: str, count: int, default: int = 0) -> int:
    """Ask for a number from 1 to `count`. Returns its index."""
    while True:
        answer = _ask(f"{question} [{default + 1}] ")
        if not answer:
            return default
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= count:
            return int(answer) - 1
        sys.stderr.write(f"type a number from 1 to {count}\n")


def ask_text(question: str, default: str = "") -> str:
    return _ask(f"{question}{f' [{default}]' if default else ''}: ") or default


def confirm(question: str, *, default: bool) -> bool:
    answer = _ask(f"{question} {'[Y/n]' if default else '[y/N]'} ").lower()
    return answer in ("y", "yes") if answer else default


def _ask(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        sys.stderr.write("\ncancelled; what was written before is kept\n")
        raise
    if not line:
        sys.stderr.write("\n")
        raise BadInput("cancelled; what was written before is kept")
    return line.strip()
