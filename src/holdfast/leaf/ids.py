"""Names that are given once: runs, sessions, effects."""

import re
import secrets
import unicodedata

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no 0/o, 1/i/l: people read these aloud
_SLUG_LENGTH = 40
_RUN_ID = re.compile(rf"[a-z0-9][a-z0-9-]*-[{_ALPHABET}]{{6}}")


def slug_of(text: str) -> str:
    """A short name for a goal, fit for a folder and a branch: `Add OAuth login!` → `add-oauth-login`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug[:_SLUG_LENGTH].strip("-") or "run"


def new_run_id(slug: str) -> str:
    """The slug and six characters: readable in a branch name, unique, and short to type by prefix."""
    return f"{slug_of(slug)}-{''.join(secrets.choice(_ALPHABET) for _ in range(6))}"


def is_run_id(text: str) -> bool:
    """True of a name as `new_run_id` makes them."""
    return _RUN_ID.fullmatch(text) is not None


def new_sid() -> str:
    return secrets.token_hex(6)


def new_effect_id() -> str:
    return secrets.token_hex(8)
