"""Words and excerpts of messages, for full-text search: the same words as the catalog of the files backend finds."""

import re
import unicodedata
from collections.abc import Iterator

_WORD = re.compile(r"[^\W_]+")
_EXCERPT_WORDS = 12


def normalized_words(text: str) -> list[str]:
    """Return the words in small letters and without accents."""
    return [_folded(match.group()) for match in _WORD.finditer(text)]


def excerpt(text: str, query: str) -> str:
    """Return the part of a text around the first word of the query, with all found words in brackets."""
    wanted = set(normalized_words(query))
    matches = list(_WORD.finditer(text))
    first = next((index for index, match in enumerate(matches) if _folded(match.group()) in wanted), 0)
    start = max(0, min(first - _EXCERPT_WORDS // 4, len(matches) - _EXCERPT_WORDS))
    shown = matches[start : start + _EXCERPT_WORDS]
    if not shown:
        return ""
    begin = shown[0].start() if start else 0
    end = shown[-1].end() if start + _EXCERPT_WORDS < len(matches) else len(text)
    marked = "".join(_marked(text, shown, wanted, begin, end))
    return ("…" if start else "") + marked + ("…" if end < len(text) else "")


def _marked(text: str, shown: list[re.Match[str]], wanted: set[str], begin: int, end: int) -> Iterator[str]:
    for match in shown:
        if _folded(match.group()) in wanted:
            yield f"{text[begin : match.start()]}[{match.group()}]"
            begin = match.end()
    yield text[begin:end]


def _folded(word: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(char))
