"""Text from elsewhere within a prompt: fenced, so that it cannot be taken for words of ours."""

import re

_TICKS = re.compile(r"`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def fenced(text: str, kind: str = "text") -> str:
    """Between two lines of backticks, of which it has fewer itself: it cannot close its fence."""
    inner = clean(text).strip("\n")
    longest = max((len(run) for run in _TICKS.findall(inner)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{inner}\n{fence}"


def inline(text: str) -> str:
    """A name within a sentence: one line, in backticks of which it has none."""
    return f"`{' '.join(clean(text).replace('`', chr(39)).split())}`"


def clean(text: str) -> str:
    """Without control characters, and with one kind of line end."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def of_terminal(text: str) -> str:
    """Without colours; where the carriage went back to the left, a line ends."""
    return _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")


def of_diff(text: str) -> str:
    """With carriage returns to be seen: they can be all that was changed, and must not look like a line end."""
    return text.replace("\r", "\N{SYMBOL FOR CARRIAGE RETURN}")


def middle_out(text: str, most: int) -> str:
    """The beginning and the end of a text that is too long, the end longer: what went wrong is told there."""
    if len(text) <= most:
        return text
    head = most // 4
    return f"{text[:head]}\n[… {len(text) - most} characters left out …]\n{text[len(text) - (most - head) :]}"
