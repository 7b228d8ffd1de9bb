"""Long text, cut with a note of what is missing."""


def cut(text: str, most: int) -> str:
    """No more than so many characters; what is missing is said."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… [{len(text) - most} more characters]"
