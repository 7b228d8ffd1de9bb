"""Quote foreign text in a prompt: fenced, so that an agent cannot mistake it for instructions of Holdfast."""

import re

_TICKS = re.compile(r"`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def fenced(text: str, kind: str = "text") -> str:
    """The text in a fence with more backticks than any in the text, so that it cannot close its fence."""
    inner = clean(text).strip("\n")
    longest = max((len(run) for run in _TICKS.findall(inner)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{inner}\n{fence}"


def inline(text: str) -> str:
    """A name inside a sentence: one line in backticks, with its own backticks replaced."""
    return f"`{' '.join(clean(text).replace('`', chr(39)).split())}`"


def clean(text: str) -> str:
    """The text without control characters, with Unix line ends."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def clean_terminal_output(text: str) -> str:
    """The text without colour codes; a carriage return becomes a line end."""
    return _TERMINAL_CODES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def show_carriage_returns(text: str) -> str:
    """The text with visible carriage returns: they may be the only change, and must not look like a line end."""
    return text.replace("\r", "\N{SYMBOL FOR CARRIAGE RETURN}")
