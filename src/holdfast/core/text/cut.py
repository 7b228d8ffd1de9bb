"""Long text, cut with a note of what is missing."""


def cut_middle(text: str, max_chars: int) -> str:
    """The beginning and the end of a long text. The end is longer, because errors are printed there."""
    if len(text) <= max_chars:
        return text
    head = max_chars // 4
    return f"{text[:head]}\n[… {len(text) - max_chars} characters left out …]\n{text[len(text) - (max_chars - head) :]}"


def cut(text: str, max_chars: int) -> str:
    """The first `max_chars` characters, with a note of how many are missing."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}… [{len(text) - max_chars} more characters]"
