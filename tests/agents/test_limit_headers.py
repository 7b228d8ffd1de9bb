"""When a provider will take more, from its own words."""

import pytest

from holdfast.agents.limits.headers import resets_at, to_iso

_NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "body", "after"),
    [
        ({}, None, None),
        ({"Retry-After": "30"}, None, 30),
        ({"retry-after-ms": "1500", "retry-after": "2"}, None, 1.5),
        ({"retry-after": "Fri, 15 Jan 2027 09:00:00 GMT"}, None, 3600),
        ({"retry-after": "soon"}, None, None),
        ({"x-ratelimit-reset-requests": "6m0s"}, None, 360),
        ({"x-ratelimit-reset-requests": "1h2m3.5s"}, None, 3723.5),
        ({"x-ratelimit-reset-tokens": "250ms"}, None, 0.25),
        ({"x-ratelimit-reset-tokens": "9h", "x-ratelimit-remaining-tokens": "5"}, None, None),
        ({"anthropic-ratelimit-unified-reset": "1800007200"}, None, 7200),
        (
            {
                "anthropic-ratelimit-unified-5h-reset": "1800007200",
                "anthropic-ratelimit-unified-5h-status": "rejected",
                "anthropic-ratelimit-unified-7d-reset": "1800400000",
                "anthropic-ratelimit-unified-7d-status": "allowed_warning",
            },
            None,
            7200,
        ),
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:01:00Z"}, None, 60),
        ({}, {"error": {"details": [{"retryDelay": "34s"}]}}, 34),
        ({}, {"error": {"details": [{"metadata": {"quotaResetTimeStamp": "2027-01-15T08:02:00Z"}}]}}, 120),
        ({}, {"error": {"type": "usage_limit_reached", "resets_in_seconds": 90}}, 90),
        ({}, {"error": {"resets_at": 1800000042}}, 42),
        ({"anthropic-ratelimit-unified-reset": "99999999999"}, None, None),
        ({"anthropic-ratelimit-unified-reset": "12"}, {"error": ["?"]}, 12),
    ],
)
def test_reset_times_are_read(headers: dict[str, str], body: object, after: float | None) -> None:
    found = resets_at(headers, body, _NOW)
    assert found == (None if after is None else pytest.approx(_NOW + after))


def test_a_moment_is_written_in_utc() -> None:
    assert to_iso(_NOW) == "2027-01-15T08:00:00Z"
