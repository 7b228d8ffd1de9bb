"""Prints progress to stderr; stdout is for the figures."""

import sys


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
