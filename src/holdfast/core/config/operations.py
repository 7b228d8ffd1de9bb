"""Settings of runs that nobody watches: notifications, budgets, prices, telemetry."""

from typing import Annotated

from msgspec import Meta

from holdfast.core.config.tables import Command, Count, Money, SettingsTable
from holdfast.core.notify.kinds import NotificationKind
from holdfast.core.notify.schedule import QUIET_PATTERN, TIME_PATTERN

_Url = Annotated[str, Meta(pattern="^https?://")]
_TimeOfDay = Annotated[str, Meta(pattern=TIME_PATTERN)]
_Hours = Annotated[str, Meta(pattern=QUIET_PATTERN)]

_EVENTS = (
    NotificationKind.NEEDS_YOU,
    NotificationKind.FAILED,
    NotificationKind.DONE,
    NotificationKind.PARKED,
    NotificationKind.RESUMED,
)


class NotifyTarget(SettingsTable, frozen=True):
    """Where notifications go: the desktop, a webhook, or a command; one of the three. Only your own config sets it."""

    desktop: Annotated[bool, Meta(description="show them on this machine, with `notify-send`")] = False
    webhook: Annotated[
        _Url | None,
        Meta(
            description="the URL that gets each as a signed POST request",
            examples=["https://example.org/hooks/holdfast"],
        ),
    ] = None
    command: Annotated[
        Command | None,
        Meta(description="the command that gets each as JSON on stdin", examples=["mail-me --subject Holdfast"]),
    ] = None
    key_variable: Annotated[
        str | None,
        Meta(description="the environment variable with the key that signs requests", examples=["WEBHOOK_SECRET"]),
    ] = None
    key_file: Annotated[
        str | None, Meta(description="the file with that key", examples=["~/.config/holdfast/webhook.key"])
    ] = None
    kinds: Annotated[tuple[NotificationKind, ...], Meta(description="what it gets")] = _EVENTS
    quiet: Annotated[
        _Hours | None,
        Meta(
            description="hours in which nothing is sent; afterwards one digest says what happened",
            examples=["22:00-07:00"],
        ),
    ] = None
    urgent: Annotated[
        tuple[NotificationKind, ...],
        Meta(description="what is sent in quiet hours too", examples=[["needs_you"]]),
    ] = ()
    digest: Annotated[
        _TimeOfDay | None,
        Meta(
            description="when `holdfast watch` or `serve` sends a digest of all runs, each day",
            examples=["08:00"],
        ),
    ] = None


class Budgets(SettingsTable, frozen=True):
    """Limits on what is spent beyond one run. A task is part of a run; a day is a local day of this machine."""

    task_dollars: Annotated[Money | None, Meta(description="cost of one task", examples=[5.0])] = None
    task_tokens: Annotated[Count | None, Meta(description="tokens of one task", examples=[500_000])] = None
    day_dollars: Annotated[Money | None, Meta(description="cost of all runs in one day", examples=[50.0])] = None
    day_tokens: Annotated[Count | None, Meta(description="tokens of all runs in one day", examples=[5_000_000])] = None
    repository_dollars: Annotated[
        Money | None, Meta(description="cost of all runs of the repository", examples=[200.0])
    ] = None
    repository_tokens: Annotated[
        Count | None, Meta(description="tokens of all runs of the repository", examples=[50_000_000])
    ] = None


class Price(SettingsTable, frozen=True):
    """What a model costs, for estimates when an agent reports only tokens: dollars for a million tokens."""

    input: Annotated[Money, Meta(description="of a million input tokens", examples=[3.0])]
    output: Annotated[Money, Meta(description="of a million output tokens", examples=[15.0])]


class TelemetrySettings(SettingsTable, frozen=True):
    """Traces and metrics by OpenTelemetry; needs `holdfast[otel]`."""

    enabled: Annotated[bool, Meta(description="whether runs export while they work")] = False
    endpoint: Annotated[
        _Url | None,
        Meta(
            description="the collector's base URL (OTLP over HTTP); default: `OTEL_EXPORTER_OTLP_ENDPOINT`, "
            "else http://127.0.0.1:4318",
            examples=["http://127.0.0.1:4318"],
        ),
    ] = None
    content: Annotated[
        bool, Meta(description="whether prompts, answers and the input of tool calls are exported too")
    ] = False
