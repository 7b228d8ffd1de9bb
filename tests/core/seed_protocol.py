"""The Resume Protocol's own snippets, line for line in Python: what our analysis is measured against."""

import itertools
from typing import Any

import msgspec

Record = dict[str, Any]

ISSUES = ("error.encountered", "blocker.reported", "task.failed")


def records(log: bytes) -> list[Record]:
    return [msgspec.json.decode(line) for line in log.splitlines()]


def detect_gaps(events: list[Record]) -> list[Record]:
    ordered = sorted(events, key=lambda event: event["seq"])
    gaps = []
    for before, after in itertools.pairwise(ordered):
        expected, actual = before["seq"] + 1, after["seq"]
        if actual != expected:
            gaps.append(
                {
                    "after_seq": before["seq"],
                    "expected_seq": expected,
                    "actual_seq": actual,
                    "missing_count": actual - expected,
                }
            )
    return gaps


def last_checkpoint(events: list[Record]) -> Record | None:
    checkpoints = [event for event in events if event["type"] == "checkpoint"]
    return checkpoints[-1] if checkpoints else None


def task_state(events: list[Record]) -> dict[str, str]:
    status = {"task.started": "IN_PROGRESS", "task.completed": "COMPLETE", "task.failed": "FAILED"}
    return {str(e["data"]["taskId"]): status[e["type"]] for e in events if e["type"] in status}


def active_agents(events: list[Record]) -> list[str]:
    spawned = dict.fromkeys(event["data"]["name"] for event in events if event["type"] == "agent.spawned")
    completed = {event["data"]["name"] for event in events if event["type"] == "agent.completed"}
    return [name for name in spawned if name not in completed]


def post_checkpoint(events: list[Record], *types: str) -> list[Record]:
    last = last_checkpoint(events)
    after = last["seq"] if last else -1
    return [event for event in events if event["seq"] > after and event["type"] in types]


def interrupted_sessions(events: list[Record]) -> list[str]:
    """Most recent first."""
    sids = list(dict.fromkeys(event["sid"] for event in events))
    ended = {event["sid"] for event in events if event["type"] == "session.end"}
    return [sid for sid in reversed(sids) if sid not in ended]


def newest_from_the_end(events: list[Record]) -> tuple[str | None, bool]:
    last_session_id, has_session_end = None, False
    for event in reversed(events):
        if not last_session_id:
            last_session_id = event["sid"]
        if event["sid"] != last_session_id:
            break
        if event["type"] == "session.end":
            has_session_end = True
            break
    return last_session_id, last_session_id is not None and not has_session_end
