"""The URL of a Postgres store: how it is recognized, and shown without its password.

Imports as little as possible: every command asks whether a store is named.
"""

from __future__ import annotations

_SCHEMES = ("postgresql://", "postgres://")


def is_postgres_url(text: str) -> bool:
    return text.startswith(_SCHEMES)


def shown(url: str) -> str:
    """Return the URL for messages: without a password and without options."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("?")[0].partition("/")
    user, at, host = authority.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{slash}{path}"


def has_password(url: str) -> bool:
    authority, _, options = url.partition("://")[2].partition("?")
    user, at, _ = authority.partition("/")[0].rpartition("@")
    return (bool(at) and ":" in user) or any(option.startswith("password=") for option in options.split("&"))
