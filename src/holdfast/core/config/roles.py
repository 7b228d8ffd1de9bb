"""The roles that agents play, and what a name that is none of them was probably meant to be."""

from collections.abc import Collection

from holdfast.core.config.validation import instead_of
from holdfast.core.messages.signals import ROLES


def mistake_in_role(role: str, known: Collection[str] = tuple(ROLES)) -> str | None:
    """What is wrong with the name of a role; None when it is one, such as `reviewer` or `reviewer:logic`."""
    base, _, own = role.partition(":")
    if base in ROLES:
        return None
    return f"there is no role {base!r}; {instead_of(base, known)}" + (
        "" if own else f" (a role of your own is one of these with a name: agent:{base})"
    )
