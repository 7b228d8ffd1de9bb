"""Long text, cut with a note of what is missing."""


def cut(text: str, max_chars: int) -> str:
    """The first `max_chars` characters, with a note of how many are missing."""
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}… [{len(text) - max_chars} more characters]"
