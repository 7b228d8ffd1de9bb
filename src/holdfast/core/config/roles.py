"""Check role names, with suggestions for misspelt ones."""

from collections.abc import Collection

from holdfast.core.config.validation import suggest_instead
from holdfast.core.messages.signals import ROLES


def mistake_in_role(role: str, known: Collection[str] = tuple(ROLES)) -> str | None:
    """The mistake in a role name; None when it is valid, such as `reviewer` or `reviewer:logic`."""
    base, _, own = role.partition(":")
    if base in ROLES:
        return None
    return f"there is no role {base!r}; {suggest_instead(base, known)}" + (
        "" if own else f" (for your own role, add a name to one of these: agent:{base})"
    )
