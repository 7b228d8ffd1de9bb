"""Limits and outages, recognised in what agents and providers say."""

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from holdfast.agents.limits.problem import problem_in_reply
from holdfast.agents.limits.recognize import problem_in_error
from holdfast.agents.limits.times import reset_time
from holdfast.agents.registry import BUILT_IN

NOW = dt.datetime(2026, 3, 4, 10, 0, tzinfo=dt.UTC).timestamp()  # a Wednesday
HOUR = 3600.0


def at(*moment: int, zone: str = "UTC") -> float:
    return dt.datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp()  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("try again in 3 hours 2 minutes", NOW + 3 * HOUR + 120),
        ("Please retry in 35.2s.", NOW + 35.2),
        ("Your quota will reset after 7h32m10s.", NOW + 7 * HOUR + 32 * 60 + 10),
        ("10 requests in 1 minute are allowed; try again in about 20 seconds", NOW + 20),
        ("try again in 2 days, 3 hours and 5 minutes", NOW + 51 * HOUR + 300),
        ("retry after 250ms", NOW + 0.25),
        ("please wait 41 minutes before trying again", NOW + 41 * 60),
        ("usage limit reached|1772629200", 1772629200),
        ("resets at 1772629200000", 1772629200),
        ("resets 2026-03-04T12:30:00Z", at(2026, 3, 4, 12, 30)),
        ("reset at 2026-03-04 12:30:00+01:00", at(2026, 3, 4, 11, 30)),
        ("resets 3pm (America/Los_Angeles)", at(2026, 3, 4, 15, zone="America/Los_Angeles")),
        ("resets 9:30am (UTC)", at(2026, 3, 5, 9, 30)),  # it is ten: tomorrow
        ("resets Oct 9, 5pm (Europe/Berlin)", at(2026, 10, 9, 17, zone="Europe/Berlin")),
        ("resets Jan 2 at 5pm (UTC)", None),  # it has passed, and the next one is ten months away
        ("resets Mar 1, 5pm (UTC)", None),
        ("try again at Nov 3rd, 2026 4:05 PM.", at(2026, 11, 3, 16, 5)),
        ("resets Monday at 9am", at(2026, 3, 9, 9)),
        ("resets Wed 9am", at(2026, 3, 11, 9)),
        ("resets 10am (UTC)", NOW),  # not tomorrow: it is only just ten
        ("You will regain access on 2026-04-01 at 00:00 UTC.", at(2026, 4, 1)),
        ("your limit resets on 2026-03-09", at(2026, 3, 9)),
        ("the model gpt-4o-2026-11-20 is gone", None),
        ("resets 2026-03-04 15:00 (Europe/Berlin)", at(2026, 3, 4, 14)),
        ("resets at 5:30 PM on Oct 9", at(2026, 10, 9, 17, 30)),
        ("resets 7pm, Mar 9", at(2026, 3, 9, 19)),
        ("resets 9 Oct, 5pm", at(2026, 10, 9, 17)),
        ("resets Sunday, March 8 at 5pm", at(2026, 3, 8, 17)),
        ("available again at 9am tomorrow", at(2026, 3, 5, 9)),
        ("Access resets at 12:00 AM GMT+1.", at(2026, 3, 4, 23)),
        ("resets 11pm UTC-05:30", at(2026, 3, 5, 4, 30)),
        ("resets 3pm (America/Port-au-Prince)", at(2026, 3, 4, 20)),
        ("try again in an hour", NOW + HOUR),
        ("try again in less than a minute", NOW + 60),
        ("Retry in 3hr 20min", NOW + 3 * HOUR + 1200),
        ("You may send 40 requests in 24 hours", None),
        ('{"at": "2026-03-04T09:59:58Z", "again": "2026-03-04T12:00:00Z"}', at(2026, 3, 4, 12)),
        ("available again tomorrow", None),
        ("try again on tomorrow at 8:15", at(2026, 3, 5, 8, 15)),
        ("quota resets at midnight Pacific time", at(2026, 3, 5, zone="America/Los_Angeles")),
        ("resets at 0:00 UTC", at(2026, 3, 5)),
        ("it looked at 5 files", None),
        ("error at line 12:30", None),
        ("the limit is 5-hour", None),
        ("resets Feb 31, 2026", None),
        ("see issue 1234567890", None),
    ],
)
def test_times_are_read(text: str, expected: float | None) -> None:
    found = reset_time(text, NOW, dt.UTC)
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_day_of_next_year_needs_no_year() -> None:
    new_year_eve = at(2026, 12, 31, 22)
    assert reset_time("resets Jan 2 at 5pm (UTC)", new_year_eve) == at(2027, 1, 2, 17)
    assert reset_time("resets 1am (UTC)", new_year_eve) == at(2027, 1, 1, 1)
    assert reset_time("resets Dec 30, 5pm (UTC)", new_year_eve) is None


def test_a_leap_day_is_a_day_of_the_next_leap_year_only() -> None:
    assert reset_time("resets Feb 29 (UTC)", at(2028, 2, 28, 22)) == at(2028, 2, 29)
    assert reset_time("resets Feb 29 (UTC)", at(2028, 3, 2)) is None


def test_data_of_any_depth_is_read() -> None:
    data: Any = {"retryAfter": 12}
    for _ in range(5000):
        data = {"error": data}
    found = problem_in_error("usage limit reached", NOW, data=data)
    assert found is not None
    assert (found.kind, found.resets_at) == ("quota", None)


def test_summer_time_is_respected() -> None:
    before = at(2026, 3, 28, 20, zone="Europe/Berlin")
    assert reset_time("resets 6am (Europe/Berlin)", before) == at(2026, 3, 29, 6, zone="Europe/Berlin")
    assert at(2026, 3, 29, 6, zone="Europe/Berlin") - before == 9 * HOUR


@pytest.mark.parametrize(
    ("agent", "text", "kind", "after"),
    [
        ("claude", "Claude AI usage limit reached|1772629200", "quota", 1772629200 - NOW),
        ("claude", "5-hour limit reached ∙ resets 3pm (UTC)", "quota", 5 * HOUR),
        ("claude", "You've hit your limit · resets 3pm (UTC)", "quota", 5 * HOUR),
        ("claude", "You’ve reached your weekly limit · resets Mar 6, 10am (UTC)", "quota", 48 * HOUR),
        ("claude", "Opus weekly limit reached ∙ resets Mar 6, 10am (UTC)", "quota", 48 * HOUR),
        ("claude", "Credit balance is too low", "quota", None),
        ("claude", "Claude usage limit reached. Your limit will reset at 3pm (UTC).", "quota", 5 * HOUR),
        ("claude", "You've used up your extra usage · resets 3pm (UTC)", "quota", 5 * HOUR),
        ("claude", "Limit reached · resets 3pm (UTC) · /upgrade to Max", "quota", 5 * HOUR),
        ("claude", "Spending cap reached resets 3pm (UTC)", "quota", 5 * HOUR),
        ("claude", "Your org is out of usage", "quota", None),
        ("claude", "5-hour limit reached resets 3pm (UTC)", "quota", 5 * HOUR),
        ("opencode", "Too Many Requests: quota exceeded", "quota", None),
        ("opencode", "Insufficient balance. Manage your billing here", "quota", None),
        ("claude", "You've hit your org's monthly usage limit", "quota", None),
        (
            "claude",
            "API Error: 400 You have reached your specified API usage limits. Access again on 2026-04-01 at 00:00 UTC.",
            "quota",
            27 * 24 * HOUR + 14 * HOUR,
        ),
        ("claude", "API Error: The socket connection was closed unexpectedly.", "outage", None),
        ("claude", 'API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}', "outage", None),
        ("claude", "API Error: Connection error.", "outage", None),
        (
            "codex",
            "You've hit your usage limit. Upgrade to Pro (see the pricing page) or try again in 3 hours 2 minutes.",
            "quota",
            3 * HOUR + 120,
        ),
        ("codex", "You've hit your usage limit. Or try again at Mar 6th, 2026 10:00 AM.", "quota", 48 * HOUR),
        ("codex", "stream disconnected before completion: Rate limit reached for m. Try again in 9s.", "quota", 9),
        ("codex", "Your workspace is out of credits. Ask your workspace owner to refill.", "quota", None),
        ("codex", "You hit your spend cap set by the owner of your workspace.", "quota", None),
        ("codex", "Selected model is at capacity. Please try a different model.", "outage", None),
        ("codex", "exceeded retry limit, last status: 429 Too Many Requests", "quota", None),
        ("codex", "stream disconnected before completion: error sending request", "outage", None),
        ("gemini", "You have exhausted your daily quota on this model.", "quota", None),
        ("gemini", "Resource has been exhausted (e.g. check quota).", "quota", None),
        ("gemini", "Quota exceeded for quota metric 'Requests' of service 'x'. Please retry in 34.07s", "quota", 34.07),
        ("gemini", "You have reached your daily gemini-2.5-pro quota limit.", "quota", None),
        ("gemini", "Usage limit reached for gemini-2.5-pro. Access resets at 3:00 PM GMT.", "quota", 5 * HOUR),
        ("gemini", "[API Error: No capacity available for model m on the server]", "outage", None),
        ("gemini", "[API Error: You exceeded your current quota. Please retry in 35.2s.]", "quota", 35.2),
        ("gemini", "[API Error: The model is overloaded. Please try again later. (503 UNAVAILABLE)]", "outage", None),
        (
            "copilot",
            (
                "Sorry, you've hit a rate limit that restricts the number of Copilot model requests. "
                "Please try again in 41 minutes."
            ),
            "quota",
            41 * 60,
        ),
        ("copilot", "Execution failed: Error: 402 You have no quota (premium requests)", "quota", None),
        ("copilot", "Sorry, you have been rate-limited. Please wait a moment before trying again.", "quota", None),
        ("copilot", "Sorry, you've exhausted this model's rate limit. Please try a different model.", "quota", None),
        ("copilot", "You have used up all of your premium requests for this month.", "quota", None),
        ("copilot", "✗ Execution failed: Error: Last error: CAPIError: 429 429 quota exceeded", "quota", None),
        ("copilot", "You've exceeded your premium request allowance.", "quota", None),
        ("qwen", "Qwen OAuth quota exceeded: Your free daily quota has been reached.", "quota", None),
        ("qwen", "[API Error: 429 Allocated quota exceeded, please increase your quota limit.]", "quota", None),
        ("opencode", "Rate limit exceeded. Please try again later.", "quota", None),
        ("opencode", "AI_APICallError: Cannot connect to API: connect ECONNREFUSED 127.0.0.1:1", "outage", None),
        ("opencode", "Monthly usage limit reached. Resets in 12 days.", "quota", 12 * 24 * HOUR),
        ("opencode", "Free usage exceeded, subscribe to Go", "quota", None),
        ("kimi", "Error code: 429 - {'error': {'message': 'please try again after 20 seconds'}}", "quota", 20),
        (
            "kimi",
            "You've reached your usage limit for this period. Your quota will be refreshed in 2 hours.",
            "quota",
            2 * HOUR,
        ),
        ("kimi", "LLM provider error: Error code: 429 - rate limit reached", "quota", None),
    ],
)
def test_an_agents_own_wording_is_a_message_about_its_limit(
    agent: str, text: str, kind: str, after: float | None
) -> None:
    wording = BUILT_IN[agent].wording
    found = problem_in_reply(text, NOW, wording.quota, wording.outage)
    assert found is not None
    assert found.kind == kind
    assert found.resets_at == (None if after is None else pytest.approx(NOW + after, abs=1))
    in_error = problem_in_error(f"the agent refused session/prompt: Internal error: {text}", NOW, code=-32603)
    assert in_error is not None
    assert in_error.kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "I added a rate limit of 10 requests per minute to the API; it returns 429 when exceeded.",
        "The usage limit in settings.py is now checked. You've hit your limit is the new message.",
        "Session limit reached handling is in auth.py.",
        "Too many requests are made by the loop; I made it wait.",
        "Insufficient balance is an error of its own now.",
        "Usage limit reached for a user is logged.",
        "Resource has been exhausted is what the server says then.",
        "You've hit your limit · resets 3pm. " + "This is the text of the banner that I added. " * 20,
        "done",
        "",
    ],
)
def test_work_about_limits_is_work(text: str) -> None:
    for entry in BUILT_IN.values():
        assert problem_in_reply(text, NOW, entry.wording.quota, entry.wording.outage) is None


@pytest.mark.parametrize(
    ("text", "data", "kind", "after"),
    [
        ("m", {"kind": "rate_limit", "resetsAt": "2026-03-04T12:00:00Z"}, "quota", 2 * HOUR),
        ("m", {"kind": "quota", "resetsAt": None}, "quota", None),
        ("try again in 5 minutes", {"kind": "rate_limit", "resetsAt": None}, "quota", 300),
        ("m", {"kind": "passing"}, "outage", None),
        ("the quota of words is used up", {"kind": "context"}, None, None),
        ("Internal error", {"details": "usage_limit_reached", "resets_in_seconds": 90}, "quota", 90),
        ("Internal error", '{"error":{"code":429,"details":[{"retryDelay":"34s"}]}}', "quota", 34),
        ("Internal error", {"error": {"status": 429, "retryAfter": 12}}, "quota", 12),
        ('unexpected status 429 Too Many Requests: {"error":{"resets_in_seconds":5300}}', None, "quota", 5300),
        ("Internal error", {"details": 'ApiError: {"error":{"details":[{"retryDelay":"34s"}]}} quota'}, "quota", 34),
        ("Daily token limit reached", None, "quota", None),
        ("Your request exceeded model token limit: 262144 (requested: 270000)", None, None, None),
        ("The maximum context limit has been reached", None, None, None),
        ("Maximum number of turns limit reached", None, None, None),
        ("EDQUOT: disk quota exceeded, write", None, None, None),
        ("error sending request for url (https://example.com/responses)", None, "outage", None),
        ("Capacity for your plan is gone; it is back again in 4 hours", None, "quota", 4 * HOUR),  # unknown wording
        ("The wheel spins until 15:00 UTC, then you can try again", None, "quota", 5 * HOUR),
        ("fetch failed: getaddrinfo EAI_AGAIN api.example.com", None, "outage", None),
        ("connect ECONNREFUSED 127.0.0.1:8080", None, "outage", None),
        ("503 Service Unavailable", None, "outage", None),
        ("the tool printed 500 lines", None, None, None),
        ("Authentication required", None, None, None),
        ("401 Unauthorized: try again at 15:00", None, None, None),
        ("prompt is too long: 210000 tokens", None, None, None),
        ("no such session", None, None, None),
    ],
)
def test_errors_are_recognised(text: str, data: Any, kind: str | None, after: float | None) -> None:
    found = problem_in_error(text, NOW, data=data)
    assert (found.kind if found is not None else None) == kind
    if found is not None:
        assert found.resets_at == (None if after is None else pytest.approx(NOW + after, abs=1))
