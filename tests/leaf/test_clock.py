"""The wall clock writes the moment as the envelope does: UTC, to the millisecond, never rounded up."""

from datetime import UTC, datetime

from holdfast.leaf.clock import now


def test_the_present_moment_lies_between_before_and_after() -> None:
    for _ in range(2000):
        before, moment, after = datetime.now(UTC), now(), datetime.now(UTC)
        assert len(moment) == len("2026-02-14T10:00:00.000Z")
        assert moment.endswith("Z")
        read = datetime.fromisoformat(moment)
        assert before.replace(microsecond=before.microsecond // 1000 * 1000) <= read <= after
