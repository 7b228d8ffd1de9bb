"""Unique ids of runs, sessions and effects."""

import hashlib
import re
import secrets
import unicodedata

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no 0/o, 1/i/l: people read these aloud
MAX_SLUG_CHARS = 40
_RUN_ID = re.compile(rf"[a-z0-9][a-z0-9-]*-[{_ALPHABET}]{{6}}")


def slug_of(text: str) -> str:
    """A short name that works as a folder and as a branch: `Add OAuth login!` → `add-oauth-login`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug[:MAX_SLUG_CHARS].strip("-") or "run"


def new_run_id(slug: str, key: str | None = None) -> str:
    """The slug and six characters: readable in a branch name, unique, and short to type by prefix.

    With a key, the six characters follow from it.
    """
    return f"{slug_of(slug)}-{_random_suffix() if key is None else run_id_suffix(key)}"


def run_id_suffix(key: str) -> str:
    """The end of the id of the run that is created with this key."""
    number = int.from_bytes(hashlib.sha256(f"run {key}".encode()).digest())
    return "".join(_ALPHABET[number // len(_ALPHABET) ** place % len(_ALPHABET)] for place in range(6))


def _random_suffix() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(6))


def is_run_id(text: str) -> bool:
    """Whether the text has the form of `new_run_id`."""
    return _RUN_ID.fullmatch(text) is not None


def new_sid() -> str:
    return secrets.token_hex(6)


def new_effect_id() -> str:
    return secrets.token_hex(8)
