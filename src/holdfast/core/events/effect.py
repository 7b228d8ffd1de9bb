"""Changes to the world outside the log: the intent before, the outcome after."""

from typing import Any, ClassVar

from holdfast.core.events.base import Event


class EffectIntended(Event, frozen=True, kw_only=True):
    """Durable before the effect is performed. Without an outcome after it, a probe must find out what happened."""

    type: ClassVar[str] = "effect.intended"
    effect: str
    kind: str
    task: str | int | None = None
    arguments: dict[str, Any] = {}


class EffectHappened(Event, frozen=True, kw_only=True):
    """The effect happened: known from performing it, or after a crash from its probe (`settled_by: probe`)."""

    type: ClassVar[str] = "effect.happened"
    effect: str
    settled_by: str = "run"
    result: dict[str, Any] = {}


class EffectDidNotHappen(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "effect.did_not_happen"
    effect: str
    settled_by: str = "run"
    reason: str | None = None


class EffectUnknown(Event, frozen=True, kw_only=True):
    """The probe could not find out. The effect stays open and is shown to the user; Holdfast never guesses."""

    type: ClassVar[str] = "effect.unknown"
    effect: str
    reason: str | None = None


FAMILY = (EffectIntended, EffectHappened, EffectDidNotHappen, EffectUnknown)
