"""Unique ids of runs, sessions and effects."""

import re
import secrets
import unicodedata

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no 0/o, 1/i/l: people read these aloud
_MAX_SLUG_CHARS = 40
_RUN_ID = re.compile(rf"[a-z0-9][a-z0-9-]*-[{_ALPHABET}]{{6}}")


def slug_of(text: str) -> str:
    """A short name that works as a folder and as a branch: `Add OAuth login!` → `add-oauth-login`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug[:_MAX_SLUG_CHARS].strip("-") or "run"


def new_run_id(slug: str) -> str:
    """The slug and six characters: readable in a branch name, unique, and short to type by prefix."""
    return f"{slug_of(slug)}-{''.join(secrets.choice(_ALPHABET) for _ in range(6))}"


def is_run_id(text: str) -> bool:
    """Whether the text has the form of `new_run_id`."""
    return _RUN_ID.fullmatch(text) is not None


def new_sid() -> str:
    return secrets.token_hex(6)


def new_effect_id() -> str:
    return secrets.token_hex(8)
